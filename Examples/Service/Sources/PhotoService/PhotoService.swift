import Foundation
import Logging
import Nearshare
import ServiceLifecycle

/// A server that keeps the photos of everybody in the room, as a group of services that ends with SIGTERM.
///
///     PhotoService                    receives, into the folder `photos`
///     PhotoService photo.jpg          sends a photo to it
@main struct PhotoService {
    static func main() async throws {
        let machine = try LocalMachine(identity: .ephemeral)
        if let path = CommandLine.arguments.dropFirst().first {
            return try await machine.run { try await send(URL(fileURLWithPath: path), from: $0) }
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

    static func send(_ url: URL, from node: Node) async throws {
        var settings = SessionSettings()
        settings.trust = .anyKey
        let session = try node.startSession(settings)
        let server = try await node.invite("photos", into: session, for: ServiceType("photos"))
        try await session.send(SessionMessage(Data("a photo follows".utf8)), to: [server])
        guard let transfer = try await session.sendResource(at: url, to: [server])[server] else { return }
        let progress = Progress(totalUnitCount: -1)
        let outcome = await transfer.report(to: progress).outcome
        print(
            "\(outcome): \(progress.completedUnitCount) of \(progress.totalUnitCount) bytes, finished: \(progress.isFinished)")
        await session.leave()
    }
}

/// Accepts all sessions, and what their members send.
struct Receiver: Service {
    let listener: Listener
    let inbox: Inbox

    func run() async throws {
        var settings = SessionSettings()
        settings.trust = .anyKey
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
