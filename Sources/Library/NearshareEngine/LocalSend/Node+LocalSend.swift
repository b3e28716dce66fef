internal import Logging
package import NearshareInterfaces
internal import NearshareLocalSend

extension Node {
    /// Receives from LocalSend devices until the node shuts down.
    /// - Parameters:
    ///   - listener: receives their offers as invitations.
    ///   - security: shows this node's certificate.
    ///   - pin: required from senders; nil for none.
    ///   - port: the preferred TCP port; if another socket has it, a free one is used and announced.
    package func serveLocalSend(
        for listener: Listener, _ security: any LinkSecurity, pin: String?, port: UInt16? = nil,
        timeouts: LocalSendServer.Timeouts = LocalSendServer.Timeouts()
    ) throws(NodeError) -> LocalSendServer {
        let socket = try listen(preferring: port ?? LocalSendDevice.port)
        let server = LocalSendServer(
            self, security, port: socket.port, pin: pin, invitations: listener.continuations.invitations, timeouts: timeouts)
        try startAcceptingForeignLinks(from: socket, for: "LocalSend") { await server.serve($0, $1) }
        do throws(ThreadError) {
            try announce(server)
        } catch {
            remove(socket)
            throw NodeError(error)
        }
        start { [stopping] in
            _ = await stopping.value
            server.stop()
        }
        return server
    }

    /// Devices that know this machine's address reach it without announcements, too.
    private func announce(_ server: LocalSendServer) throws(ThreadError) {
        let group: (any GroupSocket)?
        do throws(LinkError) {
            group = try settings.groups?.open(
                group: LocalSendDevice.group, port: LocalSendDevice.port, interface: settings.interface)
        } catch {
            settings.log.warning("LocalSend devices do not find this machine: \(error)")
            return
        }
        guard let group else { return }
        let announcer = LocalSendAnnouncer(server, group)
        for work in [announcer.listen, announcer.answerAll] {
            let thread = try BlockingThread.start { work() }
            start { await thread.join() }
        }
        start { await announcer.announce() }
        start { [stopping] in
            _ = await stopping.value
            announcer.stop()
        }
    }
}
