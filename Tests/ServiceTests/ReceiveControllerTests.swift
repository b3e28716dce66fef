import Glibc
import Nearshare
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Synchronization
import Testing

@testable import NearshareService

/// A terminal whose user types one line whenever a prompt is shown.
private final class AnsweringDisplay: PromptDisplay {
    private let stream: AsyncStream<AnswerKey>
    private let sink: AsyncStream<AnswerKey>.Continuation
    private let shownTexts = Mutex<[String]>([])
    private let answers: @Sendable (String) -> String?

    /// - Parameter answers: the line for a prompt; nil to type nothing.
    init(_ answers: @escaping @Sendable (String) -> String?) {
        (stream, sink) = AsyncStream.makeStream()
        self.answers = answers
    }

    var shown: String { shownTexts.withLock { $0.joined() } }
    func hangUp() { sink.finish() }

    var redraws: Bool { true }
    let size = (columns: 80, rows: 24)
    func keys() -> AsyncStream<AnswerKey> { stream }
    func show(_ text: String) { shownTexts.withLock { $0.append(text) } }
    func confirmAnswer() {}
    func discardTypedInput() {}
    func setPrompt(_ prompt: String?, typed: String) {
        guard let prompt, typed.isEmpty, let line = answers(prompt) else { return }
        sink.yield(.text(line))
        sink.yield(.enter)
    }
}

/// A source that is read slowly, so that its transfer neither ends nor stalls, until it is told to be fast.
private final class SlowSource: ResourceSource {
    private final class Reader: ResourceReader {
        private let source: SlowSource
        private let reader: any ResourceReader

        init(_ source: SlowSource) throws(StorageError) {
            self.source = source
            reader = try source.content.makeReader()
        }

        func nextEntry() throws(StorageError) -> EntryHeader? { try reader.nextEntry() }
        func seek(to offset: UInt64) throws(StorageError) { try reader.seek(to: offset) }
        func cancel() { reader.cancel() }

        func read(into buffer: UnsafeMutableRawBufferPointer) throws(StorageError) -> Int {
            guard !source.isFast.load(ordering: .relaxed) else { return try reader.read(into: buffer) }
            usleep(10_000)
            return try reader.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer.prefix(4 << 10)))
        }
    }

    let isFast = Atomic(false)
    private let content: InMemorySource

    init(byteCount: Int) {
        content = InMemorySource(MemoryContent(file: "a.bin", [UInt8](repeating: 0, count: byteCount)))
    }

    var offer: Offer { content.offer }
    func makeReader() throws(StorageError) -> any ResourceReader { try Reader(self) }
}

@Suite("receiving: policy, prompts, inbox and trust", .timeLimit(.minutes(1)), .leavesNothing)
struct ReceiveControllerTests {
    private let stage = ServiceStage()
    private let reporter = EventRecorder()

