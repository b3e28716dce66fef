import NearshareBase
import Testing

@testable import NearshareEngine

@Suite struct LostContentTests {
    private func id(_ number: Int) -> PeerID {
        PeerID(bytes: [UInt8](repeating: UInt8(number), count: PeerID.byteCount))!
    }

    @Test("lost content is added up for each member, and kept of the latest members") func counts() {
        var lost = LostContent()
        lost.record(messages: 0, streams: 0, of: id(0))
        #expect(lost.members.isEmpty)
        lost.record(messages: 3, of: id(1))
        lost.record(streams: 2, of: id(2))
        lost.record(messages: 1, streams: 1, of: id(1))
        #expect(lost.members == [id(2), id(1)])
        #expect(lost.messageCount(of: id(1)) == 4 && lost.streamCount(of: id(1)) == 1)
        #expect(lost.messageCount(of: id(2)) == 0 && lost.streamCount(of: id(2)) == 2 && lost.streamCount(of: id(3)) == 0)
        for number in 100..<100 + LostContent.maximumMemberCount { lost.record(messages: 1, of: id(number)) }
        #expect(lost.members == (100..<100 + LostContent.maximumMemberCount).map { id($0) })
    }
}
