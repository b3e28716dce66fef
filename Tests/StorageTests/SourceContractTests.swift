import Glibc
import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareStorage

/// The contract of every source that can be read again, checked on the in-memory form and on real files.
@Suite("contract: source")
struct SourceContractTests {
    enum Kind: String, CaseIterable, Sendable {
        case memory, files
    }

    private static let names: [(path: [String], content: [UInt8]?)] = [
        (["one.bin"], bytes(300_000)), (["tree"], nil), (["tree", ".dot"], [1]), (["tree", "B"], [2, 3]), (["tree", "a"], nil),
        (["tree", "a", "empty"], []), (["tree", "a", "z"], bytes(70_000, seed: 3)), (["tree", "b"], bytes(9, seed: 4)),
    ]

    private let scratch = ScratchFolder()

    private func source(_ kind: Kind) throws -> any ResourceSource {
        switch kind {
        case .memory:
            return InMemorySource(
                Self.names.map { path, content in
                    let item: UInt32 = path[0] == "tree" ? 1 : 0
                    return content.map { .file(in: path, $0, item: item) } ?? .folder(path, item: item)
                })
        case .files:
            for (path, content) in Self.names {
                let name = path.joined(separator: "/")
                if let content { try scratch.write(name, content) } else { scratch.makeFolder(name) }
            }
            return try FileSource(paths: [scratch("one.bin"), scratch("tree")])
        }
    }

    private func readAll(_ reader: any ResourceReader, piece: Int = 1000) throws -> [UInt8] {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: piece, alignment: 1)
        defer { buffer.deallocate() }
        var all: [UInt8] = []
        while true {
            let count = try reader.read(into: buffer)
            if count == 0 { return all }
            all += buffer[..<count]
        }
    }

    @Test("entries come in a fixed order, each folder before what is in it, as often as one asks", arguments: Kind.allCases)
    func order(kind: Kind) throws {
        let source = try source(kind)
        for _ in 1...2 {
            let reader = try source.makeReader()
            var met: [String] = []
            while let header = try reader.nextEntry() {
                met.append(header.path.map(\.shown).joined(separator: "/"))
                #expect(header.item == (header.path[0].shown == "tree" ? 1 : 0))
            }
            #expect(met == Self.names.map { $0.path.joined(separator: "/") })
        }
    }

    @Test("the offer says what comes", arguments: Kind.allCases)
    func offer(kind: Kind) throws {
        let offer = try source(kind).offer
        #expect(offer.items.map(\.name.shown) == ["one.bin", "tree"])
        #expect(offer.items.map(\.kind) == [.file, .folder])
        #expect(offer.items.map(\.entryCount) == [1, 7])
        #expect(offer.items.map(\.size) == [300_000, 70_012])
        #expect(offer.itemCount == 2 && offer.entryCount == 8 && offer.totalSize == 370_012)
    }

    @Test("content is read whole, from any place on, or left", arguments: Kind.allCases)
    func content(kind: Kind) throws {
        let source = try source(kind)
        let reader = try source.makeReader()
        for (path, content) in Self.names {
            let header = try #require(try reader.nextEntry())
            guard let content else {
                #expect(header.kind == .folder && header.size == 0)
                #expect(try readAll(reader).isEmpty)
                continue
            }
            #expect(header.size == UInt64(content.count))
            #expect(try readAll(reader, piece: 777) == content, "\(path)")
            for offset in [0, content.count / 2, content.count] {
                try reader.seek(to: UInt64(offset))
                #expect(try readAll(reader) == Array(content[offset...]), "\(path) from \(offset)")
            }
        }
        #expect(try reader.nextEntry() == nil)
        let second = try source.makeReader()
        _ = try second.nextEntry()
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 10, alignment: 1)
        defer { buffer.deallocate() }
        #expect(try second.read(into: buffer) == 10)
        #expect(try second.nextEntry()?.path.map(\.shown) == ["tree"])
    }
}
