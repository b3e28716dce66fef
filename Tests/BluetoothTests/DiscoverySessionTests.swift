import NearshareBase
import Testing

@testable import NearshareBluetooth

private typealias F = DeviceFixtures

@Suite("when discovery runs")
struct DiscoverySessionTests {
    private let idle = DiscoverySession.Context(isWanted: true, isConnecting: false, outgoingLinkCount: 0, linkCount: 0)

    private func context(_ change: (inout DiscoverySession.Context) -> Void) -> DiscoverySession.Context {
        var context = idle
        change(&context)
        return context
    }

    private func peer() throws -> BluetoothAddress { try #require(BluetoothAddress(F.address(1), kind: "random")) }

    @Test("it starts when wanted, runs on, and stops when not")
    func wanted() {
        var session = DiscoverySession()
        #expect(session.tick(at: F.at(1), in: context { $0.isWanted = false }) == nil)
        #expect(session.nextDeadline(in: context { $0.isWanted = false }) == nil)
        #expect(session.tick(at: F.at(1), in: idle) == .start)
        #expect(session.tick(at: F.at(60), in: idle) == nil)
        #expect(session.nextDeadline(in: idle) == nil, "nothing ends it but an event")
        #expect(session.tick(at: F.at(61), in: context { $0.isWanted = false }) == .stop)
        #expect(session.tick(at: F.at(62), in: context { $0.isWanted = false }) == nil)
    }

    @Test("it stops while a connection is made, and with all links in use")
    func connecting() {
        for change: (inout DiscoverySession.Context) -> Void in [
            { $0.isConnecting = true }, { $0.outgoingLinkCount = ConnectionScheduler.maximumLinkCount },
        ] {
            var session = DiscoverySession()
            #expect(session.tick(at: F.at(1), in: idle) == .start)
            #expect(session.tick(at: F.at(2), in: context(change)) == .stop)
            #expect(session.tick(at: F.at(3), in: context(change)) == nil)
            #expect(session.tick(at: F.at(3), in: idle) == .start, "and starts again at once")
        }
    }

    @Test("with three links it scans for five seconds of fifteen")
    func dutyCycle() {
        var session = DiscoverySession()
        let linked = context { $0.linkCount = 3 }
        #expect(session.tick(at: F.at(0), in: linked) == .start)
        #expect(session.nextDeadline(in: linked) == F.at(5))
        #expect(session.tick(at: F.at(4), in: linked) == nil)
        #expect(session.tick(at: F.at(5), in: linked) == .stop)
        #expect(session.nextDeadline(in: linked) == F.at(15))
        #expect(session.tick(at: F.at(14), in: linked) == nil)
        #expect(session.tick(at: F.at(15), in: linked) == .start)
        #expect(session.tick(at: F.at(100), in: context { $0.linkCount = 2 }) == nil, "with two it runs on")
    }

    @Test("what BlueZ refuses is tried again after two seconds")
    func refused() {
        var session = DiscoverySession()
        #expect(session.tick(at: F.at(0), in: idle) == .start)
        session.startFailed(at: F.at(0))
        #expect(session.tick(at: F.at(1), in: idle) == nil)
        #expect(session.nextDeadline(in: idle) == F.at(2))
        #expect(session.tick(at: F.at(2), in: idle) == .start)
    }

    @Test("channels keep it off until the last one is released")
    func holds() throws {
        var session = DiscoverySession()
        let peer = try peer()
        #expect(session.tick(at: F.at(0), in: idle) == .start)
        #expect(session.hold(peer) == .stop)
        #expect(session.hold(peer) == nil)
        #expect(session.heldAddresses == [peer] && session.isHeld)
        #expect(session.tick(at: F.at(1), in: idle) == nil)
        #expect(session.nextDeadline(in: idle) == nil)
        session.release(peer)
        #expect(session.tick(at: F.at(2), in: idle) == nil, "one is left")
        session.release(peer)
        session.release(peer)
        #expect(!session.isHeld)
        #expect(session.tick(at: F.at(3), in: idle) == .start)
    }

    @Test("a new daemon does not discover: it is started again")
    func reset() throws {
        var session = DiscoverySession()
        #expect(session.tick(at: F.at(0), in: idle) == .start)
        session.reset()
        #expect(session.stop() == nil)
        #expect(session.tick(at: F.at(1), in: idle) == .start)
        #expect(session.hold(try peer()) == .stop)
        session.releaseAll()
        #expect(session.tick(at: F.at(2), in: idle) == .start)
    }
}