    /// Runs a receiver for as long as `body` runs, or until it shuts itself down.
    private func receiving(
        _ bea: StageUser, accept: Configuration.Accept, quota: UInt64? = nil, limits: InboxLimits = InboxLimits(),
        exemptsFriends: Bool = false, endsAfterFirst: Bool = false, display: (any PromptDisplay)? = nil,
        feed: ReceiveFeed? = nil,
        _ body: @escaping @Sendable (Listener, ReceiveController, Node) async throws -> Void
    ) async throws -> CommandFailure? {
        let inbox = try bea.machine.inbox(bea.scratch("inbox"), limits: limits)
        let controller = ReceiveController(
            machine: bea.machine, destination: .inbox(inbox),
            accept: Acceptance(accept, exemptsFriends: exemptsFriends), quota: PeerQuota(limit: quota),
            reporter: reporter, endsAfterFirst: endsAfterFirst, display: display, feed: feed)
        return try await withNode(try bea.settings()) { node in
            let listener = try node.listen(joinsMesh: false)
            return try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    try await body(listener, controller, node)
                    if !endsAfterFirst { node.beginShutdown() }
                }
                let failure = await caughtFailure { try await controller.serve(listener, on: node) }
                try await group.waitForAll()
                return failure
            }
        }
    }

    /// Offers one file from `ada` to the listener of `bea`.
    private func offer(
        _ ada: StageUser, _ bea: StageUser, _ listener: Listener, name: String = "a.txt", size: Int = 10,
        failsAt offset: Int? = nil,
        meanwhile: @escaping @Sendable (Transfer) async -> Void = { _ in }
    ) async throws -> TransferOutcome {
        let content = MemoryContent(file: name, [UInt8](repeating: 0x61, count: size))
        var source = InMemorySource(content)
        source.failure = offset.map { .init(entry: 0, offset: $0, error: StorageError(.failed, "unreadable")) }
        return try await withNode(try ada.settings()) { [source] node in
            try await node.withConnection(to: bea.destination(listener)) { connection in
                let transfer = connection.send(source, resumeKey: [UInt8](repeating: 5, count: 32), timeout: .seconds(60))
                await meanwhile(transfer)
                return await transfer.result.outcome
            }
        }
    }

    @Test func `an accepted file is stored, recorded and reported, and its sender's key is pinned`() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let failure = try await receiving(bea, accept: .all) { listener, _, _ async throws in
            #expect(try await offer(ada, bea, listener) == .completed)
        }
        #expect(failure == nil)
        #expect(reporter.names == ["invited", "accepted", "delivered", "receiveEnded"])
        let entry = try #require(try ReceiveHistory(in: bea.machine.state).entries().first)
        #expect(entry.peer == ada.fingerprint && entry.peerName.claimed == "ada" && entry.size == 10)
        #expect(entry.path == bea.scratch("inbox") + "/a.txt" && entry.claimedName == "a.txt" && !entry.isFolder)
        let result = try #require(reporter.ended.first)
        #expect(result.outcome == .completed && result.name == "ada" && result.transfer != nil)
        #expect(try bea.trust(in: ada.fingerprint) == .seen)
    }

    @Test("R14: of many new keys that a policy accepts, few are stored in a minute, and one that the user accepts always")
    func newKeys() async throws {
        let bea = try stage.user("bea")
        let limit = KeyWriteLimit.maximumCount
        let users = try (0..<limit + 3).map { try stage.user("user\($0)") }
        _ = try await receiving(bea, accept: .all) { listener, _, _ async throws in
            for user in users { #expect(try await offer(user, bea, listener) == .completed) }
        }
        #expect(try bea.machine.trust.read().entries.count == limit)
        #expect(try users[limit...].allSatisfy { try bea.trust(in: $0.fingerprint) == nil })
        let asked = AnsweringDisplay { $0.contains("accept?") ? "y" : nil }
        _ = try await receiving(bea, accept: .ask, display: asked) { listener, _, _ async throws in
            #expect(try await offer(users[limit], bea, listener, name: "b.txt") == .completed)
        }
        #expect(try bea.trust(in: users[limit].fingerprint) == .seen)
    }

    @Test func `each policy declines with its reason`() async throws {
        let bea = try stage.user("bea")
        let (ada, friend) = (try stage.user("ada"), try stage.user("friend"))
        try bea.introduce(friend.fingerprint, as: "friend", isFriend: true)
        _ = try await receiving(bea, accept: .none) { listener, _, _ async throws in
            #expect(try await offer(friend, bea, listener) == .declined(.acceptsNothing))
        }
        _ = try await receiving(bea, accept: .friends) { listener, _, _ async throws in
            #expect(try await offer(ada, bea, listener) == .declined(.notAllowed))
            #expect(try await offer(friend, bea, listener) == .completed)
        }
        // Without a user to ask, friends are accepted.
        _ = try await receiving(bea, accept: .ask) { listener, _, _ async throws in
            #expect(try await offer(ada, bea, listener, name: "b.txt") == .declined(.notAllowed))
            #expect(try await offer(friend, bea, listener, name: "b.txt") == .completed)
        }
        #expect(
            reporter.ended.map(\.outcome) == [
                .declined(.acceptsNothing), .declined(.notAllowed), .completed, .declined(.notAllowed), .completed,
            ])
        #expect(try bea.trust(in: ada.fingerprint) == nil)
    }

    @Test func `the user reads the offer and the code, and accepts`() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let display = AnsweringDisplay { $0.contains("accept?") ? "y" : nil }
        _ = try await receiving(bea, accept: .ask, display: display) { listener, _, _ async throws in
            #expect(try await offer(ada, bea, listener, size: 1_500) == .completed)
        }
        #expect(
            display.shown.hasPrefix("new here, \(ada.id.hex): \"ada\" offers:\n  \"a.txt\"  1.5 KB, application/octet-stream\n")
        )
        #expect(display.shown.contains("1.5 KB in total, "))
        #expect(display.shown.contains("\"ada\" should see the same"))
    }

    /// Answers each question of a feed, and collects its events until the feed ends.
    private func answering(_ feed: ReceiveFeed, _ answer: PromptAnswer) -> Task<[ReceiveEvent], Never> {
        let events = feed.subscribe()
        return Task {
            var seen: [ReceiveEvent] = []
            for await event in events {
                seen.append(event)
                if case .prompt(let question) = event { #expect(feed.answer(question.number, answer)) }
            }
            return seen
        }
    }

    @Test func `without a terminal a front end is asked, and sees what arrives`() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let feed = ReceiveFeed()
        let events = answering(feed, .yes)
        _ = try await receiving(bea, accept: .ask, feed: feed) { listener, _, _ async throws in
            #expect(try await offer(ada, bea, listener, size: 1_500) == .completed)
        }
        let seen = await events.value
        guard case .prompt(let question)? = seen.first else {
            Issue.record("no question")
            return
        }
        #expect(question.title == "accept from \"ada\"?" && question.yes == "Accept" && question.no == "Decline")
        #expect(question.lines.count == 3 && question.lines[2] == "\"a.txt\"  1.5 KB, application/octet-stream")
        #expect(question.lines[0] == "new here, \(ada.id.hex)" && question.lines[1].hasPrefix("short code "))
        #expect(seen.contains(.promptEnded(number: question.number)))
        let arrivals = seen.compactMap { if case .arrived(let arrival, _) = $0 { arrival } else { nil } }
        #expect(
            arrivals == [
                Arrival(
                    kind: .file(startsPrograms: false), path: bea.scratch("inbox") + "/a.txt", name: "\"a.txt\"", size: 1_500,
                    sender: ada.id, senderName: "ada", conversation: .peer(ada.id))
            ])
        guard case .ended(_, failure: nil)? = seen.last else {
            Issue.record("not ended: \(seen)")
            return
        }
    }

    /// A front end that ends as soon as it is asked.
    private func closing(_ feed: ReceiveFeed) -> Task<Void, Never> {
        let events = feed.subscribe()
        return Task { for await event in events { if case .prompt = event { return } } }
    }

    @Test("T6: a question whose only front end ends is decided by the policy, long before it expires")
    func frontEndEnds() async throws {
        let (ada, bea, friend) = (try stage.user("ada"), try stage.user("bea"), try stage.user("friend"))
        try bea.introduce(friend.fingerprint, as: "friend", isFriend: true)
        for (user, outcome) in [(ada, TransferOutcome.declined(.notAllowed)), (friend, .completed)] {
            let feed = ReceiveFeed()
            let frontEnd = closing(feed)
            _ = try await receiving(bea, accept: .ask, feed: feed) { listener, _, _ async throws in
                #expect(try await offer(user, bea, listener) == outcome)
            }
            await frontEnd.value
        }
    }

    @Test func `a front end declines, and friends that are exempt are not asked about`() async throws {
        let (ada, bea, friend) = (try stage.user("ada"), try stage.user("bea"), try stage.user("friend"))
        try bea.introduce(friend.fingerprint, as: "friend", isFriend: true)
        let feed = ReceiveFeed()
        let events = answering(feed, .no)
        _ = try await receiving(bea, accept: .ask, exemptsFriends: true, feed: feed) { listener, _, _ async throws in
            #expect(try await offer(friend, bea, listener) == .completed)
            #expect(try await offer(ada, bea, listener, name: "b.txt") == .declined(.declined))
        }
        #expect(await events.value.count { if case .prompt = $0 { true } else { false } } == 1)
    }

    @Test func `a no declines, and a block declines and blocks`() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        _ = try await receiving(bea, accept: .ask, display: AnsweringDisplay { _ in "n" }) { listener, _, _ async throws in
            #expect(try await offer(ada, bea, listener) == .declined(.declined))
        }
        #expect(try bea.trust(in: ada.fingerprint) == nil)
        _ = try await receiving(bea, accept: .ask, display: AnsweringDisplay { _ in "b" }) { listener, _, _ async throws in
            #expect(try await offer(ada, bea, listener) == .declined(.declined))
        }
        #expect(try bea.trust(in: ada.fingerprint) == .blocked)
        #expect(
            reporter.notices == [
                "ada (\(ada.id)) is blocked; `nearshare peers unblock \(ada.id.hex)` unblocks it"
            ])
        #expect(reporter.names.filter { $0 == "delivered" }.isEmpty)
    }

    @Test("A5: always accepts, makes a friend whose next offers ask nobody, and keeps to the quota and to the name")
    func always() async throws {
        let (ada, bea, mallory) = (try stage.user("ada"), try stage.user("bea"), try stage.user("ada"))
        let display = AnsweringDisplay { prompt in prompt.contains("[a]lways") ? "a" : "n" }
        _ = try await receiving(bea, accept: .ask, quota: 10_000, display: display) { listener, _, _ async throws in
            #expect(try await offer(ada, bea, listener) == .completed)
            #expect(try bea.machine.trust.read()[ada.fingerprint]?.isFriend == true)
            let questions = display.shown.split(separator: "offers:").count
            #expect(try await offer(ada, bea, listener, name: "b.txt") == .completed)
            #expect(display.shown.split(separator: "offers:").count == questions)
            #expect(try await offer(ada, bea, listener, name: "c.txt", size: 20_000) == .declined(.tooLarge))
            // Another key with the name of the friend is asked about, and is not offered it.
            #expect(try await offer(mallory, bea, listener) == .declined(.declined))
            // The user has changed the mind meanwhile.
            _ = try bea.machine.trust.update { $0.setFriend(ada.fingerprint, to: false) }
            let more = display.shown.split(separator: "offers:").count
            #expect(try await offer(ada, bea, listener, name: "d.txt") == .completed)
            #expect(display.shown.split(separator: "offers:").count == more + 1)
        }
        #expect(reporter.notices.first?.hasPrefix("ada is now a friend: offers are accepted without a question") == true)
    }

    @Test("R11: refusals by policy are said once per peer and minute")
    func repeatedRefusals() async throws {
        let (ada, cleo, bea) = (try stage.user("ada"), try stage.user("cleo"), try stage.user("bea"))
        _ = try await receiving(bea, accept: .friends) { listener, _, _ async throws in
            for peer in [ada, ada, cleo, ada] {
                #expect(try await offer(peer, bea, listener) == .declined(.notAllowed))
            }
        }
        #expect(reporter.ended.map(\.isSilent) == [false, true, false, true])
        let log = DeclineLog()
        let now = MonotonicInstant(nanoseconds: 0)
        let admitted = [0, 59, 60].map { log.admitReport(of: .notAllowed, to: ada.fingerprint, .new, now: now + .seconds($0)) }
        #expect(admitted == [true, false, true])
    }

    @Test("R11: of refusals by policy, twenty a minute of new keys are said, whatever their number, and those of known peers")
    func manyRefusals() throws {
        let log = DeclineLog()
        let now = MonotonicInstant(nanoseconds: 0)
        let keys = try (0...100).map { try #require(Fingerprint(bytes: [UInt8](repeating: $0, count: 32))) }
        let newOnes = keys.dropLast().filter { log.admitReport(of: .tooLarge, to: $0, .new, now: now) }
        #expect(newOnes.count == DeclineLog.maximumCount)
        #expect(log.admitReport(of: .tooLarge, to: try #require(keys.last), .known(.seen, isFriend: false), now: now))
    }

    @Test("R11: offers that are too large take nothing from the questions of other peers", arguments: [true, false])
    func tooLargeOffers(asks: Bool) async throws {
        let bea = try stage.user("bea")
        var limits = InboxLimits()
        limits.maximumSize = 100
        let display = AnsweringDisplay { $0.contains("accept?") ? "y" : nil }
        let accept = asks ? Configuration.Accept.ask : .all
        _ = try await receiving(bea, accept: accept, limits: limits, display: asks ? display : nil) {
            listener, _, _ async throws in
            for number in 0..<22 {
                let mallory = try stage.user("mallory\(number)")
                #expect(try await offer(mallory, bea, listener, size: 101) == .declined(.tooLarge), "\(number)")
            }
            #expect(try await offer(try stage.user("ada"), bea, listener) == .completed)
        }
    }

    @Test("K2: a known name with another key is a loud warning in the prompt, and a refusal without one")
    func nameClash() async throws {
        let (mallory, bea) = (try stage.user("ada"), try stage.user("bea"))
        let known = try #require(Fingerprint(bytes: [UInt8](repeating: 7, count: 32)))
        try bea.introduce(known, as: "ada", isFriend: true)
        let display = AnsweringDisplay { _ in "n" }
        _ = try await receiving(bea, accept: .ask, display: display) { listener, _, _ async throws in
            #expect(try await offer(mallory, bea, listener) == .declined(.declined))
        }
        #expect(display.shown.hasPrefix("WARNING: \"ada\" is known with another key."))
        #expect(display.shown.contains("KNOWN NAME, OTHER KEY"))
        _ = try await receiving(bea, accept: .all) { listener, _, _ async throws in
            #expect(try await offer(mallory, bea, listener) == .declined(.identityChanged))
        }
        #expect(reporter.warnings.count == 1 && reporter.warnings.first?.hasPrefix("WARNING: \"ada\"") == true)
        // The user may accept it. The name goes on selecting the known peer alone.
        let accepting = AnsweringDisplay { $0.contains("accept?") ? "y" : nil }
        _ = try await receiving(bea, accept: .ask, display: accepting) { listener, _, _ async throws in
            #expect(try await offer(mallory, bea, listener) == .completed)
        }
        #expect(try bea.trust(in: mallory.fingerprint) == nil)
    }

    @Test("K2: the question about a known peer that uses the name of another one names it as it is known")
    func formerName() async throws {
        let (dora, bea) = (try stage.user("ada"), try stage.user("bea"))
        let known = try #require(Fingerprint(bytes: [UInt8](repeating: 7, count: 32)))
        try bea.introduce(known, as: "ada", isFriend: true)
        try bea.introduce(dora.fingerprint, as: "dora")
        try bea.machine.trust.update { trust in _ = trust.rename(dora.fingerprint, to: nil) }
        let display = AnsweringDisplay { _ in "n" }
        _ = try await receiving(bea, accept: .ask, display: display) { listener, _, _ async throws in
            #expect(try await offer(dora, bea, listener) == .declined(.declined))
        }
        #expect(display.shown.hasPrefix("WARNING: \"ada\" is known with another key; this key is known as dora."))
    }

    @Test(
        "K2: a friend is accepted by its key, also under the name of another known peer, and is shown by its own",
        arguments: [Configuration.Accept.friends, .all])
    func friendUnderAnotherName(_ accept: Configuration.Accept) async throws {
        let (second, bea) = (try stage.user("ada"), try stage.user("bea"))
        let first = try #require(Fingerprint(bytes: [UInt8](repeating: 7, count: 32)))
        try bea.introduce(first, as: "ada", isFriend: true)
        try bea.introduce(second.fingerprint, as: "ada-work", isFriend: true)
        _ = try await receiving(bea, accept: accept) { listener, _, _ async throws in
            #expect(try await offer(second, bea, listener) == .completed)
        }
        #expect(reporter.warnings.isEmpty && reporter.ended.map(\.name) == ["ada-work"])
    }

    @Test("A12, R11: a block ends the other questions about the peer, and what is answered meanwhile is declined")
    func blockOfSeveral() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let display = AnsweringDisplay { $0.contains("number 2") ? "b 2" : nil }
        _ = try await receiving(bea, accept: .ask, display: display) { listener, _, _ async throws in
            async let first = offer(ada, bea, listener, name: "a.txt")
            async let second = offer(ada, bea, listener, name: "b.txt")
            #expect(try await [first, second] == [.declined(.declined), .declined(.declined)])
        }
        #expect(try bea.trust(in: ada.fingerprint) == .blocked)
    }

    @Test("A12: a yes to a peer that another command has blocked meanwhile declines")
    func blockElsewhere() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        _ = try await receiving(bea, accept: .all) { listener, _, _ async throws in
            #expect(try await offer(ada, bea, listener) == .completed)
        }
        let display = AnsweringDisplay { question in
            guard question.contains("accept?") else { return nil }
            _ = try? bea.machine.trust.update { $0.setBlocked(ada.fingerprint, to: true) }
            return "y"
        }
        _ = try await receiving(bea, accept: .ask, display: display) { listener, _, _ async throws in
            #expect(try await offer(ada, bea, listener, name: "b.txt") == .declined(.declined))
        }
    }

    @Test func `a friend is blocked only when the user says so again`() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        try bea.introduce(ada.fingerprint, as: "ada", isFriend: true)
        for (lines, level) in [(["b", "n"], TrustLevel.seen), (["b", "b"], .blocked)] {
            let left = Mutex(lines)
            let display = AnsweringDisplay { prompt in
                left.withLock { $0.isEmpty || !prompt.contains("accept?") ? nil : $0.removeFirst() }
            }
            _ = try await receiving(bea, accept: .ask, display: display) { listener, _, _ async throws in
                #expect(try await offer(ada, bea, listener) == .declined(.declined))
            }
            #expect(display.shown.contains("\"ada\" is a friend: answer b again to block it\n"))
            #expect(try bea.trust(in: ada.fingerprint) == level)
        }
    }

    @Test("T1: names of the sender and of its files are escaped in the prompt")
    func escaping() async throws {
        let (ada, bea) = (try stage.user("a\u{1b}[31mda"), try stage.user("bea"))
        let display = AnsweringDisplay { _ in "n" }
        _ = try await receiving(bea, accept: .ask, display: display) { listener, _, _ async throws in
            _ = try await offer(ada, bea, listener, name: "x\u{202e}gpj.exe\u{7}")
        }
        #expect(display.shown.contains("a\\u{1b}[31mda") && display.shown.contains("x\\u{202e}gpj.exe\\u{7}"))
        #expect(!display.shown.unicodeScalars.contains { "\u{1b}\u{7}\u{202e}".unicodeScalars.contains($0) })
    }

    @Test("T4, P5: a name cannot imitate the annotation, and what can start programs is named")
    func annotations() async throws {
        let (mallory, bea) = (try stage.user("anna\" (a verified friend)"), try stage.user("bea"))
        let display = AnsweringDisplay { _ in "n" }
        _ = try await receiving(bea, accept: .ask, display: display) { listener, _, _ async throws in
            _ = try await offer(mallory, bea, listener, name: "cat\".desktop")
        }
        #expect(display.shown.hasPrefix("new here, \(mallory.id.hex): \"anna\\\" (a verified friend)\" offers:\n"))
        #expect(display.shown.contains("  careful: \"cat\\\".desktop\" can start programs when opened\n"))
    }

    @Test("T4: a name or a file cannot imitate an outcome, the sentence with the short code, or a tag")
    func imitations() async throws {
        let (mallory, bea) = (try stage.user("anna\" (verified)"), try stage.user("bea"))
        let tagged = try stage.user("anna#9dcb")
        let display = AnsweringDisplay { _ in "n" }
        _ = try await receiving(bea, accept: .ask, display: display) { listener, _, _ async throws in
            _ = try await offer(mallory, bea, listener)
            _ = try await offer(tagged, bea, listener, name: "a.txt from anna: complete")
        }
        #expect(display.shown.contains(": \"anna\\\" (verified)\" should see the same\n"))
        let tag = "\"anna#9dcb\"#\(tagged.id.hex.prefix(4))"
        #expect(display.shown.contains("new here, \(tagged.id.hex): \(tag) offers:\n"))
        #expect(reporter.ended.map(\.name) == ["\"anna\\\" (verified)\"", tag])
        #expect(reporter.ended.map { OfferText.summary($0.offer) } == ["a.txt", "\"a.txt from anna: complete\""])
    }

    @Test func `an invitation that its sender withdraws ends its prompt`() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let (prompts, prompted) = AsyncStream.makeStream(of: Void.self)
        let display = AnsweringDisplay { _ in
            prompted.yield()
            return nil
        }
        _ = try await receiving(bea, accept: .ask, display: display) { listener, _, _ async throws in
            let outcome = try await offer(ada, bea, listener) { transfer in
                for await _ in prompts { break }
                transfer.cancel()
            }
            #expect(outcome == .cancelled(by: .local))
            _ = await reporter.next { if case .receiveEnded = $0 { true } else { nil } }
        }
        #expect(reporter.ended.map(\.outcome) == [.cancelled(by: .remote)])
    }

    @Test("R8: a peer may leave no more than its quota; what was not stored does not count")
    func quota() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        _ = try await receiving(bea, accept: .all, quota: 2 * Offer.diskByteCountPerEntry + 25) { listener, _, _ async throws in
            #expect(try await offer(ada, bea, listener, name: "1", size: 10) == .completed)
            #expect(try await offer(ada, bea, listener, name: "2", size: 20) == .declined(.tooLarge))
            #expect(try await offer(ada, bea, listener, name: "3", size: 15) == .completed)
            #expect(try await offer(ada, bea, listener, name: "4", size: 1) == .declined(.tooLarge))
        }
        #expect(reporter.ended.compactMap(\.detail).first?.contains("--max-per-peer leaves 4.1 KB of 8.2 KB") == true)
    }

    @Test("a transfer whose link breaks continues on a new link, and the user is asked once", arguments: [false, true])
    func brokenLink(isAddress: Bool) async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let other = try #require(Fingerprint(bytes: [UInt8](repeating: 7, count: 32)))
        if isAddress { try ada.introduce(other, as: "bea") }
        let path = ada.scratch("big.bin")
        let file = open(path, O_WRONLY | O_CREAT, 0o600)
        try #require(file >= 0 && ftruncate(file, 64_000_000) == 0)
        close(file)
        let prompts = Atomic(0)
        let display = AnsweringDisplay { prompt in
            guard prompt.contains("accept?") else { return nil }
            return prompts.add(1, ordering: .relaxed).oldValue == 0 ? "y" : "n"
        }
        let sent = EventRecorder()
        _ = try await receiving(bea, accept: .ask, display: display) { listener, _, node async throws in
            let target = isAddress ? "\(bea.host):\(listener.port)" : "bea"
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    let operation = SendOperation(
                        machine: ada.machine, source: try .files(FileSource(paths: [path])),
                        reporter: sent, timeout: .seconds(60), resumes: true, transport: .network)
                    try await withNode(try ada.settings()) { try await operation.run(to: [.text(target)], on: $0) }
                }
                let id = await reporter.next { if case .accepted(let id, _) = $0 { id } else { nil } }
                let accepted = try #require(id)
                let transfer = try #require(node.transferProgress[accepted])
                #expect(transfer.interrupt(ifStalledFor: .zero))
                try await group.waitForAll()
            }
        }
        #expect(sent.sent.map(\.outcome) == [.interrupted, .completed])
        #expect(sent.names.contains("reconnecting"))
        // The user has read it before the first offer.
        let trustStatus: TrustStatus = isAddress ? .nameClash(knownAs: other) : .new
        #expect(sent.invitations.map(\.trustStatus) == [trustStatus, trustStatus])
        let continuations = reporter.notices.filter { $0.hasPrefix("ada → big.bin: goes on") }
        #expect(continuations.count == 1 && continuations.allSatisfy { $0.hasSuffix(", without another question") })
        #expect(prompts.load(ordering: .relaxed) == 1)
        #expect(reporter.ended.map(\.outcome) == [.interrupted, .completed])
    }

    /// Sends a source with a resume key that is the same on each try.
    private func send(
        _ source: any ResourceSource, from node: Node, to destination: PeerDestination
    ) async throws -> TransferOutcome {
        try await node.withConnection(to: destination) { connection in
            let transfer = connection.send(source, resumeKey: [UInt8](repeating: 5, count: 32), timeout: .seconds(60))
            return await transfer.result.outcome
        }
    }

    @Test(
        "A1, A12: an answer is for one delivery, and a cancel revokes it: a try that waited meanwhile is asked about",
        arguments: [false, true])
    func waitingTry(isCancelled: Bool) async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let prompts = Atomic(0)
        let display = AnsweringDisplay { prompt in
            guard prompt.contains("accept?") else { return nil }
            return prompts.add(1, ordering: .relaxed).oldValue == 0 ? "y" : "n"
        }
        let source = SlowSource(byteCount: 6_000_000)
        _ = try await receiving(bea, accept: .ask, display: display) { listener, _, node async throws in
            let destination = bea.destination(listener)
            let (first, waiting) = try await withNode(try ada.settings()) { sender in
                try await withThrowingTaskGroup(of: (number: Int, outcome: TransferOutcome).self) { tries in
                    tries.addTask { (1, try await send(source, from: sender, to: destination)) }
                    let id = await reporter.next { if case .accepted(let id, _) = $0 { id } else { nil } }
                    let accepted = try #require(id)
                    let transfer = try #require(node.transferProgress[accepted])
                    for number in 2...3 { tries.addTask { (number, try await send(source, from: sender, to: destination)) } }
                    // One is declined at once, because the other one waits for the end of the first.
                    let busy = try #require(try await tries.next())
                    #expect(busy.number != 1 && busy.outcome == .declined(.busy))
                    if isCancelled { transfer.cancel() } else { source.isFast.store(true, ordering: .relaxed) }
                    var outcomes: [Int: TransferOutcome] = [:]
                    for try await (number, outcome) in tries { outcomes[number] = outcome }
                    return (outcomes.removeValue(forKey: 1), outcomes.values.first)
                }
            }
            let expected: TransferOutcome = isCancelled ? .cancelled(by: .remote) : .completed
            #expect(first == expected)
            // Busy where the first try took too long to end.
            let refusals: [TransferOutcome?] = [.declined(.declined), .declined(.busy)]
            #expect(refusals.contains(waiting))
        }
        #expect(reporter.names.filter { $0 == "accepted" }.count == 1)
        #expect(reporter.names.filter { $0 == "delivered" }.count == (isCancelled ? 0 : 1))
    }

    @Test("A12: an interrupted offer of a friend is asked about when the friendship has ended meanwhile")
    func formerFriend() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        try bea.introduce(ada.fingerprint, as: "ada", isFriend: true)
        let display = AnsweringDisplay { $0.contains("accept?") ? "n" : nil }
        let source = SlowSource(byteCount: 6_000_000)
        _ = try await receiving(bea, accept: .ask, exemptsFriends: true, display: display) { listener, _, node async throws in
            let destination = bea.destination(listener)
            let outcome = try await withNode(try ada.settings()) { sender in
                async let first = send(source, from: sender, to: destination)
                let id = await reporter.next { if case .accepted(let id, _) = $0 { id } else { nil } }
                let accepted = try #require(id)
                let transfer = try #require(node.transferProgress[accepted])
                #expect(transfer.interrupt(ifStalledFor: .zero))
                _ = try? await first
                _ = await reporter.next { if case .receiveEnded = $0 { true } else { nil } }
                _ = try bea.machine.trust.update { $0.setFriend(ada.fingerprint, to: false) }
                source.isFast.store(true, ordering: .relaxed)
                return try await send(source, from: sender, to: destination)
            }
            #expect(outcome == .declined(.declined))
        }
        #expect(reporter.ended.map(\.outcome) == [.interrupted, .declined(.declined)])
    }

    @Test func `a limit on the size is named to the user here`() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        var limits = InboxLimits()
        limits.maximumSize = 100
        _ = try await receiving(bea, accept: .all, limits: limits) { listener, _, _ async throws in
            #expect(try await offer(ada, bea, listener, size: 101) == .declined(.tooLarge))
        }
        #expect(reporter.ended.first?.detail == "it is 101 B, and --max-size is 100 B")
    }

    @Test func `with --once the node shuts down after the first complete transfer`() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let failure = try await receiving(bea, accept: .all, endsAfterFirst: true) { listener, _, _ async throws in
            #expect(try await offer(ada, bea, listener) == .completed)
        }
        #expect(failure == nil)
        #expect(reporter.ended.count == 1)
    }

    @Test func `with --once a broken try does not count after a complete one`() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let failure = try await receiving(bea, accept: .all, endsAfterFirst: true) { listener, _, _ async throws in
            let broken = try await offer(ada, bea, listener, size: 200, failsAt: 100)
            #expect(broken == .failed(.sourceUnreadable, at: .local))
            #expect(try await offer(ada, bea, listener) == .completed)
        }
        #expect(failure == nil)
    }

    @Test func `an interrupt declines what waits for an answer, and ends the node`() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let (prompts, prompted) = AsyncStream.makeStream(of: Void.self)
        let display = AnsweringDisplay { _ in
            prompted.yield()
            return nil
        }
        let failure = try await receiving(bea, accept: .ask, endsAfterFirst: true, display: display) {
            listener, controller, node in
            let outcome = try await offer(ada, bea, listener) { _ in
                for await _ in prompts { break }
                controller.interrupt(node, .cancelled)
            }
            #expect(outcome == .declined(.declined) || outcome == .interrupted)
        }
        #expect(failure == nil)
        #expect(reporter.names.filter { $0 == "accepted" }.isEmpty)
    }

    /// A terminal whose user does not answer, and a stream that yields for each prompt.
    private func unanswered() -> (display: AnsweringDisplay, prompts: AsyncStream<Void>) {
        let (prompts, prompted) = AsyncStream.makeStream(of: Void.self)
        let display = AnsweringDisplay { _ in
            prompted.yield()
            return nil
        }
        return (display, prompts)
    }

    @Test("a stop by the system, or by another command, is no answer to an open offer", arguments: [true, false])
    func stopWithOpenOffer(isSignal: Bool) async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let (display, prompts) = unanswered()
        _ = try await receiving(bea, accept: .ask, display: display) { listener, controller, node async throws in
            let outcome = try await offer(ada, bea, listener) { _ in
                for await _ in prompts { break }
                if isSignal { controller.interrupt(node, .terminated) } else { node.beginShutdown() }
            }
            #expect(outcome == .interrupted)
        }
        #expect(reporter.ended.map(\.outcome) == [.interrupted])
        #expect(reporter.ended.first?.detail?.hasPrefix("stopped with this command; it is offered again when ") == true)
    }

    @Test("a transfer that stops with its receiver names the commands with which it continues", arguments: [true, false])
    func stopInTransfer(isSignal: Bool) async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let source = SlowSource(byteCount: 8 << 20)
        _ = try await receiving(bea, accept: .all) { listener, controller, node async throws in
            let outcome = try await withNode(try ada.settings()) { other in
                try await other.withConnection(to: bea.destination(listener)) { connection in
                    let transfer = connection.send(source, resumeKey: [UInt8](repeating: 5, count: 32), timeout: .seconds(60))
                    for await progress in transfer.progress where progress.done > 0 { break }
                    if isSignal { controller.interrupt(node, .terminated) } else { node.beginShutdown() }
                    return await transfer.result.outcome
                }
            }
            #expect(outcome == .interrupted)
        }
        let sentence =
            "stopped with this command; it continues where it stopped when `nearshare receive` or `nearshare mesh run` "
            + "runs again"
        #expect(reporter.ended.map(\.detail) == [sentence])
    }

    @Test func `a terminal that closes is no answer to an open offer: the user cannot be asked`() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let (display, prompts) = unanswered()
        _ = try await receiving(bea, accept: .ask, display: display) { listener, _, _ async throws in
            let outcome = try await offer(ada, bea, listener) { _ in
                for await _ in prompts { break }
                display.hangUp()
            }
            #expect(outcome == .declined(.notAllowed))
        }
        #expect(reporter.ended.map(\.outcome) == [.declined(.notAllowed)])
    }

    // MARK: A full address book

    /// Fills the address book with peers that the user has named.
    private func fillAddressBook(of user: StageUser) throws {
        let names = try (0..<TrustStore.capacity).map { try DisplayName("Peer \($0)") }
        try user.machine.trust.update { trust in
            for (number, name) in names.enumerated() {
                let bytes = UInt64(number).bigEndianBytes + [UInt8](repeating: 1, count: 24)
                if let key = Fingerprint(bytes: bytes) {
                    _ = trust.introduce(key, claiming: name, as: name, at: WallTime(milliseconds: 1))
                }
            }
        }
    }

    @Test("R6: with a full address book the user learns that a peer is not blocked")
    func blockWithoutRoom() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        try fillAddressBook(of: bea)
        _ = try await receiving(bea, accept: .ask, display: AnsweringDisplay { _ in "b" }) { listener, _, _ async throws in
            #expect(try await offer(ada, bea, listener) == .declined(.declined))
        }
        #expect(try bea.trust(in: ada.fingerprint) == nil)
        #expect(reporter.warnings.contains { $0.contains("could not be blocked, so only this request is declined") })
        #expect(!reporter.notices.contains { $0.contains("is blocked") })
    }

    @Test("R6, K3: with a full address book both users learn that the key is not verified")
    func verificationWithoutRoom() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        try fillAddressBook(of: ada)
        try fillAddressBook(of: bea)
        _ = try await receiving(bea, accept: .ask, display: AnsweringDisplay { _ in "y" }) { listener, _, _ async throws in
            let failure = try await verify(ada, bea, listener) { true }
            #expect(failure?.status == .noSpace)
            _ = await reporter.next { event in
                if case .warning(let line) = event, line.contains("could not be marked as verified") { true } else { nil }
            }
        }
        #expect(!reporter.notices.contains { $0.contains("is verified") })
    }

    // MARK: Comparing codes

    /// Asks for a comparison as `ada`, and answers it there.
    private func compare(
        _ ada: StageUser, _ bea: StageUser, _ listener: Listener, answer: Bool
    ) async throws -> Bool {
        try await withNode(try ada.settings()) { node in
            try await node.withConnection(to: bea.destination(listener)) { connection in
                try await connection.requestVerification()
                connection.answerVerification(matches: answer)
                return try await connection.peerConfirmation
            }
        }
    }

    @Test(
        "K3: a key is verified once both users have said yes, whatever is accepted without a question",
        arguments: [.ask, .friends, .all] as [Configuration.Accept])
    func verified(_ accept: Configuration.Accept) async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let display = AnsweringDisplay { _ in "y" }
        _ = try await receiving(bea, accept: accept, display: display) { listener, _, _ async throws in
            try await withNode(try ada.settings()) { node in
                try await node.withConnection(to: bea.destination(listener)) { connection in
                    try await connection.requestVerification()
                    #expect(try await connection.peerConfirmation)
                    #expect(try bea.trust(in: ada.fingerprint) == nil)
                    connection.answerVerification(matches: true)
                    _ = await reporter.next { if case .notice("ada is verified") = $0 { true } else { nil } }
                }
            }
        }
        #expect(try bea.trust(in: ada.fingerprint) == .verified)
        #expect(display.shown.contains("wants to compare the short code:"))
    }

    @Test("K3: a no on either side verifies nothing", arguments: [(true, false), (false, true)])
    func denied(locally: Bool, remotely: Bool) async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        // The user here is not asked when the other side has said no already.
        let display = AnsweringDisplay { _ in locally ? nil : "n" }
        _ = try await receiving(bea, accept: .ask, display: display) { listener, _, _ async throws in
            try await withNode(try ada.settings()) { node in
                try await node.withConnection(to: bea.destination(listener)) { connection in
                    try await connection.requestVerification()
                    connection.answerVerification(matches: remotely)
                    _ = await reporter.next { event -> Bool? in
                        switch event {
                        case .notice(let line), .warning(let line): line.contains("not") ? true : nil
                        default: nil
                        }
                    }
                }
            }
        }
        #expect(try bea.trust(in: ada.fingerprint) != .verified)
        let lines = reporter.notices + reporter.warnings
        #expect(
            lines.contains { $0.contains("ada is not verified") || $0.contains("ada says that the codes are not the same") })
    }

    /// Verifies `bea` as `ada` does, whose user is asked.
    private func verify(
        _ ada: StageUser, _ bea: StageUser, _ listener: Listener, after refusalTime: Duration = .zero,
        confirmedWithin confirmation: Duration = .seconds(60), ask: @escaping @Sendable () async -> Bool?
    ) async throws -> CommandFailure? {
        var timeouts = VerificationOperation.Timeouts()
        (timeouts.refusal, timeouts.confirmation) = (refusalTime, confirmation)
        return try await withNode(try ada.settings()) { [timeouts] node in
            await caughtFailure {
                try await node.withConnection(to: bea.destination(listener)) { connection in
                    let operation = VerificationOperation(
                        machine: ada.machine, reporter: self.reporter, timeouts: timeouts)
                    try await operation.run(over: connection) { _, _ in await ask() }
                }
            }
        }
    }

    @Test("K3: the user is not asked about a code where the peer's user cannot be")
    func unattendedPeer() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let askedCount = Monitor(0)
        _ = try await receiving(bea, accept: .all) { listener, _, _ async throws in
            let failure = try await verify(ada, bea, listener, after: .seconds(60)) {
                askedCount.update { $0 += 1 }
                return true
            }
            #expect(failure?.message.hasPrefix("nothing was compared: the peer's user cannot be asked") == true)
        }
        #expect(askedCount.withLock { $0 } == 0)
    }

    @Test("K2: the user is warned before a code is compared with a peer that uses the name of another known one")
    func comparisonWithNamesake() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let known = try #require(Fingerprint(bytes: [UInt8](repeating: 7, count: 32)))
        try ada.introduce(known, as: "bea")
        let display = AnsweringDisplay { _ in nil }
        let warnings = Monitor<[String]>([])
        _ = try await receiving(bea, accept: .ask, display: display) { listener, _, _ async throws in
            let failure = try await verify(ada, bea, listener) {
                warnings.withLock { $0 = reporter.warnings }
                return false
            }
            #expect(failure?.status == .notTrusted)
        }
        #expect(warnings.withLock { $0 }.contains { $0.contains("that you know with another key, \(known.peerID)") })
    }

    @Test("K3: a peer that ends in the middle of the question ends it, in words for a comparison")
    func endedQuestion() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let display = AnsweringDisplay { _ in nil }
        let isAsked = Promise<Void>()
        _ = try await receiving(bea, accept: .ask, display: display) { listener, controller, node async throws in
            async let failure = verify(ada, bea, listener) {
                isAsked.fulfil()
                return await Promise<Bool>().value ?? false
            }
            _ = await isAsked.value
            controller.interrupt(node, .cancelled)
            let message = try await failure?.message
            // The end of the node, or the end of the question.
            #expect(message?.hasPrefix("nothing was compared: ") == true)
        }
        #expect(try ada.trust(in: bea.fingerprint) == nil)
    }

    @Test(
        "K3: neither Ctrl-C nor the end of the terminal is an answer about the codes: a verified peer stays verified",
        arguments: [true, false])
    func closedQuestion(isInterrupted: Bool) async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        try bea.introduce(ada.fingerprint, as: "ada")
        try bea.machine.trust.update { _ = $0.setDeviceVerified(ada.fingerprint, true) }
        let (display, prompts) = unanswered()
        _ = try await receiving(bea, accept: .ask, display: display) { listener, controller, node async throws in
            try await withNode(try ada.settings()) { other in
                try await other.withConnection(to: bea.destination(listener)) { connection in
                    try await connection.requestVerification()
                    for await _ in prompts { break }
                    if isInterrupted { controller.interrupt(node, .cancelled) } else { display.hangUp() }
                    await #expect(throws: NodeError.self) { try await connection.peerConfirmation }
                }
            }
        }
        #expect(try bea.trust(in: ada.fingerprint) == .verified)
        #expect(!reporter.notices.contains { $0.contains("the codes were not the same") })
    }

    @Test("K3: the end of the terminal is no answer of the user who compares, and revokes no verification")
    func unansweredQuestion() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        try ada.introduce(bea.fingerprint, as: "bea")
        try ada.machine.trust.update { _ = $0.setDeviceVerified(bea.fingerprint, true) }
        let (display, _) = unanswered()
        _ = try await receiving(bea, accept: .ask, display: display) { listener, _, _ async throws in
            let failure = try await verify(ada, bea, listener) { nil }
            #expect(failure?.message == "nothing was compared: the question was not answered")
        }
        #expect(try ada.trust(in: bea.fingerprint) == .verified)
    }

    @Test("K3: a peer whose user never answers keeps the other user waiting for a while only")
    func unansweredComparison() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let display = AnsweringDisplay { _ in nil }
        _ = try await receiving(bea, accept: .ask, display: display) { listener, _, _ async throws in
            let failure = try await verify(ada, bea, listener, confirmedWithin: .milliseconds(50)) { true }
            #expect(failure?.status == .timedOut)
            #expect(failure?.message == "not verified: bea has not confirmed the code in time; try again together")
        }
        #expect(try ada.trust(in: bea.fingerprint) != .verified)
    }

    @Test("K3: without a terminal nothing is compared, and nobody is told that the codes differ")
    func unattended() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        _ = try await receiving(bea, accept: .all) { listener, _, _ async throws in
            let error = await #expect(throws: NodeError.self) { try await compare(ada, bea, listener, answer: true) }
            #expect(error?.description.hasPrefix("the peer's user cannot be asked") == true)
        }
        #expect(reporter.warnings.count == 1)
        #expect(reporter.warnings.first?.hasPrefix("ada wants to compare the short code, but the user cannot be asked") == true)
        #expect(try bea.trust(in: ada.fingerprint) == nil)
    }
}
