import Foundation
import Logging
import Nearshare
import ServiceLifecycle

/// A server that keeps the photos of everybody in the room, as a group of services that ends with SIGTERM.
///
///     PhotoService                    receives, into the folder `photos`
///     PhotoService photo.jpg          shows the key of the server, and the short code that the server prints as well
///     PhotoService photo.jpg KEY      sends a photo to the server with this key
@main struct PhotoService {
    static func main() async throws {
        let machine = try LocalMachine(identity: .ephemeral)
        let words = CommandLine.arguments.dropFirst()
        if let path = words.first {
            let key = words.dropFirst().first.flatMap { Fingerprint($0) }
            return try await machine.run { try await send(URL(fileURLWithPath: path), to: key, from: $0) }
        }
        let node = try machine.startNode(as: DisplayName("photos"))
        let receiver = Receiver(listener: try node.listen(as: ServiceType("photos")), inbox: try machine.inbox("photos"))
        // Services end in the opposite order: the node, on which the receiver depends, last.
        let group = ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: [
                    ServiceGroupConfiguration.ServiceConfiguration(service: node),
                    ServiceGroupConfiguration.ServiceConfiguration(service: receiver),
                ],
                gracefulShutdownSignals: [.sigterm, .sigint], logger: Logger(label: "photos")))
        try await group.run()
        print("stopped")
    }

    static func send(_ url: URL, to key: Fingerprint?, from node: Node) async throws {
        var settings = SessionSettings()
        // Any peer can claim the name "photos": its key decides.
        settings.trust = TrustPolicy { check in
            if check.peer.fingerprint == key { return true }
            print("\(check.peer.name) has the short code \(check.shortCode) and the key \(check.peer.fingerprint)")
            return false
        }
        let session = try node.startSession(settings)
        let server: PeerID
        do {
            server = try await node.invite("photos", into: session, for: ServiceType("photos"))
        } catch SessionError.untrusted {
            return print("nothing was sent; if the server has printed the same short code, add its key to the arguments")
        }
        try await session.send(SessionMessage(Data("a photo follows".utf8)), to: [server])
        guard let transfer = try await session.sendResource(at: url, to: [server])[server] else { return }
        let progress = Progress(totalUnitCount: -1)
        let outcome = await transfer.report(to: progress).outcome
        print(
            "\(outcome): \(progress.completedUnitCount) of \(progress.totalUnitCount) bytes, finished: \(progress.isFinished)")
        await session.leave()
    }
}

/// Accepts all sessions, and what their members send: the server is open to all, and its users need to know its key.
struct Receiver: Service {
    let listener: Listener
    let inbox: Inbox

    func run() async throws {
        var settings = SessionSettings()
        settings.trust = TrustPolicy { check in
            print("a peer sees the short code \(check.shortCode)")
            return true
        }
        let sessions = try listener.sessions(InvitationPolicy { _ in true }, settings: settings)
        await cancelWhenGracefulShutdown {
            await withDiscardingTaskGroup { group in
                for await session in sessions {
                    group.addTask { await serve(session) }
                }
            }
        }
    }

    private func serve(_ session: Session) async {
        for await event in session.events {
            switch event {
            case .message(let received):
                print("a member says: \(String(decoding: received.message.data, as: UTF8.self))")
            case .resource(let offer):
                do { _ = try offer.accept(into: inbox) } catch { print("not received: \(error)") }
            case .transferEnded(let transfer, with: _):
                print("received \(await transfer.result.delivered.map(\.path))")
            case .change, .stream, .question: continue
            }
        }
    }
}
