import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareDirect

@Suite("the links of a message channel") struct ChannelLinksTests {
    @Test func `the newest link on which both sides have resumed carries the messages`() {
        var links = ChannelLinks()
        let (first, second) = (links.attach(), links.attach())
        #expect(first != second && links.preferred == nil)
        links.update(second) { ($0.next, $0.hasResumed) = (5, true) }
        #expect(links.preferred?.id == second)
        links.update(first) { ($0.next, $0.hasResumed) = (1, true) }
        #expect(links.preferred?.id == second)
        links.detach(second)
        #expect(links.preferred?.id == first && links[second] == nil)
        // An id is used once, so that late news of an old link concern no new one.
        let third = links.attach()
        #expect(third != second && third != first)
        links.detachResumed()
        #expect(links[first] == nil && links[third] != nil && links.preferred == nil)
    }
}
