internal import Logging
internal import NearshareBase
internal import NearshareInterfaces

/// Links of peers that speak another protocol than this node's: browsers, LocalSend devices.
extension Node {
    /// Time for a last response to these peers when the node stops.
    private static var lastResponseTimeout: Duration { .seconds(1) }

    /// Listens on a port; on a free one if another socket has it.
    func listen(preferring port: UInt16) throws(NodeError) -> any StreamListener {
        do throws(LinkError) {
            do throws(LinkError) {
                return try settings.transport.listen(port: port, interface: settings.interface)
            } catch {
                guard error.code == .portInUse else { throw error }
                return try settings.transport.listen(port: 0, interface: settings.interface)
            }
        } catch {
            throw NodeError(error)
        }
    }

    /// Accepts links on a thread of its own, and serves each in a task, until the listener is closed.
    /// - Parameters:
    ///   - service: its name for the log.
    ///   - isPaced: whether its links begin with a handshake, for which they wait as direct ones do (R9).
    ///   - reject: returns the function that tells a peer beyond the limit of links so; nil to close the link at once.
    func startAcceptingForeignLinks(
        from listener: any StreamListener, for service: String, isPaced: Bool,
        rejecting reject: @escaping @Sendable (any StreamLink) -> (@Sendable () async throws(ThreadError) -> Void)? = {
            _ in nil
        },
        _ serve: @escaping @Sendable (any StreamLink, LinkRegistry.Slot) async throws(ThreadError) -> Void
    ) throws(NodeError) {
        guard insert(listener, nil) else {
            listener.close()
            throw Self.stoppedError
        }
        do throws(ThreadError) {
            let thread = try BlockingThread.start {
                self.acceptForeignLinks(from: listener, for: service, isPaced: isPaced, reject, serve)
            }
            start { await thread.join() }
        } catch {
            remove(listener)
            throw NodeError(error)
        }
    }

    private func acceptForeignLinks(
        from listener: any StreamListener, for service: String, isPaced: Bool,
        _ reject: @escaping @Sendable (any StreamLink) -> (@Sendable () async throws(ThreadError) -> Void)?,
        _ serve: @escaping @Sendable (any StreamLink, LinkRegistry.Slot) async throws(ThreadError) -> Void
    ) {
        while true {
            let link: any StreamLink
            do throws(LinkError) {
                link = try listener.accept()
            } catch {
                if error.code != .closed { settings.log.error("\(service) is not served any more: \(error)") }
                return
            }
            let isAllowed = state.withLock { $0.handshakes.allows(link.remote.host, now: settings.clock()) }
            guard isAllowed else {
                // Unread (R9): a handshake that tells the reason costs a signature.
                settings.log.info("a connection from \(link.remote) to \(service) was closed: too many of its handshakes fail")
                link.close()
                continue
            }
            guard isPaced else {
                admitForeignLink(link, for: service, reject, serve)
                continue
            }
            let isStarted = start { [self] in
                guard await awaitTurn(of: link) else { return link.close() }
                admitForeignLink(link, for: service, reject, serve)
            }
            if !isStarted { link.close() }
        }
    }

    /// Serves a link in a task, or tells its peer that there is no slot for it.
    private func admitForeignLink(
        _ link: any StreamLink, for service: String,
        _ reject: @escaping @Sendable (any StreamLink) -> (@Sendable () async throws(ThreadError) -> Void)?,
        _ serve: @escaping @Sendable (any StreamLink, LinkRegistry.Slot) async throws(ThreadError) -> Void
    ) {
        guard let slot = admit(LinkSource(link.remote), link, isForeign: true) else {
            settings.log.info("a connection from \(link.remote) to \(service) was refused: too many")
            let isRejecting = reject(link).map { startServing(link, for: service, $0) } ?? false
            if !isRejecting { link.close() }
            return
        }
        let isStarted = startServing(link, for: service) { () async throws(ThreadError) in
            defer { self.release(slot) }
            try await serve(link, slot)
        }
        if !isStarted { link.close() }
    }

    /// Serves a link in a task, and logs that it has no thread.
    /// - Returns: false when the node has stopped.
    private func startServing(
        _ link: any StreamLink, for service: String, _ body: @escaping @Sendable () async throws(ThreadError) -> Void
    ) -> Bool {
        start { [self] in
            do throws(ThreadError) {
                try await body()
            } catch {
                settings.log.warning("a connection from \(link.remote) to \(service) was closed: \(error)")
            }
        }
    }

    /// Runs blocking code on a link until it returns. The link is closed at its deadline, which may move, and
    /// ``lastResponseTimeout`` after the node has begun to stop.
    /// - Throws: ``ThreadError`` when the kernel refuses a thread; then `body` is not called, and the link is closed.
    func run(
        on link: any StreamLink, until deadline: @escaping @Sendable () -> MonotonicInstant,
        _ body: @escaping @Sendable () -> Void
    ) async throws(ThreadError) {
        // Not the result of the first operation to end: the deadline may pass at the same time.
        let failure = Monitor<ThreadError?>(nil)
        await firstResult(
            of: {
                do throws(ThreadError) {
                    try await BlockingThread.run(body)
                } catch {
                    failure.update { $0 = error }
                }
                link.close()
            },
            { [self] in
                await firstResult(
                    of: { [self] in
                        _ = await stopping.value
                        try? await Task.sleep(for: Self.lastResponseTimeout)
                    },
                    { [self] in
                        while !Task.isCancelled {
                            let remaining = deadline() - settings.clock()
                            guard remaining > .zero else { return }
                            // Timed: the deadline also comes nearer, with the body of a small request, and nothing signals that.
                            try? await Task.sleep(for: min(remaining, .seconds(1)))
                        }
                    })
                // Ends the reads and writes of the body.
                link.close()
            })
        if let failure = failure.withLock(\.self) { throw failure }
    }
}
