import Nearshare
import Testing

@testable import NearshareService

@Suite("the name of the running node") struct RunningNameTests {
    private func status(isDaemon: Bool) throws -> NodeStatus {
        let profile = NodeStatus.Profile(
            name: nil, hopLimit: 7, timeToLive: 86_400, sharingTime: 1_000, maximumPropagation: 5, tracklistLimit: 9)
        return NodeStatus(
            id: try #require(PeerID(hex: "1a2b3c4d5e6f7081")), name: try DisplayName("anna"), process: 42, uptime: 3,
            isDaemon: isDaemon, profile: profile, port: 4000, neighbours: [], storedBundleCount: 0, sessionLifetime: 60,
            secureSessions: [], bluetooth: .notUsed, inbox: "/inbox")
    }

    @Test("the user is told which process keeps its former name, and what starts it again")
    func notice() throws {
        let (old, new) = (try DisplayName("anna"), try DisplayName("Anna B"))
        #expect(RunningName.notice(about: try status(isDaemon: true), after: old) == nil)
        let daemon = try #require(RunningName.notice(about: try status(isDaemon: true), after: new))
        #expect(daemon.hasPrefix("`nearshare mesh run` (process 42) is still called anna") && daemon.contains("systemctl"))
        let other = try #require(RunningName.notice(about: try status(isDaemon: false), after: new))
        #expect(other.hasPrefix("`nearshare receive` or `chat` (process 42)") && !other.contains("systemctl"))
    }
}
