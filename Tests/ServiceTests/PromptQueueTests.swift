import Nearshare
import Synchronization
import Testing

@testable import NearshareService

/// A terminal of which the test types the lines.
private final class ScriptedDisplay: PromptDisplay {
    struct State {
        var shown: [String] = []
        var prompt: String?
        var typed = ""
        var confirmed: [String] = []
        var discardCount = 0
    }

    let state = Mutex(State())
    private let stream: AsyncStream<AnswerKey>
    private let sink: AsyncStream<AnswerKey>.Continuation
    private let prompts: AsyncStream<String?>
    private let promptSink: AsyncStream<String?>.Continuation

    init() {
        (stream, sink) = AsyncStream.makeStream()
        (prompts, promptSink) = AsyncStream.makeStream()
    }

    var redraws: Bool { true }
    let size = (columns: 80, rows: 24)
    func keys() -> AsyncStream<AnswerKey> { stream }
    func show(_ text: String) { state.withLock { $0.shown.append(text) } }
    func confirmAnswer() { state.withLock { $0.confirmed.append($0.typed) } }
    func discardTypedInput() { state.withLock { $0.discardCount += 1 } }
    func setPrompt(_ prompt: String?, typed: String) {
        state.withLock { ($0.prompt, $0.typed) = (prompt, typed) }
        promptSink.yield(prompt.map { $0 + typed })
    }

    func press(_ keys: AnswerKey...) { for key in keys { sink.yield(key) } }
    func type(_ line: String) { press(.text(line), .enter) }
    func hangUp() { sink.finish() }

    /// Waits for a prompt with its typed answer.
    func awaitPrompt(exactly text: String) async {
        for await prompt in prompts where prompt == text { return }
    }

    /// Waits until there is no prompt.
    func awaitPrompt(none: Void) async {
        for await prompt in prompts where prompt == nil { return }
    }

    /// Waits until a prompt contains `text`.
    func awaitPrompt(_ text: String) async {
        for await case let prompt? in prompts where prompt.contains(text) { return }
    }
}

@Suite("questions to the user", .timeLimit(.minutes(1)))
struct PromptQueueTests {
    private let display = ScriptedDisplay()
    private let time = Monitor(MonotonicInstant(nanoseconds: 0))
    private let transfers = RunningTransfers()

