import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareDirect

/// Both ends of a link that leave, with the streams that their programs have finished, step by step in a random order.
@Suite struct LinkDepartureTests {
    private static let streamCount = 4
    private static let byteCount = 350_050

    private enum Frame {
        case stream(StreamFrame)
        case leaving(isDone: Bool)
        case leave
    }

    private struct End {
        var streams: ByteStreams
        var departure = LinkDeparture()
        var hasAnnounced = false
        var owesAnswer = false
        /// The bytes that the program has yet to write to each of its streams.
        var unwritten: [StreamID: Int] = [:]
        /// The bytes that the program has read of each of the peer's streams.
        var readCounts: [StreamID: Int] = [:]
        var ended: Set<StreamID> = []
        /// The frames in flight to this end.
        var arriving: [Frame] = []
        /// This end has gone, or knows that the other one has.
        var isOver = false

        init(_ streams: ByteStreams) throws {
            self.streams = streams
            for _ in 0..<LinkDepartureTests.streamCount {
                let id = try self.streams.open(.bytes, StreamName("")!)
                unwritten[id] = LinkDepartureTests.byteCount
            }
        }

        var hasSentAll: Bool { unwritten.isEmpty && streams.unsentFinished.isEmpty }

        mutating func write() throws {
            guard !isOver, let id = unwritten.keys.min(), let count = unwritten[id] else { return }
            let written = try streams.write([UInt8](repeating: 1, count: count)[...], on: id)
            unwritten[id] = count - written
            guard written == count else { return }
            unwritten[id] = nil
            try streams.finish(id)
        }

        mutating func read(_ id: StreamID, upTo limit: Int) throws {
            switch try streams.read(id, upTo: limit) {
            case .bytes(let bytes): readCounts[id, default: 0] += bytes.count
            case .end: ended.insert(id)
            case .nothing: break
            }
        }

        mutating func receive(_ frame: Frame) throws {
            // The link of an end that has gone is closed.
            guard !isOver else { return }
            switch frame {
            case .stream(let frame):
                try streams.receive(frame)
                for event in streams.drainEvents() { if case .opened(let id, _, _) = event { readCounts[id] = 0 } }
            case .leaving(isDone: false): if departure.receiveAnnouncement() { owesAnswer = true }
            case .leaving(isDone: true): departure.receiveAnswer()
            case .leave: isOver = true
            }
        }
    }

    private func step(_ number: Int, of ends: inout [End], leaving: [Int], _ random: inout SeededRandom) throws {
        switch Int.random(in: 0..<6, using: &random) {
        case 0: try ends[number].write()
        case 1:
            guard let id = ends[number].readCounts.keys.sorted().randomElement(using: &random) else { return }
            try ends[number].read(id, upTo: Int.random(in: 1...100_000, using: &random))
        case 2:
            guard !ends[number].isOver, let frame = ends[number].streams.nextFrame() else { return }
            ends[1 - number].arriving.append(.stream(frame))
        case 3:
            guard !ends[number].arriving.isEmpty else { return }
            let frame = ends[number].arriving.removeFirst()
            try ends[number].receive(frame)
        case 4:
            // Both programs have finished their streams by then.
            guard leaving.contains(number), !ends[number].isOver, ends.allSatisfy(\.unwritten.isEmpty) else { return }
            guard ends[number].departure.announce() else { return }
            ends[number].hasAnnounced = true
            ends[1 - number].arriving.append(.leaving(isDone: false))
        default:
            guard !ends[number].isOver, ends[number].hasSentAll else { return }
            if ends[number].owesAnswer {
                ends[number].owesAnswer = false
                ends[1 - number].arriving.append(.leaving(isDone: true))
            } else if ends[number].hasAnnounced, ends[number].departure.isPeerDone {
                ends[number].isOver = true
                ends[1 - number].arriving.append(.leave)
            }
        }
    }

    @Test(
        "each end reads all that the other has finished, and its end, whether one leaves or both", arguments: seeds(0..<20),
        [[0], [1], [0, 1]])
    func leave(seed: UInt64, leaving: [Int]) throws {
        var random = SeededRandom(seed: seed)
        var ends = [try End(ByteStreams(role: .initiator)), try End(ByteStreams(role: .responder))]
        while !ends.allSatisfy({ $0.isOver && $0.arriving.isEmpty }) {
            try step(Int.random(in: 0..<2, using: &random), of: &ends, leaving: leaving, &random)
        }
        for number in 0..<2 {
            // The bytes that had arrived when the link ended can still be read.
            let ids = ends[number].readCounts.keys.sorted()
            for id in ids {
                var known = -1
                while ends[number].readCounts[id, default: 0] > known {
                    known = ends[number].readCounts[id, default: 0]
                    try ends[number].read(id, upTo: .max)
                }
                try ends[number].read(id, upTo: .max)
            }
            #expect(ids.map { ends[number].readCounts[$0] } == [Int?](repeating: Self.byteCount, count: Self.streamCount))
            #expect(ends[number].ended.count == Self.streamCount, "seed \(seed)")
        }
    }

    @Test("an announcement is sent and answered once, and an answer counts only after it") func repeated() {
        var departure = LinkDeparture()
        departure.receiveAnswer()
        #expect(!departure.isPeerDone)
        let announced = [departure.announce(), departure.announce()]
        #expect(announced == [true, false])
        let received = [departure.receiveAnnouncement(), departure.receiveAnnouncement()]
        #expect(received == [true, false] && departure.isPeerLeaving && !departure.isPeerDone)
        departure.receiveAnswer()
        #expect(departure.isPeerDone)
    }
}
