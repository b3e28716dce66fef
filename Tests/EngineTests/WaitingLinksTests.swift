import NearshareInterfaces
import Testing

@testable import NearshareEngine

@Suite("links that wait until a rate permits to serve them")
struct WaitingLinksTests {
    @Test("R9: a link is served when a later decision permits it") func turn() async {
        var decisions: [WaitingLinks.Step] = [.serve, .wait(2)]
        var asked: [UInt64] = []
        let isServed = await WaitingLinks.awaitTurn(
            after: .wait(1), stopping: Promise<Void>(),
            admit: { number in
                asked.append(number)
                return decisions.removeLast()
            },
            remove: { _ in Issue.record("a link was removed without a decision") })
        #expect(isServed)
        #expect(asked == [1, 2])
    }

    @Test func `a link that waits when the node stops is removed, and not served`() async {
        let stopping = Promise<Void>()
        stopping.fulfil()
        var removed: [UInt64] = []
        let isServed = await WaitingLinks.awaitTurn(
            after: .wait(1), stopping: stopping, admit: { _ in .serve }, remove: { removed.append($0) })
        #expect(!isServed)
        #expect(removed == [1])
    }
}
