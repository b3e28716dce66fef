import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareDirect

@Suite("frames of a message channel") struct ChannelFrameTests {
    private static let frames: [ChannelFrame] = [
        .resume(ownEpoch: 1, peerEpoch: 0, expected: .max), .message(number: 7, acknowledged: 6, kind: 1, bytes: [1, 2, 3]),
        .message(number: 0, acknowledged: 0, kind: 200, bytes: []), .acknowledgement(.max),
        .metadata(revision: .max, bytes: [0xf6]), .selectiveAcknowledgement(next: 0, [1..<2, 3..<UInt64.max]),
    ]

    @Test func `frames return from their bytes, and truncated ones are rejected`() throws {
        for frame in Self.frames {
            let bytes = frame.encoded
            #expect(try ChannelFrame(decoding: bytes) == frame)
            switch frame {
            case .message, .metadata: break
            case .resume, .acknowledgement, .selectiveAcknowledgement:
                #expect(throws: MalformedInput.self) { try ChannelFrame(decoding: bytes + [0]) }
                #expect(throws: MalformedInput.self) { try ChannelFrame(decoding: bytes.dropLast()) }
            }
        }
        #expect(throws: MalformedInput.self) { try ChannelFrame(decoding: []) }
        #expect(throws: MalformedInput.self) { try ChannelFrame(decoding: [3, 0, 0, 0, 0, 0, 0, 0]) }
        #expect(try ChannelFrame(decoding: [5, 1, 2]) == nil)
    }

    @Test("R7: ranges of acknowledged messages ascend with gaps, none is empty, and there are 1 to 64")
    func ranges() throws {
        func decode(_ next: UInt64, _ bounds: [UInt64]) throws -> ChannelFrame? {
            try ChannelFrame(decoding: [4] + ([next] + bounds).flatMap(\.bigEndianBytes))
        }
        #expect(try decode(5, [6, 7, 9, 12]) == .selectiveAcknowledgement(next: 5, [6..<7, 9..<12]))
        let invalid: [[UInt64]] = [
            [], [6], [5, 7], [7, 7], [8, 7], [.max, 0], [6, 8, 8, 9], [6, 9, 7, 8], [9, 10, 6, 7],
        ]
        for bounds in invalid { #expect(throws: MalformedInput.self, "\(bounds)") { try decode(5, bounds) } }
        let many = (1...65 as ClosedRange<UInt64>).flatMap { [$0 * 2, $0 * 2 + 1] }
        #expect(throws: MalformedInput.self) { try decode(0, many) }
        #expect(try decode(0, Array(many.dropLast(2))) != nil)
    }

    @Test("R1: a message over the limit is rejected")
    func tooLong() throws {
        let bytes = [UInt8](repeating: 0, count: SessionMessage.maximumByteCount + 1)
        let frame = ChannelFrame.message(number: 0, acknowledged: 0, kind: 0, bytes: bytes[...]).encoded
        #expect(throws: MalformedInput.self) { try ChannelFrame(decoding: frame) }
        #expect(try ChannelFrame(decoding: Array(frame.dropLast())) != nil)
    }
}
