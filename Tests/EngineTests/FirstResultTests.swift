import NearshareInterfaces
import Testing

@Suite("the first of several operations") struct FirstResultTests {
    private struct Failure: Error {}

    private static func never() async { _ = await Promise<Bool>().value }

    @Test func `the result is that of the operation that ends first`() async {
        let number = await firstResult(
            of: { 1 },
            {
                await Self.never()
                return 2
            })
        #expect(number == 1)
    }

    @Test func `a cancelled task waits for a promise that is certain to be fulfilled`() async {
        let promise = Promise<Int>()
        let waiting = Task { await promise.eventualValue }
        waiting.cancel()
        promise.fulfil(7)
        #expect(await waiting.value == 7)
        #expect(await promise.eventualValue == 7)
    }

    @Test func `a plain value is the result beside an operation that returns nothing`() async {
        let answer: Bool? = await firstResult(
            of: { true },
            {
                await Self.never()
                return nil
            })
        #expect(answer == true)
    }

    @Test func `the error of the operation that ends first is thrown`() async {
        await #expect(throws: Failure.self) {
            try await firstResult(of: { await Self.never() }, { throw Failure() })
        }
    }

    @Test func `the other operations have ended when the first result is returned`() async {
        let ended = Promise<Bool>()
        await firstResult(
            of: {},
            {
                await Self.never()
                ended.fulfil(true)
            })
        #expect(ended.current == true)
    }

    @Test func `an operation that ignores its cancellation is not waited for`() async {
        let (started, answer) = (Promise<Bool>(), Promise<Int>())
        let waiting = Task {
            await untilCancelled {
                started.fulfil(true)
                return await answer.eventualValue
            }
        }
        _ = await started.value
        waiting.cancel()
        #expect(await waiting.value == nil)
        answer.fulfil(7)
        #expect(await untilCancelled { await answer.eventualValue } == 7)
    }

    @Test func `a timeout of zero or less ends an operation at once`() async {
        for timeout in [Duration.zero, .seconds(-1)] {
            let result: Void? = await withTimeout(timeout) { await Self.never() }
            #expect(result == nil)
        }
    }

    @Test func `an operation that ends in time returns its value`() async {
        #expect(await withTimeout(.seconds(60)) { 1 } == 1)
        await #expect(throws: Failure.self) { try await withTimeout(.seconds(60)) { throw Failure() } }
    }
}
