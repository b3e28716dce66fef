import FoundationEssentials
import Nearshare
import NearshareBundles
import NearshareTesting
import Synchronization
import Testing

@testable import NearshareCLI
@testable import NearshareMesh
@testable import NearshareService

private let anna = PeerID(hex: "1a2b3c4d5e6f7081")!
private let transfer = TransferID(rawValue: 0x0102)
private let day = WallTime(milliseconds: 1_795_271_100_000)

private func item(
    _ name: String = "a.jpg", kind: OfferedItem.Kind = .file, path: String = "/in/a.jpg", isInInbox: Bool = true,
    type: String? = "image/jpeg", warning: String? = nil
) throws -> DeliveredItem {
    DeliveredItem(
        item: 0, kind: kind, claimedName: try #require(ClaimedFileName(name)), path: path, isInInbox: isInInbox, size: 1_500,
        detectedType: type, typeWarning: warning)
}

private func offer(_ names: String...) -> Offer {
    let items = names.compactMap { ClaimedFileName($0) }.map {
        OfferedItem(kind: .file, name: $0, size: 5, entryCount: 1, mediaType: .unknown)
    }
    return Offer(items: items, itemCount: UInt32(items.count), entryCount: UInt64(items.count), totalSize: 5)
}

private func invitation(_ path: OutgoingInvitation.Path, _ status: TrustStatus = .new) -> OutgoingInvitation {
    OutgoingInvitation(transfer: transfer, peer: anna, receiver: "anna", name: "\"anna\"", trustStatus: status, path: path)
}

private final class WrittenLines: Sendable {
    private let lines = Mutex<[String]>([])
    func append(_ line: String) { lines.withLock { $0.append(line) } }
    var all: [String] { lines.withLock { $0 } }
    var output: TextReporter.Output {
        .publish { event in
            if case .notice(let line, _, _) = event { self.append(line) }
        }
    }
}

private func sent(
    _ outcome: TransferOutcome, detail: String? = nil, resumed: UInt64 = 0
) -> SendResult {
    SendResult(
        transfer: transfer, peer: anna, outcome: outcome, detail: detail, label: "a.jpg → anna", byteCount: 3_000,
        resumedByteCount: resumed)
}

private func changed(_ names: [String]) -> ChangedNames {
    names.reduce(into: ChangedNames()) { changed, name in
        if let claimed = ClaimedFileName(name) { changed.record(claimed, storedAs: "a_b") }
    }
}

private func received(
    _ outcome: TransferOutcome, detail: String? = nil, transfer: TransferID? = nil, of names: String = "a.jpg"
) -> ReceiveResult {
    ReceiveResult(offer: offer(names), peer: anna, name: "anna", outcome: outcome, detail: detail, transfer: transfer)
}

private func line(_ text: String, from author: PeerID? = anna, in conversation: Conversation = .publicRoom) -> ChatMessage {
    ChatMessage(
        number: 7, id: "l7", conversation: conversation, author: author, authorName: DisplayName(truncating: "anna"),
        text: text,
        when: day, status: .delivered)
}

/// A clock that a test moves.
private final class MovableTime: Sendable {
    private let time = Mutex(MonotonicInstant(nanoseconds: 0))
    var now: MonotonicInstant { time.withLock { $0 } }
    func advance(by duration: Duration) { time.withLock { $0 = $0 + duration } }
}

@Suite("operations, as users read them") struct TextReporterTests {
    /// The lines that events cause.
    private func lines(_ events: OperationEvent...) -> [String] {
        let written = WrittenLines()
        let reporter = TextReporter(output: written.output)
        for event in events { reporter.report(event) }
        return written.all
    }

