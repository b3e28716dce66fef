import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareDirect

@Suite("the receiving part of a message channel") struct ReceiveWindowTests {
    private let limits = MessageChannel.Limits()

    @Test func `each number is accepted once, and none is skipped`() throws {
        var window = ReceiveWindow(stale: [])
        let accepted = [try window.receive(0, limits), try window.receive(0, limits), try window.receive(1, limits)]
        #expect(accepted == [true, false, true])
        #expect(throws: MalformedInput.self) { try window.receive(3, limits) }
        #expect(window.expected == 2)
    }

    @Test("R1: a program that takes nothing stops the sender, by number and by bytes")
    func full() throws {
        var window = ReceiveWindow(stale: [])
        for number in 0..<UInt64(limits.maximumUnacknowledgedCount) { _ = try window.receive(number, limits) }
        #expect(throws: MalformedInput.self) { try window.receive(UInt64(limits.maximumUnacknowledgedCount), limits) }
        let large = SessionMessage(bytes: [UInt8](repeating: 0, count: limits.maximumUnacknowledgedByteCount))
        var heavy = ReceiveWindow(stale: [])
        _ = try heavy.receive(0, limits)
        heavy.store(large)
        #expect(throws: MalformedInput.self) { try heavy.receive(1, limits) }
        heavy.recordDelivery(of: large)
        let isAccepted = try heavy.receive(1, limits)
        #expect(isAccepted && heavy.firstUndelivered == 1)
    }

    @Test func `what an earlier channel left is delivered first, and not acknowledged`() throws {
        let message = SessionMessage(bytes: [1])
        var window = ReceiveWindow(stale: [message, message])
        _ = try window.receive(0, limits)
        window.store(message)
        window.recordDelivery(of: message)
        window.recordDelivery(of: message)
        #expect(window.firstUndelivered == 0)
        window.recordDelivery(of: message)
        #expect(window.firstUndelivered == 1)
        // Nothing is left to deliver: another call changes nothing.
        window.recordDelivery(of: message)
        #expect(window.firstUndelivered == 1)
    }

    @Test("R7: a restart opens the window, but not for another epoch before messages of the earlier ones are read")
    func restart() throws {
        var window = ReceiveWindow(stale: [])
        let message = SessionMessage(bytes: [1])
        for number in 0..<UInt64(limits.maximumUnacknowledgedCount) {
            _ = try window.receive(number, limits)
            window.store(message)
        }
        #expect(window.hasRoomForEpoch(limits))
        window.restart()
        #expect(window.expected == 0 && window.firstUndelivered == 0 && !window.hasRoomForEpoch(limits))
        let isAccepted = try window.receive(0, limits)
        #expect(isAccepted)
        window.recordDelivery(of: message)
        #expect(window.hasRoomForEpoch(limits))
    }

    @Test func `an acknowledgement is due after 64 messages or a quarter of the bytes`() throws {
        var window = ReceiveWindow(stale: [])
        for number in 0..<64 as Range<UInt64> {
            #expect(!window.isAcknowledgementDue(acknowledged: 0, limits))
            _ = try window.receive(number, limits)
            window.recordDelivery(of: SessionMessage(bytes: []))
        }
        #expect(window.isAcknowledgementDue(acknowledged: 0, limits) && !window.isAcknowledgementDue(acknowledged: 1, limits))
        window.recordAcknowledgement()
        _ = try window.receive(64, limits)
        window.recordDelivery(
            of: SessionMessage(bytes: [UInt8](repeating: 0, count: limits.maximumUnacknowledgedByteCount / 4)))
        #expect(window.isAcknowledgementDue(acknowledged: 65, limits))
    }
}