    private func running<Result: Sendable>(_ body: @Sendable (PromptQueue) async throws -> Result) async throws -> Result {
        let queue = PromptQueue(display, running: transfers, clock: { time.withLock { $0 } })
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

    @Test("a typed line answers the question", arguments: [("y", PromptQueue.Answer.yes), ("no", .no), ("block", .block)])
    func answers(_ line: String, _ expected: PromptQueue.Answer) async throws {
        let answer = try await running { queue in
            async let answer = queue.ask(Question("accept?", about: "ben", subject: "ben offers a file\n"), until: Self.forever)
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

    @Test func `a line that is typed while no question is open is told`() async {
        let queue = PromptQueue(display, running: transfers, clock: { time.withLock { $0 } })
        display.press(.enter, .text("y"), .enter, .idleLine)
        display.hangUp()
        await queue.run()
        #expect(
            display.state.withLock { $0.shown } == [
                "no question is open: y or n answers one, c cancels a transfer, Ctrl-C ends this\n"
            ])
    }

    @Test func `a friend is blocked when the answer is repeated, with no other one between`() async throws {
        let answer = try await running { queue in
            async let answer = queue.ask(
                Question("accept?", about: "ben", subject: "ben offers a file\n") {
                    $0.blockWarning = "ben is a friend: b again?"
                }, until: Self.forever)
            await display.awaitPrompt("accept?")
            for line in ["b", "perhaps", "b", "block"] { display.type(line) }
            return await answer
        }
        #expect(answer == .block)
        display.state.withLock { state in
            #expect(state.shown.count { $0 == "ben is a friend: b again?\n" } == 2)
            #expect(state.confirmed == ["b", "perhaps", "b", "block"])
        }
    }

    @Test func `the prompt counts down, and keeps what is typed`() async throws {
        let answer = try await running { queue in
            async let answer = queue.ask(
                Question("accept?", about: "ben", subject: "ben offers a file\n") {
                    $0.deadline = MonotonicInstant(nanoseconds: 0) + .seconds(30)
                }, until: Self.forever)
            await display.awaitPrompt(exactly: "30 s left: accept? [y]es, [n]o, [b]lock: ")
            display.press(.text("y"))
            time.withLock { $0 = $0 + .seconds(21) }
            await display.awaitPrompt(exactly: "9 s left: accept? [y]es, [n]o, [b]lock: y")
            display.press(.enter)
            return await answer
        }
        #expect(answer == .yes)
    }

    private static let outline = PromptQueue.Outline(
        title: "accept?", subject: "a.txt from ada", lines: ["a.txt"], yes: "Accept", no: "Decline")

    @Test("R4: a front end answers the question that the terminal shows, once, and by its number", arguments: [true, false])
    func feed(hasTerminal: Bool) async throws {
        let feed = ReceiveFeed()
        let queue = PromptQueue(hasTerminal ? display : nil, feed: feed)
        #expect(queue.canAsk == hasTerminal)
        let events = feed.subscribe()
        #expect(queue.canAsk)
        var iterator = events.makeAsyncIterator()
        async let first = queue.ask(
            Question("accept?", about: "ben", subject: "a\n") { $0.outline = Self.outline }, until: Self.forever)
        guard case .prompt(let question)? = await iterator.next() else {
            Issue.record("no question")
            return
        }
        #expect(
            question
                == OpenPrompt(
                    number: 1, title: "accept?", subject: "a.txt from ada", lines: ["a.txt"], yes: "Accept", no: "Decline"))
        async let second = queue.ask(
            Question("accept?", about: "cleo", subject: "b\n") { $0.outline = Self.outline }, until: Self.forever)
        guard case .prompt(let other)? = await iterator.next() else {
            Issue.record("no question")
            return
        }
        // A front end that comes later sees what is open.
        var late = feed.subscribe().makeAsyncIterator()
        #expect(await late.next() == .prompt(question))
        #expect(await late.next() == .prompt(other))
        #expect(!feed.answer(3, .yes))
        #expect(feed.answer(other.number, .no))
        #expect(!feed.answer(other.number, .yes), "the first answer counts")
        #expect(await iterator.next() == .promptEnded(number: other.number))
        #expect(feed.answer(question.number, .yes))
        #expect(await iterator.next() == .promptEnded(number: question.number))
        #expect(await first == .yes)
        #expect(await second == .no)
        if hasTerminal {
            #expect(display.state.withLock { $0.shown.last } == "question 1 was answered in a chat or notification: yes\n")
            #expect(display.state.withLock(\.prompt) == nil)
        }
    }

    @Test func `an answer on the terminal ends the question of the front ends, and so does a withdrawal`() async throws {
        let feed = ReceiveFeed()
        let queue = PromptQueue(display, feed: feed)
        let events = feed.subscribe()
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await queue.run() }
            var iterator = events.makeAsyncIterator()
            async let answer = queue.ask(
                Question("accept?", about: "ben", subject: "a\n") { $0.outline = Self.outline }, until: Self.forever)
            _ = await iterator.next()
            display.type("n")
            #expect(await iterator.next() == .promptEnded(number: 1))
            #expect(await answer == .no)
            let withdrawn = await queue.ask(Question("accept?", about: "ben", subject: "a\n") { $0.outline = Self.outline }) {
                .expired
            }
            #expect(withdrawn == .ended(.expired))
            _ = await iterator.next()
            #expect(await iterator.next() == .promptEnded(number: 2))
            #expect(!feed.answer(2, .yes))
            // Only the terminal asks what has no outline.
            async let hidden = queue.ask(Question("compare?", about: "ben", subject: "a\n"), until: Self.forever)
            // The prompts of the questions before are still in the stream.
            await display.awaitPrompt("compare?")
            #expect(!feed.answer(3, .yes))
            // Shortly after the end of a question an answer needs its number.
            display.type("y 3")
            #expect(await hidden == .yes)
            group.cancelAll()
        }
    }

    /// A transfer that ends when it is cancelled.
    private func transfer(_ number: UInt64) -> Transfer {
        let transfer = Transfer(
            progress: TransferProgress(
                id: TransferID(rawValue: number), direction: .incoming, total: 1, totalEntries: 1), clock: SystemClock.monotonic
        )
        transfer.onCancel { [weak transfer] in transfer?.end(TransferResult(outcome: .cancelled(by: .local))) }
        return transfer
    }

    @Test("a transfer has the number of the question about it, also when others run")
    func sameNumber() async throws {
        let numbers = try await running { queue in
            await transfers.following(transfer(1), label: TransferLabel("x", from: "dan")) {
                let number = queue.reserveNumber()
                async let answer = queue.ask(Question("accept?", about: "ben"), number: number, until: Self.forever)
                await display.awaitPrompt("accept?")
                async let other = queue.ask(Question("accept?", about: "cleo"), until: Self.forever)
                await display.awaitPrompt("number \(number), ben: accept?\nnumber 3, cleo: accept?")
                display.type("y \(number)")
                let answers = await transfers.following(
                    transfer(2), label: TransferLabel("a", from: "ben"), number: await answer == .yes ? number : nil
                ) {
                    transfers.numbered.map { "\($0.number) \($0.label.text)" }
                }
                queue.close()
                return await other == .closed ? answers : []
            }
        }
        #expect(numbers == ["1 dan → x", "2 ben → a"])
    }

    @Test func `one of several running transfers is cancelled by its number`() async throws {
        let (first, second) = (transfer(1), transfer(2))
        try await running { queue in
            await transfers.following(first, label: TransferLabel("a", from: "ben")) {
                await transfers.following(second, label: TransferLabel("b", from: "cleo")) {
                    queue.updateRunning()
                    await display.awaitPrompt(exactly: "[c]ancel a transfer: ")
                    display.type("c")
                    display.type("c 3")
                    display.type("y")
                    display.type("c 2")
                    let outcome = await second.result.outcome
                    #expect(outcome == .cancelled(by: .local))
                }
            }
            queue.updateRunning()
            await display.awaitPrompt(none: ())
        }
        #expect(first.snapshot.phase == .connecting)
        let expected = [
            "  1  ben → a\n  2  cleo → b\nc 1 cancels number 1\n", "there is no such transfer; c lists them\n",
            "c lists the transfers that can be cancelled\n",
        ]
        #expect(display.state.withLock { $0.shown } == expected)
    }

    @Test("R4: two questions are answered by their numbers, in any order")
    func numbers() async throws {
        let answers = try await running { queue in
            async let ben = queue.ask(Question("accept?", about: "ben", subject: "ben\n"), until: Self.forever)
            await display.awaitPrompt("accept?")
            async let cleo = queue.ask(Question("accept?", about: "cleo", subject: "cleo\n"), until: Self.forever)
            await display.awaitPrompt("number 2, cleo")
            display.type("y")
            display.type("n 2")
            display.type("y 1")
            return await [ben, cleo]
        }
        #expect(answers == [.yes, .no])
        #expect(
            display.state.withLock { $0.shown }.starts(
                with: ["ben\n", "number 1 is the question above, about ben\n", "number 2: cleo\n"]))
    }

    /// Asks a question that ends when the returned stream's continuation yields.
    private func withdrawable() -> (until: @Sendable () async -> TransferOutcome?, end: @Sendable () -> Void) {
        let (ends, end) = AsyncStream.makeStream(of: TransferOutcome.self)
        return (
            {
                for await outcome in ends { return outcome }
                return nil
            }, { end.yield(.expired) }
        )
    }

    @Test("R11: questions that come and go leave the answer alone that is being typed")
    func typedTextSurvives() async throws {
        let answer = try await running { queue in
            async let ben = queue.ask(Question("accept?", about: "ben", subject: "ben\n"), until: Self.forever)
            await display.awaitPrompt("accept?")
            display.press(.text("ye"))
            await display.awaitPrompt("[b]lock: ye")
            for _ in 2...9 {
                let mallory = withdrawable()
                async let other = queue.ask(Question("accept?", about: "mallory", subject: "mallory\n"), until: mallory.until)
                // The question on the screen is still the one for which the answer was begun.
                await display.awaitPrompt("number 1, ben: accept? [y]es, [n]o, [b]lock: ye")
                mallory.end()
                #expect(await other == .ended(.expired))
            }
            display.press(.text("x"), .backspace, .text("s"), .enter)
            return await ben
        }
        #expect(answer == .yes)
        display.state.withLock { state in
            #expect(state.confirmed == ["yes"])
            let numbered = (2...9).map { "number \($0): mallory\n" }
            #expect(state.shown == ["ben\n", "number 1 is the question above, about ben\n"] + numbered)
            #expect(state.discardCount == 1)
        }
    }

    @Test("R4: an answer meant for a question that has just gone does not answer its successor")
    func successor() async throws {
        let answers = try await running { queue in
            let (first, second) = (withdrawable(), withdrawable())
            async let harmless = queue.ask(Question("accept?", about: "mallory", subject: "a.txt\n"), until: first.until)
            await display.awaitPrompt("accept?")
            display.press(.text("y"))
            await display.awaitPrompt("[b]lock: y")
            async let harmful = queue.ask(Question("accept?", about: "mallory", subject: "a.sh\n"), until: Self.forever)
            await display.awaitPrompt("number 1, mallory: accept? [y]es, [n]o, [b]lock: y")
            first.end()
            #expect(await harmless == .ended(.expired))
            display.press(.enter)
            await display.awaitPrompt("number 2, mallory")
            // Begun too soon after the change.
            display.type("y")
            await display.awaitPrompt("number 2, mallory")
            display.type("n 2")
            #expect(await harmful == .no)
            async let third = queue.ask(Question("accept?", about: "ben", subject: "b.txt\n"), until: second.until)
            await display.awaitPrompt(exactly: "accept? [y]es, [n]o, [b]lock: ")
            display.type("y")
            await display.awaitPrompt(exactly: "accept? [y]es, [n]o, [b]lock: y")
            // The target was chosen with the first character.
            time.update { $0 = $0 + .seconds(1) }
            display.type("y")
            return await third
        }
        #expect(answers == .yes)
        #expect(
            display.state.withLock { $0.shown.filter { $0.hasPrefix("which") } } == [
                "which one? y 2\n", "which one? y 2\n", "which one? y 3\n",
            ])
    }

    @Test("an invitation that is withdrawn removes its question, and what was typed for it")
    func withdrawn() async throws {
        let answer = try await running { queue in
            let invitation = withdrawable()
            async let answer = queue.ask(Question("accept?", about: "ben", subject: "ben\n"), until: invitation.until)
            await display.awaitPrompt("accept?")
            display.press(.text("y"))
            await display.awaitPrompt("[b]lock: y")
            invitation.end()
            return await answer
        }
        #expect(answer == .ended(.expired))
        #expect(display.state.withLock { $0.prompt } == nil && display.state.withLock { $0.typed }.isEmpty)
    }

    @Test("a terminal that is gone gives no answer, also to later questions")
    func hangUp() async throws {
        let answers = try await running { queue in
            async let first = queue.ask(Question("accept?", about: "ben", subject: "ben\n"), until: Self.forever)
            await display.awaitPrompt("accept?")
            display.hangUp()
            let answer = await first
            return [answer, await queue.ask(Question("accept?", about: "cleo", subject: "cleo\n"), until: Self.forever)]
        }
        #expect(answers == [.closed, .closed])
    }

    @Test("T1: a typed line is escaped before it is shown")
    func escaping() async throws {
        _ = try await running { queue in
            async let answer = queue.ask(Question("accept?", about: "ben", subject: "ben\n"), until: Self.forever)
            await display.awaitPrompt("accept?")
            display.type("\u{1b}[2J")
            display.type("y")
            return await answer
        }
        #expect(display.state.withLock { $0.confirmed }.allSatisfy { !$0.unicodeScalars.contains("\u{1b}") })
    }
}
