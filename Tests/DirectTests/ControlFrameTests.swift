import NearshareBase
import NearshareDirect
import NearshareTesting
import Testing

@Suite struct ControlFrameTests {
    @Test(arguments: Samples.frames) func `a frame is decoded as it was encoded`(_ frame: ControlFrame) throws {
        #expect(try ControlFrame.decode(frame.encoded) == frame)
    }

    @Test(arguments: Samples.frames) func `a truncated frame is rejected`(_ frame: ControlFrame) {
        let encoded = frame.encoded
        // Cuts into the beginning and the end, and between them into each field of some item: the long samples repeat one.
        let middle = 200..<max(200, encoded.count - 200)
        for length in encoded.indices where !middle.contains(length) || length.isMultiple(of: 17) {
            #expect(throws: MalformedInput.self, "cut to \(length)") { try ControlFrame.decode(Array(encoded[..<length])) }
        }
    }

    @Test(arguments: Samples.frames) func `a frame with bytes behind it is rejected`(_ frame: ControlFrame) {
        #expect(throws: MalformedInput.self) { try ControlFrame.decode(frame.encoded + [0]) }
    }

    @Test("R1: a list of changed names is bounded, and no longer than its count")
    func changedNames() throws {
        #expect(Samples.changedNames.count == 7 && Samples.changedNames.listed.count == ChangedNames.maximumListedCount)
        func frame(count: UInt64, listed: UInt8) -> [UInt8] {
            var writer = ByteWriter()
            writer.write(FrameType.changedNames)
            writer.write(Samples.id.rawValue)
            writer.write(count)
            writer.write(listed)
            return writer.bytes + (0..<listed).flatMap { _ in [1, 97, 1, 98] as [UInt8] }
        }
        let one = try #require(try ControlFrame.decode(frame(count: 9, listed: 1)))
        guard case .changedNames(_, let names) = one else { throw MalformedInput("another frame") }
        #expect(names.count == 9 && names.limited(to: 3).count == 3 && names.limited(to: 0).isEmpty)
        #expect(throws: MalformedInput.self) { try ControlFrame.decode(frame(count: 1, listed: 2)) }
        #expect(throws: MalformedInput.self) { try ControlFrame.decode(frame(count: 200, listed: 6)) }
        #expect(throws: MalformedInput.self) { try ControlFrame.decode(frame(count: 0, listed: 0) + [0]) }
    }

    @Test func `frames of unknown types are skipped`() throws {
        let known: Set<UInt8> = [
            1, 2, 3, 4, 5, 6, 7, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x50,
            0x51, 0x52, 0x53, 0x54, 0x55,
        ]
        for type in UInt8.min...UInt8.max where !known.contains(type) {
            #expect(try ControlFrame.decode([type, 1, 2, 3]) == nil, "type \(type)")
        }
    }

    @Test func `a decline has the number of its reason, also where the offer has expired`() throws {
        let reasons: [(DeclineReason?, UInt8)] = [
            (.declined, 0), (nil, 1), (.notAllowed, 2), (.acceptsNothing, 7), (.singleFileOnly, 8),
        ]
        for (reason, number) in reasons {
            let frame = ControlFrame.decline(Samples.id, reason)
            #expect(frame.encoded.last == number)
            #expect(try ControlFrame.decode(frame.encoded) == frame)
        }
        #expect(DeclineReason(rawValue: DeclineReason.expiredNumber) == nil)
    }

    @Test func `frames with unknown reasons keep their effect`() throws {
        func replacingLast(_ frame: ControlFrame) -> [UInt8] { frame.encoded.dropLast() + [200] }
        #expect(try ControlFrame.decode(replacingLast(.close(.done))) == .close(.goingAway))
        #expect(try ControlFrame.decode(replacingLast(.cancel(Samples.id, .noSpace))) == .cancel(Samples.id, .cancelled))
        #expect(try ControlFrame.decode(replacingLast(.decline(Samples.id, .busy))) == .decline(Samples.id, .declined))
    }

    @Test("K3: only the value for yes confirms the codes", arguments: UInt8.min...UInt8.max)
    func comparedIsStrict(_ answer: UInt8) throws {
        #expect(try ControlFrame.decode([FrameType.compared, answer]) == .compared(isSame: answer == 1))
    }

    @Test("R7: a name beyond its bound is rejected") func displayNameBounds() throws {
        func hello(_ name: [UInt8]) -> [UInt8] {
            [FrameType.hello] + Samples.digest + [UInt8](repeating: 0, count: 8) + [UInt8(name.count)] + name
        }
        let longest = [UInt8](repeating: UInt8(ascii: "x"), count: 63)
        #expect(try ControlFrame.decode(hello(longest)) != nil)
        for bad in [[], longest + [UInt8(ascii: "x")], [0xff, 0xfe]] {
            #expect(throws: MalformedInput.self) { try ControlFrame.decode(hello(bad)) }
        }
    }

    @Test("R7: a context beyond its bound is rejected") func contextBounds() throws {
        func offer(_ count: Int) -> [UInt8] {
            ControlFrame.offer(
                TransferOffer(
                    id: Samples.id, timeout: .seconds(1), resumeKey: Samples.digest,
                    context: [UInt8](repeating: 7, count: count),
                    offer: Samples.offers[0])
            ).encoded
        }
        #expect(try ControlFrame.decode(offer(1024)) != nil)
        #expect(throws: MalformedInput.self) { try ControlFrame.decode(offer(1025)) }
    }

    @Test func `a resume point has digests exactly where it has entries and bytes`() {
        let wrong = [
            ResumePoint(completeEntries: 1, entriesDigest: [], partialSize: 0, partialDigest: []),
            ResumePoint(completeEntries: 0, entriesDigest: Samples.digest, partialSize: 0, partialDigest: []),
            ResumePoint(completeEntries: 0, entriesDigest: [], partialSize: 1, partialDigest: []),
            ResumePoint(completeEntries: 0, entriesDigest: [], partialSize: 0, partialDigest: Samples.digest),
            ResumePoint(completeEntries: 1, entriesDigest: Samples.digest.dropLast(), partialSize: 0, partialDigest: []),
            ResumePoint(completeEntries: 1, entriesDigest: Samples.digest + [0], partialSize: 0, partialDigest: []),
        ]
        for point in wrong {
            #expect(throws: MalformedInput.self) { try ControlFrame.decode(ControlFrame.resume(Samples.id, point).encoded) }
        }
    }

    @Test(
        "R7: changed frames are refused or decoded, and never terminate the process", arguments: 0..<1000 as Range<UInt64>)
    func mutation(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let bytes = Samples.frames.randomElement(using: &random)!.encoded.mutated(using: &random)
        guard let frame = try? ControlFrame.decode(bytes) else { return }
        #expect(try ControlFrame.decode(frame.encoded) == frame, "seed \(seed)")
    }
}