    @Test func `a search names what is looked for, escaped`() {
        #expect(lines(.searching("anna")) == ["looking for anna…"])
        #expect(lines(.searching("a\u{1b}[2J")) == ["looking for a\\u{1b}[2J…"])
        #expect(
            lines(.reconnecting(anna, name: "anna", timeLeft: .seconds(120), isBusy: false))
                == ["the connection to anna was lost; trying again for 2 min…"])
        #expect(
            lines(.reconnecting(anna, name: "anna", timeLeft: .seconds(120), isBusy: true)) == ["trying again for 2 min…"])
    }

    @Test func `changed names are listed at both ends, a handful and the number of the others`() {
        var result = sent(.completed)
        result.receiver = "ben"
        result.changedNames = changed(["a:b"])
        #expect(lines(.sent(result)).last == "1 name was changed by ben's machine: \"a:b\" → a_b")
        var incoming = received(.completed)
        incoming.changedNames = changed((1...7).map { "a\($0)\u{1b}" })
        let line = lines(.receiveEnded(incoming)).last
        #expect(line?.hasPrefix("7 names were changed to be stored here: \"a1\\u{1b}\" → a_b, ") == true)
        #expect(line?.hasSuffix("\"a5\\u{1b}\" → a_b, 2 more") == true)
        #expect(lines(.sent(sent(.completed))).count == 1)
        let json = JSONReporter.jsonEvent(of: .sent(result))?.members["changed_names"]
        guard case .object(let fields)? = json, case .number(1)? = fields["count"] else { return #expect(Bool(false)) }
        #expect(JSONReporter.jsonEvent(of: .sent(sent(.completed)))?.members["changed_names"] == nil)
    }

    @Test func `an invitation names the peer, the trust in it and the path`() {
        let address = LinkAddress(host: "10.0.0.1", port: 4000)
        #expect(lines(.inviting(invitation(.direct(address)))) == ["inviting \"anna\" (new here)…"])
        #expect(
            lines(.inviting(invitation(.mesh(isNeighbour: true, estimate: .seconds(1)), .known(.verified, isFriend: false))))
                == ["sending to \"anna\" (verified) over the mesh, directly to a neighbour"])
        #expect(
            lines(.inviting(invitation(.mesh(isNeighbour: false, estimate: .seconds(75)))))
                == ["sending to \"anna\" (new here) over the mesh, relayed by other peers, 1:15 at least"])
        #expect(
            lines(.inviting(invitation(.node))) == ["sending to \"anna\" in the mesh, by the node of this machine"])
    }

    @Test("M12, R11: lines by peers that the user does not know are limited on the screen, all of them together")
    func unknownPeers() throws {
        let (clock, written) = (MovableTime(), WrittenLines())
        let friend = try #require(PeerID(hex: "00000000000000ff"))
        let limit = UnknownPeerLimiter(.rows, clock: { clock.now }, isKnown: { $0 == friend })
        let reporter = TextReporter(output: written.output, unknownPeers: limit)
        func report(_ numbers: Range<Int>) {
            for number in numbers {
                reporter.report(.node(.chatMessage(line("text \(number)", from: PeerID(fitting: [UInt8(number & 255)])))))
            }
        }
        report(0..<100)
        #expect(written.all.count == 21)
        #expect(written.all.last == "unknown peers cause more lines than are shown; \(showing)")
        reporter.report(.node(.chatMessage(line("a friend's", from: friend))))
        #expect(written.all.count == 22)
        // A text of many lines counts as many.
        reporter.report(.node(.chatMessage(line(String(repeating: "x\n", count: 50)))))
        clock.advance(by: .seconds(2))
        report(100..<110)
        #expect(written.all.count == 22)
        clock.advance(by: .seconds(4))
        report(110..<200)
        #expect(written.all.count == 22 + 1 + 20 + 1)
        #expect(written.all[22].hasSuffix(" more lines because of unknown peers; \(showing)"))
    }

    @Test("M12: a message is shown up to ten rows, and counts as many, whatever its length and its line breaks")
    func longMessages() throws {
        for text in [
            String(repeating: "x", count: 60_000), String(repeating: "\u{1b}", count: 60_000),
            String(repeating: "\n", count: 60_000),
        ] {
            let (clock, written) = (MovableTime(), WrittenLines())
            let friend = try #require(PeerID(hex: "00000000000000ff"))
            let limit = UnknownPeerLimiter(.rows, clock: { clock.now }, isKnown: { $0 == friend })
            let reporter = TextReporter(output: written.output, unknownPeers: limit)
            for _ in 0..<10 { reporter.report(.node(.chatMessage(line(text), isShownAsBundle: false))) }
            // Two of ten rows, and a notice for each; then that others are hidden.
            let width = written.all.reduce(0) { $0 + max(80, TerminalText.width(of: $1)) }
            #expect(width <= 26 * 80 && written.all.last?.hasSuffix(showing) == true)
            #expect(written.all.count { $0 == "… the rest of this message is not shown; `nearshare chat` shows it" } == 2)
            let before = written.all.count
            reporter.report(.node(.chatMessage(line(text, from: friend), isShownAsBundle: false)))
            #expect((2...11).contains(written.all.count - before))
        }
    }

    @Test("M12: JSON events of messages by unknown peers are limited, and those left out are counted")
    func eventsOfUnknownPeers() throws {
        let (clock, written) = (MovableTime(), WrittenLines())
        let friend = try #require(PeerID(hex: "00000000000000ff"))
        let limiter = UnknownPeerLimiter(.bytes, clock: { clock.now }, isKnown: { $0 == friend })
        let reporter = JSONReporter(unknownPeers: limiter, write: { written.append($0) })
        let text = String(repeating: "\u{202e}", count: 60_000 / 3)
        func report(_ count: Int, from author: PeerID? = anna) {
            for _ in 0..<count { reporter.report(.node(.chatMessage(line(text, from: author), isShownAsBundle: false))) }
        }
        report(100)
        let shown = written.all.count
        // With the event that counts the first one at once.
        #expect((2...10).contains(shown) && written.all.last == #"{"count":1,"event":"omitted"}"#)
        #expect(written.all.reduce(0) { $0 + $1.utf8.count } <= 1 << 20)
        report(1, from: friend)
        // Programs join the events of an accepted transfer.
        var ended = received(.interrupted)
        ended.transfer = TransferID(rawValue: 1)
        reporter.report(.receiveEnded(ended))
        #expect(written.all.count == shown + 2)
        // A short line finds room where a long one does not.
        clock.advance(by: .milliseconds(100))
        report(1)
        reporter.report(.node(.chatMessage(line("hello"), isShownAsBundle: false)))
        #expect(written.all.count == shown + 4)
        #expect(written.all[shown + 2] == #"{"count":\#(101 - shown),"event":"omitted"}"#)
        #expect(written.all.last?.contains(#""text":"hello""#) == true)
    }

    @Test("M6: a flood over one link hides no line of a peer who is heard over another one")
    func eventsOfOtherLinks() throws {
        let (clock, written) = (MovableTime(), WrittenLines())
        let limiter = UnknownPeerLimiter(.bytes, clock: { clock.now }, isKnown: { _ in false })
        let noisy = MeshLinkShare(source: .address("10.0.0.1"), number: 0)
        let calm = MeshLinkShare(source: .address("10.0.0.2"), number: 0)
        limiter.followLinks { [anna] in $0 == anna ? calm : noisy }
        let reporter = JSONReporter(unknownPeers: limiter, write: { written.append($0) })
        func flood(_ range: Range<Int>) {
            for number in range {
                let author = PeerID(bytes: UInt64(number).bigEndianBytes)
                reporter.report(.node(.chatMessage(line("junk", from: author), isShownAsBundle: false)))
            }
        }
        flood(0..<5_000)
        let flooded = written.all.count
        #expect((1_024...1_100).contains(flooded))
        for number in 0..<20 {
            reporter.report(.node(.chatMessage(line("line \(number)"), isShownAsBundle: false)))
            flood(5_000 + number * 100..<5_100 + number * 100)
        }
        #expect(written.all.count { $0.contains("\"text\":\"line ") } == 20)
        #expect(written.all.count == flooded + 20)
    }

    @Test("M12: a flood hides no line of a newcomer whose link has an allowance that an earlier one has used up")
    func newcomerOnUsedLink() {
        let clock = MovableTime()
        let limiter = UnknownPeerLimiter(.bytes, clock: { clock.now }, isKnown: { _ in false })
        let noisy = (0..<16 as Range<UInt64>).compactMap { PeerID(bytes: $0.bigEndianBytes) }
        limiter.followLinks { id in
            MeshLinkShare(source: .address("10.0.0.1"), number: (noisy.firstIndex(of: id) ?? 0) % 12)
        }
        func flood() {
            for peer in noisy {
                for _ in 0..<10 { _ = limiter.admit(from: peer, cost: 1_024) }
            }
        }
        for _ in 0..<100 {
            flood()
            clock.advance(by: .milliseconds(100))
        }
        var shown = 0
        for _ in 0..<20 {
            flood()
            let verdict = limiter.admit(from: anna, cost: 1_024)
            if verdict != .hidden, verdict != .firstHidden { shown += 1 }
            clock.advance(by: .milliseconds(120))
        }
        #expect(shown == 20)
    }

    @Test("M6: links that are opened anew bring no room without end")
    func allowancesOfLinks() {
        let clock = MovableTime()
        let limiter = UnknownPeerLimiter(.bytes, clock: { clock.now }, isKnown: { _ in false })
        limiter.followLinks { MeshLinkShare(source: .address($0.hex), number: nil) }
        var shown = 0
        for number in 0..<10_000 as Range<UInt64> {
            for _ in 0..<2 where limiter.admit(from: PeerID(bytes: number.bigEndianBytes), cost: 65_536) != .hidden {
                shown += 1
            }
        }
        #expect(shown < 300)
    }

    @Test("R11, M12: JSON events of offers that are not accepted are limited, and what was left out is counted twice a second")
    func eventsOfDeclinedOffers() throws {
        let (clock, written) = (MovableTime(), WrittenLines())
        let limiter = UnknownPeerLimiter(.bytes, clock: { clock.now }, isKnown: { _ in false })
        let reporter = JSONReporter(unknownPeers: limiter, write: { written.append($0) })
        for _ in 0..<20_000 {
            reporter.report(.receiveEnded(received(.declined(.notAllowed))))
            clock.advance(by: .milliseconds(1))
        }
        let counts = written.all.count { $0.contains(#""event":"omitted""#) }
        #expect((20...42).contains(counts))
        #expect((1_024...1_024 + 64 * 20).contains(written.all.count - counts))
    }

    private let showing = "`nearshare history`, `nearshare chat` and `nearshare messages` show all"

    @Test("R11: transfers of unknown peers that break off are limited on the screen as well; those that arrive are all shown")
    func unknownPeersThatBreakOff() throws {
        let (clock, written) = (MovableTime(), WrittenLines())
        let friend = try #require(PeerID(hex: "00000000000000ff"))
        let limit = UnknownPeerLimiter(.rows, clock: { clock.now }, isKnown: { $0 == friend })
        let reporter = TextReporter(output: written.output, unknownPeers: limit)
        func end(_ outcome: TransferOutcome, of peer: PeerID) {
            var result = received(outcome)
            result.peer = peer
            reporter.report(.receiveEnded(result))
        }
        for number in 0..<100 as Range<UInt8> { end(.interrupted, of: PeerID(fitting: [number])) }
        #expect(written.all.count == 21 && written.all.last?.hasSuffix(showing) == true)
        end(.interrupted, of: friend)
        #expect(written.all.count == 22)
        for _ in 0..<30 { end(.completed, of: PeerID(fitting: [1])) }
        #expect(written.all.count == 52)
    }

    @Test func `only a completed send is a line; failures are the command's error`() {
        #expect(lines(.sent(sent(.completed))) == ["a.jpg → anna: done, 3.0 KB"])
        #expect(
            lines(.sent(sent(.completed, detail: "stored in the spool", resumed: 1_000)))
                == ["a.jpg → anna: done, 2.0 KB of 3.0 KB sent, 1.0 KB sent earlier; stored in the spool"])
        var part = sent(.completed)
        part.part = OfferPart.Counts(accepted: 3, offered: 12, size: 3_000)
        #expect(lines(.sent(part)) == ["a.jpg → anna: done, 3.0 KB, 3 of 12 files accepted"])
        var merged = sent(.completed, resumed: 500)
        merged.compared = ComparedFiles(fileCount: 3, presentCount: 1, newerCount: 1)
        merged.compared?.unsentByteCount = 2_000
        #expect(
            lines(.sent(merged)) == [
                "a.jpg → anna: done, 500 B of 3.0 KB sent, 500 B sent earlier, 2.0 KB not needed",
                "3 files, 1 new, 1 was already there, 1 was left as it is (newer or as new there)",
            ])
        var present = sent(.completed)
        present.compared = ComparedFiles(fileCount: 2, presentCount: 2, newerCount: 0)
        #expect(
            lines(.sent(present)) == [
                "a.jpg → anna: nothing new to send", "2 files, 0 new, 2 were already there",
            ])
        #expect(lines(.sent(sent(.declined(.declined))), .sent(sent(.interrupted)), .sent(sent(.expired))).isEmpty)
    }

    @Test func `an item that is kept beside an earlier one is named at both ends`() throws {
        var present = sent(.completed)
        present.compared = ComparedFiles(fileCount: 2, presentCount: 2, newerCount: 0)
        present.changedNames.record(try #require(ClaimedFileName("trip")), storedAs: "trip (2)")
        let said = lines(.sent(present))
        #expect(said.first == "a.jpg → anna: done, all files were there already")
        present.compared = ComparedFiles(fileCount: 3, presentCount: 1, newerCount: 2)
        #expect(lines(.sent(present)).first == "a.jpg → anna: done, nothing had to be sent")
        #expect(said.last?.hasSuffix("trip → \"trip (2)\"") == true, "\(said)")
        var kept = try item(kind: .folder, path: "/in/trip (2)", type: nil)
        kept.isMergeable = true
        #expect(
            lines(.delivered(kept, .notShown, from: nil, nil)) == [
                "/in/trip (2)  (folder, beside the earlier one, which `receive --update` would update)"
            ])
    }

    @Test func `a received file is its path, size and type`() throws {
        #expect(lines(.delivered(try item(), .notShown, from: nil, transfer)) == ["/in/a.jpg  (1.5 KB, image/jpeg)"])
        #expect(
            lines(.delivered(try item(kind: .folder, path: "/in/album", type: nil), .notShown, from: nil, nil)) == [
                "/in/album  (folder)"
            ])
        #expect(lines(.delivered(try item(path: "", type: nil), .notShown, from: nil, nil)).isEmpty)
        var present = try item(kind: .folder, path: "/in/album", type: nil)
        present.isPresent = true
        #expect(lines(.delivered(present, .notShown, from: nil, nil)) == ["/in/album  (folder, nothing new)"])
    }

    @Test("published lines about an item name its sender, its conversation and its path, and its end only where it has failed")
    func conversations() throws {
        let published = Mutex<[String]>([])
        let reporter = TextReporter(
            output: .publish { event in
                guard case .notice(let line, let conversation, let path) = event else { return }
                published.withLock { $0.append("\(conversation?.text ?? "none"), \(path ?? "no item"): \(line)") }
            })
        let sender = ShownPeer(id: anna, name: try DisplayName("anna"), limitSource: "")
        reporter.report(.delivered(try item(), .notShown, from: sender, transfer, in: .publicRoom))
        var result = received(.completed)
        (result.transfer, result.conversation) = (transfer, .publicRoom)
        reporter.report(.receiveEnded(result))
        (result.outcome, result.conversation) = (.interrupted, .peer(anna))
        reporter.report(.receiveEnded(result))
        reporter.report(.notice("relaying"))
        let lines = published.withLock { $0 }
        #expect(lines.count == 3)
        #expect(lines[0] == "\(Conversation.publicRoom.text), /in/a.jpg: /in/a.jpg  (1.5 KB, image/jpeg) from anna")
        #expect(lines[1].hasPrefix("\(anna.hex), no item: warning: ") && lines[2] == "none, no item: relaying", "\(lines)")
    }

    @Test("P14: a type that the content contradicts, and a spooled item, are warnings")
    func warnings() throws {
        let delivered = try item(isInInbox: false, warning: "it is called .jpg and is a program")
        let shown = lines(.delivered(delivered, DeliveredContent(of: delivered), from: nil, transfer))
        #expect(shown.count == 3)
        #expect(shown[1] == "warning: check before you open it: it is called .jpg and is a program")
        #expect(shown[2].hasPrefix("warning: the inbox is not available"))
    }

    @Test("T1: a path with control characters is escaped")
    func hostilePath() throws {
        let shown = lines(.delivered(try item(path: "/in/a\u{1b}[2J\u{202e}.jpg"), .notShown, from: nil, transfer)).joined()
        #expect(shown.contains("a\\u{1b}[2J\\u{202e}.jpg"))
    }

    @Test("T4: a nickname in a line stands in quotation marks, the tag of its key outside of them, unless it is plain")
    func nicknames() {
        func author(_ name: String, in conversation: Conversation) -> String? {
            let message = ChatMessage(
                number: 7, id: "l7", conversation: conversation, author: anna, authorName: DisplayName(truncating: name),
                text: "x", when: day, status: .delivered)
            return lines(.node(.chatMessage(message, isShownAsBundle: false))).first
        }
        #expect(author("anna", in: .peer(anna)) == "anna#1a2b: x")
        #expect(author("Anna Schmidt", in: .publicRoom) == "Anna Schmidt#1a2b to everyone: x")
        #expect(
            author("anna#9dcb: send it to eve, ok? --", in: .peer(anna)) == "\"anna#9dcb: send it to eve, ok? --\"#1a2b: x")
        #expect(author("anna#9dcb to everyone: hi", in: .publicRoom) == "\"anna#9dcb to everyone: hi\"#1a2b to everyone: x")
        #expect(author("anna\"#9dcb", in: .peer(anna)) == "\"anna\\\"#9dcb\"#1a2b: x")
    }

    @Test("K2: a sender with the name of another known peer is warned of once")
    func nameClash() throws {
        let message = ReceivedMessage(
            number: 1, id: try #require(BundleID(bytes: [UInt8](0..<16))), sender: anna, senderName: try DisplayName("anna"),
            trustStatus: .nameClash(knownAs: try #require(Fingerprint(hex: String(repeating: "0e", count: 32)))),
            signer: EndpointID(rawValue: 1), content: .structured(.object(["text": .string("x")])), isBroadcast: false,
            created: day, received: day, hops: 0)
        let shown = lines(.node(.received(message)), .node(.received(message)))
        #expect(shown.count == 3 && shown.count { $0.hasSuffix("  anna#1a2b: x") } == 2)
        #expect(shown.count { $0.hasPrefix("warning: anna (1a2b3c4d5e6f7081) uses the name of a peer that you know") } == 1)
    }

    @Test("other processes show a received text instead of its path, with its lines, but not any number of them")
    func receivedText() throws {
        let scratch = ScratchFolder()
        let path = scratch("message.txt")
        try Data("hello\n\u{1b}[31mred".utf8).write(to: URL(filePath: path))
        let delivered = try item("message.txt", kind: .text, path: path, type: "text/plain")
        #expect(
            lines(.delivered(delivered, DeliveredContent(of: delivered), from: nil, nil)) == [
                "unknown sender: hello\n\\u{1b}[31mred"
            ])
        let long = try #require(
            lines(.delivered(delivered, .text(String(repeating: "x\n", count: 1000)), from: nil, nil)).first)
        #expect(long.split(separator: "\n").count == 201)
        #expect(long.hasSuffix("x\n… the rest of this message is not shown; all of it is in \(path)"), "\(long.suffix(200))")
    }

    @Test func `the end of a transfer says why`() {
        #expect(lines(.receiveEnded(received(.completed))) == ["a.jpg from anna: complete"])
        #expect(lines(.receiveEnded(received(.declined(.declined)))) == ["a.jpg from anna: declined"])
        #expect(
            lines(.receiveEnded(received(.declined(.tooLarge), detail: "it is 2 GB, and --max-size is 1 GB")))
                == ["a.jpg from anna: declined (too large): it is 2 GB, and --max-size is 1 GB"])
        #expect(lines(.receiveEnded(received(.expired))) == ["a.jpg from anna: expired: not answered in time"])
        #expect(
            lines(.receiveEnded(received(.cancelled(by: .remote)))) == ["warning: a.jpg from anna: anna cancelled the transfer"]
        )
    }

    @Test func `names that were changed are listed where a part has arrived, too`() throws {
        var partial = received(.failed(.sourceChanged, at: .remote), detail: "b was not stored", of: "a")
        partial.changedNames = changed(["a:b"])
        #expect(lines(.receiveEnded(partial)).count == 1)
        partial.missing = MissingFiles([try #require(ClaimedFileName("b"))], of: 2)
        #expect(lines(.receiveEnded(partial)).last?.contains("to be stored here") == true)
    }

    @Test func `lines of the node are shown unless a message has shown them already`() throws {
        let bundle = try #require(BundleID(bytes: [UInt8](0..<16)))
        #expect(
            lines(.node(.chatMessage(line("hi\r\nthere")))) == ["anna#1a2b to everyone: hi\nanna#1a2b to everyone: there"])
        #expect(lines(.node(.chatMessage(line("mine", from: nil)))).isEmpty)
        #expect(lines(.node(.notice("relaying"))) == ["relaying"])
        #expect(lines(.node(.messageChanged(bundle, .sent, detail: nil)), .node(.contacts([]))).isEmpty)
    }

    @Test("a line of a phone is shown, whatever its id looks like; one that arrived as a bundle is not shown twice")
    func shownOnce() throws {
        for id in ["short", "000102030405060708090a0b0c0d0e0f"] {
            var shown = line("text", in: .peer(anna))
            shown.id = id
            #expect(lines(.node(.chatMessage(shown))) == ["anna#1a2b: text"])
            #expect(lines(.node(.chatMessage(shown, isShownAsBundle: true))).isEmpty)
        }
    }

    @Test func `a long line is shown whole`() {
        let text = String(repeating: "x", count: ChatMessage.maximumTextByteCount)
        #expect(lines(.node(.chatMessage(line(text)))) == ["anna#1a2b to everyone: \(text)"])
    }

    @Test func `a transfer that goes on without a question is named`() throws {
        let event = OperationEvent.goesOn("ben → a.bin: goes on at 1.0 MB of 4.0 MB", from: anna)
        #expect(lines(event) == ["ben → a.bin: goes on at 1.0 MB of 4.0 MB"])
        #expect(JSONReporter.jsonEvent(of: event) == nil)
    }

    @Test func `progress is drawn, not written`() {
        let progress = TransferProgress(id: transfer, direction: .outgoing, total: 10, totalEntries: 1)
        #expect(
            lines(
                .progress(progress), .nodeProgress(transfer, done: 1, total: 2), .waitingForAnswer(transfer),
                .acceptedByReceiver(transfer), .resumed(transfer, offset: 1), .accepted(transfer, from: anna)
            ).isEmpty)
    }
}

