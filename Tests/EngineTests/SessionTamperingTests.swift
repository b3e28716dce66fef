import NearshareBase
import NearshareDirect
import NearshareEngine
import NearshareInterfaces
import NearshareTesting
import Testing

extension SessionStoryTests {
    @Test(
        "K13: data dropped, duplicated, reordered or altered in transit is detected and never delivered; the session continues",
        arguments: LinkKind.allCases, TamperingTransport.Tampering.allCases)
    func tampering(_ linkKind: LinkKind, _ tampering: TamperingTransport.Tampering) async throws {
        // Shared, because either side may reconnect.
        let damagedLinks = Monitor(0)
        let limit = TamperingTransport.maximumDamagedLinkCount
        try await TestNetwork.withSession(of: 2, linkKind) { _, settings in
            settings.transport = TamperingTransport(
                inner: settings.transport, tampering: tampering, damagedLinks: damagedLinks)
        } _: { network, sessions in
            try await withThrowingTaskGroup(of: Void.self) { group in
                let count = Monitor(0)
                // Until each of these links was damaged, of which all but the last were replaced then.
                group.addTask {
                    while damagedLinks.withLock({ $0 < limit }) || count.withLock({ $0 < 500 }) {
                        let number = count.update { count in
                            count += 1
                            return count - 1
                        }
                        try await sessions[0].send(
                            SessionMessage(bytes: [UInt8(number >> 16), UInt8(number >> 8 & 255), UInt8(number & 255)]))
                    }
                    try await sessions[0].send(SessionMessage(bytes: []))
                }
                var next = 0
                for await received in sessions[1].messages {
                    guard !received.message.bytes.isEmpty else { break }
                    #expect(received.message.bytes.reduce(0) { $0 << 8 | Int($1) } == next)
                    next += 1
                }
                try await group.waitForAll()
                #expect(next == count.withLock { $0 })
            }
            #expect(damagedLinks.withLock { $0 } == limit)
            #expect(sessions[0].members.map(\.id) == [network.id(1)])
        }
    }
}
