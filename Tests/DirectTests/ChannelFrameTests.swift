import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareDirect

@Suite("frames of a message channel") struct ChannelFrameTests {
    private static let frames: [ChannelFrame] = [
        .resume(ownEpoch: 1, peerEpoch: 0, expected: .max), .message(number: 7, acknowledged: 6, kind: 1, bytes: [1, 2, 3]),
        .message(number: 0, acknowledged: 0, kind: 200, bytes: []), .acknowledgement(.max),
        .metadata(revision: .max, bytes: [0xf6]),
    ]

    @Test func `frames return from their bytes, and truncated ones are rejected`() throws {
        for frame in Self.frames {
            let bytes = frame.encoded
            #expect(try ChannelFrame(decoding: bytes) == frame)
            switch frame {
            case .message, .metadata: break
            case .resume, .acknowledgement:
                #expect(throws: MalformedInput.self) { try ChannelFrame(decoding: bytes + [0]) }
                #expect(throws: MalformedInput.self) { try ChannelFrame(decoding: bytes.dropLast()) }
            }
        }
        #expect(throws: MalformedInput.self) { try ChannelFrame(decoding: []) }
        #expect(throws: MalformedInput.self) { try ChannelFrame(decoding: [3, 0, 0, 0, 0, 0, 0, 0]) }
        #expect(try ChannelFrame(decoding: [4, 1, 2]) == nil)
    }

    @Test("R1: a message over the limit is rejected")
    func tooLong() throws {
        let bytes = [UInt8](repeating: 0, count: SessionMessage.maximumByteCount + 1)
        let frame = ChannelFrame.message(number: 0, acknowledged: 0, kind: 0, bytes: bytes[...]).encoded
        #expect(throws: MalformedInput.self) { try ChannelFrame(decoding: frame) }
        #expect(try ChannelFrame(decoding: Array(frame.dropLast())) != nil)
    }
}
