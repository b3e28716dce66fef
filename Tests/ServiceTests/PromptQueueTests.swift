import Nearshare
import NearshareService
import Synchronization
import Testing

/// A terminal of which the test types the lines.
private final class ScriptedDisplay: PromptDisplay {
    struct State {
        var shown: [String] = []
        var prompt: String?
        var confirmed: [String] = []
        var discardCount = 0
    }

    let state = Mutex(State())
    private let stream: AsyncStream<String>
    private let sink: AsyncStream<String>.Continuation
    private let prompts: AsyncStream<String?>
    private let promptSink: AsyncStream<String?>.Continuation

    init() {
        (stream, sink) = AsyncStream.makeStream()
        (prompts, promptSink) = AsyncStream.makeStream()
    }

    func lines() -> AsyncStream<String> { stream }
    func show(_ text: String) { state.withLock { $0.shown.append(text) } }
    func confirmAnswer(_ line: String) { state.withLock { $0.confirmed.append(line) } }
    func discardTypedInput() { state.withLock { $0.discardCount += 1 } }
    func setPrompt(_ prompt: String?) {
        state.withLock { $0.prompt = prompt }
        promptSink.yield(prompt)
    }

    func type(_ line: String) { sink.yield(line) }
    func hangUp() { sink.finish() }

    /// Waits until a prompt contains `text`.
    func awaitPrompt(_ text: String) async {
        for await case let prompt? in prompts where prompt.contains(text) { return }
    }
}

@Suite("Questions to the user", .timeLimit(.minutes(1)))
struct PromptQueueTests {
    private let display = ScriptedDisplay()

    private func running<Result: Sendable>(_ body: @Sendable (PromptQueue) async throws -> Result) async throws -> Result {
        let queue = PromptQueue(display)
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await queue.run() }
            defer { group.cancelAll() }
            return try await body(queue)
        }
    }

    /// Never ends before the task is cancelled.
    @Sendable private static func forever() async -> TransferOutcome? {
        for await _ in AsyncStream<Never>(unfolding: {
            try? await Task.sleep(for: .seconds(3_600))
            return nil
        }) {}
        return nil
    }

    @Test("A typed line answers the question", arguments: [("y", PromptQueue.Answer.yes), ("no", .no), ("block", .block)])
    func answers(_ line: String, _ expected: PromptQueue.Answer) async throws {
        let answer = try await running { queue in
            async let answer = queue.ask("ben offers a file\n", question: "accept?", about: "ben", until: Self.forever)
            await display.awaitPrompt("accept?")
            display.type("perhaps")
            display.type(line)
            return await answer
        }
        #expect(answer == expected)
        display.state.withLock { state in
            #expect(state.shown.first == "ben offers a file\n")
            #expect(state.shown.contains("please answer y, n or b\n"))
            #expect(state.confirmed == ["perhaps", line])
            #expect(state.prompt == nil)
        }
    }

    @Test("R4: two questions are answered by their numbers, in any order")
    func numbers() async throws {
        let answers = try await running { queue in
            async let ben = queue.ask("ben\n", question: "accept?", about: "ben", until: Self.forever)
            await display.awaitPrompt("accept?")
            async let cleo = queue.ask("cleo\n", question: "accept?", about: "cleo", until: Self.forever)
            await display.awaitPrompt("number 2, cleo")
            display.type("y")
            display.type("n 2")
            display.type("y 1")
            return await [ben, cleo]
        }
        #expect(answers == [.yes, .no])
        #expect(display.state.withLock { $0.shown }.contains("number 2: cleo\n"))
    }

    @Test("An invitation that is withdrawn removes its question, and what was typed for it")
    func withdrawn() async throws {
        let (ends, end) = AsyncStream.makeStream(of: TransferOutcome.self)
        let answer = try await running { queue in
            async let answer = queue.ask(
                "ben\n", question: "accept?", about: "ben",
                until: {
                    for await outcome in ends { return outcome }
                    return nil
                })
            await display.awaitPrompt("accept?")
            end.yield(.expired)
            return await answer
        }
        #expect(answer == .ended(.expired))
        // Once before the question, once at its end.
        #expect(display.state.withLock { $0.discardCount } == 2)
        #expect(display.state.withLock { $0.prompt } == nil)
    }

    @Test("A terminal that is gone answers no, also to later questions")
    func hangUp() async throws {
        let answers = try await running { queue in
            async let first = queue.ask("ben\n", question: "accept?", about: "ben", until: Self.forever)
            await display.awaitPrompt("accept?")
            display.hangUp()
            let answer = await first
            return [answer, await queue.ask("cleo\n", question: "accept?", about: "cleo", until: Self.forever)]
        }
        #expect(answers == [.no, .no])
    }

    @Test("T1: a typed line is escaped before it is shown")
    func escaping() async throws {
        _ = try await running { queue in
            async let answer = queue.ask("ben\n", question: "accept?", about: "ben", until: Self.forever)
            await display.awaitPrompt("accept?")
            display.type("\u{1b}[2J")
            display.type("y")
            return await answer
        }
        #expect(display.state.withLock { $0.confirmed }.allSatisfy { !$0.unicodeScalars.contains("\u{1b}") })
    }
}
