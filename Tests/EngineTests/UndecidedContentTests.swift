import NearshareBase
import NearshareCrypto
import NearshareMesh
import Testing

@testable import NearshareEngine

@Suite("content that peers of the mesh send without an offer") struct UndecidedContentTests {
    private var undecided = UndecidedContent()

    /// - Returns: the ids of what was dropped in favour of the content; nil when it was refused.
    private mutating func insert(
        _ byteCount: Int, from peer: Int, at host: String, isKnown: Bool = false
    ) -> [UndecidedContent.ID]? {
        let file = MeshFile(name: "f", mediaType: nil, content: [UInt8](repeating: 7, count: byteCount)[...])
        let id = PeerID(bytes: (0..<8).map { UInt8(truncatingIfNeeded: peer >> (8 * (7 - $0))) })!
        let origin = UndecidedContent.Origin(peer: id, link: .address(host), isKnown: isKnown)
        return undecided.insert(file, from: origin).map { insertion in
            last = insertion.inserted.id
            return insertion.dropped.map(\.id)
        }
    }

    private var last: UndecidedContent.ID?

    @Test("R11: a peer has eight at most") mutating func perPeer() {
        for _ in 0..<8 { #expect(insert(10, from: 1, at: "10.0.0.1") == []) }
        #expect(insert(10, from: 1, at: "10.0.0.1") == nil)
        #expect(insert(10, from: 2, at: "10.0.0.1") == [])
        let other = last
        #expect(other.flatMap { undecided.remove($0) } != nil)
        #expect(other.flatMap { undecided.remove($0) } == nil, "removed once")
    }

    @Test("R4, R11: 32 questions are open at most; the machine that has caused most loses the oldest")
    mutating func count() throws {
        var flood: [UndecidedContent.ID] = []
        for number in 0..<32 {
            #expect(insert(10, from: number / 8, at: "10.0.0.1") == [])
            flood.append(try #require(last))
        }
        #expect(insert(10, from: 100, at: "10.0.0.1") == nil, "the same machine under another id")
        #expect(insert(10, from: 101, at: "10.0.0.2") == [flood[0]])
        #expect(insert(10, from: 102, at: "10.0.0.3") == [flood[1]])
        #expect(insert(10, from: 101, at: "10.0.0.2") == [flood[2]])
    }

    @Test("R11: four machines that fill the memory keep no other out, however often they send again")
    mutating func memory() throws {
        for machine in 0..<4 {
            for _ in 0..<3 { #expect(insert(1 << 20, from: machine, at: "10.0.0.\(machine)") == []) }
        }
        #expect(insert(1 << 20, from: 10, at: "10.0.0.10")?.count == 1)
        let honest = try #require(last)
        for machine in 0..<4 {
            for number in 0..<8 {
                let dropped = insert(1 << 20, from: 1_000 + 10 * machine + number, at: "10.0.0.\(machine)")
                #expect(dropped?.contains(honest) != true)
            }
        }
        #expect(undecided.remove(honest)?.file.content.count == 1 << 20)
    }

    @Test("R6: strangers take no place of known peers, and give way to them") mutating func known() throws {
        for number in 0..<12 { #expect(insert(1 << 20, from: number, at: "10.0.0.\(number)") == []) }
        #expect(insert(4 << 20, from: 50, at: "10.0.0.1", isKnown: true)?.count == 4)
        #expect(insert(4 << 20, from: 51, at: "10.0.0.2", isKnown: true)?.count == 4)
        #expect(insert(4 << 20, from: 52, at: "10.0.0.3", isKnown: true)?.count == 4)
        let friend = try #require(last)
        #expect(insert(10, from: 60, at: "10.0.0.60") == nil)
        #expect(insert(5 << 20, from: 53, at: "10.0.0.4", isKnown: true) == nil, "it would have most of all")
        #expect(undecided.remove(friend) != nil)
    }

    @Test("the largest files find room") mutating func largest() {
        #expect(insert(MeshFile.maximumContentByteCount, from: 1, at: "10.0.0.1") == [])
        #expect(insert(MeshFile.maximumContentByteCount, from: 2, at: "10.0.0.2") == [])
        #expect(insert(MeshFile.maximumContentByteCount, from: 3, at: "10.0.0.3")?.count == 1)
    }
}
