import NearshareService
import Testing

@testable import NearshareCLI

@Suite("the lines of receive about its port") struct ReceiverNoticeTests {
    private func warning(node: Int32? = nil, other: ReceiverPort.OtherReceiver? = nil, port: UInt16 = 4711) -> String? {
        ReceiverNotice.warning(about: ReceiverPort.State(port: port, node: node, other: other), chosenPort: 4711)
    }

    @Test func `of two the second one warns of the other, wherever it has its port`() {
        let start = "another `nearshare receive` of this user is running"
        let either = ": peers see one machine, and what they send arrives at either of the two, in its inbox; end one of them"
        #expect(warning(other: .node(process: 7)) == "\(start) (process 7)\(either)")
        #expect(warning(other: .besideNode) == start + either)
        #expect(warning(node: 5, other: .besideNode)?.hasPrefix("\(start): what peers send arrives at this one while") == true)
    }

    @Test func `one alone has nothing to warn of at the chosen port or that of the node`() {
        #expect(warning() == nil && warning(node: 5) == nil)
    }
}