@Suite("operations, as programs read them") struct JSONReporterTests {
    /// The event as one line of JSON; nil where there is none.
    private func json(_ event: OperationEvent) throws -> String? {
        guard let (name, members) = JSONReporter.jsonEvent(of: event) else { return nil }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let data = try encoder.encode(JSONValue.object(members))
        return "\(name) \(String(decoding: data, as: UTF8.self))"
    }

    @Test func `events of a send have the documented members`() throws {
        let name = try DisplayName("an\u{1b}na")
        #expect(try json(.searching("anna")) == #"searching {"peer":"anna"}"#)
        #expect(
            try json(.reconnecting(anna, name: "anna", timeLeft: .seconds(120), isBusy: false))
                == #"reconnecting {"id":"1a2b3c4d5e6f7081"}"#)
        #expect(
            try json(.found(anna, name, .network))
                == "found {\"name\":\"an\\u001bna\",\"peer\":\"1a2b3c4d5e6f7081\",\"via\":\"lan\"}")
        #expect(try json(.waitingForAnswer(transfer)) == #"waiting {"transfer":"0000000000000102"}"#)
        #expect(
            try json(.partAccepted(transfer, OfferPart.Counts(accepted: 3, offered: 12, size: 9), by: nil))
                == #"part {"files":{"count":3,"offered":12,"size":9},"transfer":"0000000000000102"}"#)
        #expect(try json(.acceptedByReceiver(transfer)) == #"accepted {"transfer":"0000000000000102"}"#)
        #expect(try json(.resumed(transfer, offset: 7)) == #"resumed {"offset":7,"transfer":"0000000000000102"}"#)
        #expect(
            try json(.nodeProgress(transfer, done: 5, total: nil))
                == #"progress {"done":5,"entries":null,"finished_entries":null,"fragments":null,"fragments_done":null,"left":null,"rate":null,"total":null,"transfer":"0000000000000102"}"#
        )
        #expect(
            try json(.sent(sent(.declined(.noSpace), detail: "full")))
                == #"finished {"detail":"full","outcome":"declined","peer":"1a2b3c4d5e6f7081","transfer":"0000000000000102"}"#)
    }

    @Test func `the steps of a hotspot have the documented members, and are sentences for users`() throws {
        let joining = HotspotStep(
            .joining, with: anna, network: "nearshare-ab12", interface: "wlan0", "joining the hotspot nearshare-ab12…")
        #expect(
            try json(.hotspot(joining))
                == #"hotspot_state {"interface":"wlan0","name":"nearshare-ab12","peer":"1a2b3c4d5e6f7081","state":"joining"}"#)
        let abandoned = HotspotStep(.abandoned, with: anna, because: .timedOut, "no hotspot: anna was not ready in time")
        #expect(
            try json(.hotspot(abandoned))
                == #"hotspot_state {"detail":"no hotspot: anna was not ready in time","peer":"1a2b3c4d5e6f7081","reason":"timed_out","state":"abandoned"}"#
        )
        let ended = HotspotStep(.ended, interface: "wlan0", replaced: "Office")
        #expect(try json(.hotspot(ended)) == #"hotspot_state {"interface":"wlan0","replaced":"Office","state":"ended"}"#)
        let written = WrittenLines()
        let reporter = TextReporter(output: written.output)
        for step in [joining, ended, HotspotStep(.ended, because: .failed, "the hotspot has ended: wlan0 is gone")] {
            reporter.report(.hotspot(step))
        }
        #expect(
            written.all == ["joining the hotspot nearshare-ab12…", "warning: the hotspot has ended: wlan0 is gone"])
    }

    @Test func `an invitation tells the path that the transfer takes`() throws {
        let address = LinkAddress(host: "10.0.0.1", port: 4000)
        #expect(
            try json(.inviting(invitation(.direct(address))))
                == #"inviting {"address":"10.0.0.1:4000","peer":"1a2b3c4d5e6f7081","transfer":"0000000000000102","trust":"new","via":"lan"}"#
        )
        let mesh = try #require(try json(.inviting(invitation(.mesh(isNeighbour: true, estimate: .seconds(9))))))
        #expect(mesh.contains(#""estimate":9"#) && mesh.contains(#""via":"mesh""#) && !mesh.contains("address"))
        let node = try #require(try json(.inviting(invitation(.node, .known(.seen, isFriend: true)))))
        #expect(node.contains(#""via":"mesh""#) && node.contains(#""trust":"friend""#) && !node.contains("estimate"))
    }

    @Test func `progress has numbers, and null for what is not known`() throws {
        var progress = TransferProgress(id: transfer, direction: .outgoing, total: nil, totalEntries: 2)
        #expect(
            try json(.progress(progress))
                == #"progress {"done":0,"entries":2,"finished_entries":0,"fragments":null,"fragments_done":null,"left":null,"rate":null,"total":null,"transfer":"0000000000000102"}"#
        )
        progress.total = 10
        progress.rate = 3.4
        progress.timeLeft = .milliseconds(2_700)
        progress.fragments = TransferProgress.Fragments(done: 1, total: 4)
        let known = try #require(try json(.progress(progress)))
        for member in [#""left":2"#, #""rate":3"#, #""total":10"#, #""fragments":4"#, #""fragments_done":1"#] {
            #expect(known.contains(member), "\(known)")
        }
    }

    @Test func `events of receiving have the documented members`() throws {
        #expect(
            try json(.accepted(transfer, from: anna)) == #"accepted {"peer":"1a2b3c4d5e6f7081","transfer":"0000000000000102"}"#)
        #expect(
            try json(.delivered(try item(), .notShown, from: nil, nil))
                == #"delivered {"in_inbox":true,"kind":"file","name":"a.jpg","path":"/in/a.jpg","size":1500,"type":"image/jpeg","warning":null}"#
        )
        #expect(
            try json(.delivered(try item(), .notShown, from: nil, transfer))?.contains(#""transfer":"0000000000000102""#)
                == true)
        #expect(
            try json(.receiveEnded(received(.expired)))
                == #"finished {"detail":null,"outcome":"expired","peer":"1a2b3c4d5e6f7081"}"#)
        let complete = try json(.receiveEnded(received(.completed, transfer: transfer)))
        #expect(complete?.contains(#""transfer":"0000000000000102""#) == true)
    }

    @Test func `a received text is in the event`() throws {
        let scratch = ScratchFolder()
        try Data("hello".utf8).write(to: URL(filePath: scratch("m.txt")))
        let delivered = try item("m.txt", kind: .text, path: scratch("m.txt"), type: "text/plain")
        #expect(
            try json(.delivered(delivered, DeliveredContent(of: delivered), from: nil, nil))?.contains(#""text":"hello""#)
                == true)
        // A link in the place of the text is not followed (P4).
        try FileManager.default.createSymbolicLink(atPath: scratch("link"), withDestinationPath: scratch("m.txt"))
        let linked = try item("link", kind: .text, path: scratch("link"), type: "text/plain")
        #expect(try json(.delivered(linked, DeliveredContent(of: linked), from: nil, nil))?.contains(#""text":null"#) == true)
    }

    @Test func `events of the node that programs use are written, the others not`() throws {
        let bundle = try #require(BundleID(bytes: [UInt8](repeating: 1, count: 16)))
        #expect(
            try json(.node(.messageChanged(bundle, .failed, detail: "too old")))
                == #"message_changed {"detail":"too old","id":"01010101010101010101010101010101","state":"failed"}"#)
        #expect(try json(.node(.chatMessage(line("hi"))))?.hasPrefix("chat_message {") == true)
        #expect(try json(.node(.chatMessage(line("mine", from: nil)))) == nil)
        #expect(try json(.node(.contacts([]))) == nil)
        #expect(try json(.notice("x")) == nil && json(.warning("x")) == nil && json(.result("x")) == nil)
        var text = sent(.completed)
        text.transfer = nil
        #expect(
            try json(.sent(text))
                == #"finished {"detail":null,"outcome":"completed","peer":"1a2b3c4d5e6f7081","transfer":null}"#)
    }
}
