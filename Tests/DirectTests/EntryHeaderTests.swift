import NearshareBase
import NearshareTesting
import Testing

@Suite struct EntryHeaderTests {
    @Test(arguments: Samples.headers) func `a header is decoded as it was encoded`(_ header: EntryHeader) throws {
        #expect(try EntryHeader(decoding: header.encoded[...]) == header)
        #expect(header.encoded.count <= EntryHeader.maximumEncodedByteCount)
    }

    @Test(arguments: Samples.headers) func `a truncated header is rejected, and one with bytes behind it`(_ header: EntryHeader)
    {
        let encoded = header.encoded
        for length in encoded.indices {
            #expect(throws: MalformedInput.self, "cut to \(length)") { try EntryHeader(decoding: encoded[..<length]) }
        }
        #expect(throws: MalformedInput.self) { try EntryHeader(decoding: (encoded + [0])[...]) }
    }

    private func file(_ path: [ClaimedFileName], permissions: UInt16? = nil) -> EntryHeader {
        EntryHeader(item: 0, kind: .file, path: path, size: 1, modified: nil, permissions: permissions)
    }

    @Test("P8: names have at most 255 bytes") func nameBounds() throws {
        let longest = file([ClaimedFileName(bytes: [UInt8](repeating: 0x61, count: 255))!])
        #expect(try EntryHeader(decoding: longest.encoded[...]) == longest)
        #expect(ClaimedFileName(bytes: [UInt8](repeating: 0x61, count: 256)) == nil)
    }

    @Test("P8: folders are nested at most 128 deep") func depthBounds() throws {
        let deepest = file((0..<128).map { _ in Samples.name("d") })
        #expect(try EntryHeader(decoding: deepest.encoded[...]) == deepest)
        let deeper = file((0..<129).map { _ in Samples.name("d") })
        #expect(throws: MalformedInput.self) { try EntryHeader(decoding: deeper.encoded[...]) }
        #expect(throws: MalformedInput.self) { try EntryHeader(decoding: file([]).encoded[...]) }
    }

    @Test("P8: a path has at most 4096 bytes") func pathBounds() throws {
        let name = ClaimedFileName(bytes: [UInt8](repeating: 0x61, count: 128))!
        let longest = file([ClaimedFileName](repeating: name, count: 32))
        #expect(try EntryHeader(decoding: longest.encoded[...]) == longest)
        let longer = file([ClaimedFileName](repeating: name, count: 32) + [Samples.name("a")])
        #expect(throws: MalformedInput.self) { try EntryHeader(decoding: longer.encoded[...]) }
    }

    @Test(
        "P6: mode bits other than the nine permission bits are rejected",
        arguments: [0o1000, 0o2000, 0o4000, 0o1777] as [UInt16])
    func permissions(_ bits: UInt16) {
        #expect(throws: MalformedInput.self) {
            try EntryHeader(decoding: file([Samples.name("a")], permissions: bits).encoded[...])
        }
    }

    @Test("P6: devices and other special files are rejected in a stream") func unknownKindsAndFlags() {
        let encoded = Samples.headers[0].encoded
        for kind in UInt8(3)...UInt8.max {
            var changed = encoded
            changed[4] = kind
            #expect(throws: MalformedInput.self) { try EntryHeader(decoding: changed[...]) }
        }
        for flag in 3..<8 {
            var changed = encoded
            changed[5] |= 1 << UInt8(flag)
            #expect(throws: MalformedInput.self) { try EntryHeader(decoding: changed[...]) }
        }
    }

    @Test("R12: folders and links have no content", arguments: [1, nil] as [UInt64?]) func onlyFilesHaveContent(_ size: UInt64?)
    {
        for kind in [EntryHeader.Kind.folder, .link(target: [])] {
            let header = EntryHeader(
                item: 0, kind: kind, path: [Samples.name("a")], size: size, modified: nil, permissions: nil)
            #expect(throws: MalformedInput.self) { try EntryHeader(decoding: header.encoded[...]) }
        }
    }

    @Test(arguments: 0..<1000 as Range<UInt64>) func `a changed header is rejected, or decoded to one that is encoded alike`(
        seed: UInt64
    ) throws {
        var random = SeededRandom(seed: seed)
        let bytes = Samples.headers.randomElement(using: &random)!.encoded.mutated(using: &random)
        guard let header = try? EntryHeader(decoding: bytes[...]) else { return }
        #expect(try EntryHeader(decoding: header.encoded[...]) == header, "seed \(seed)")
    }
}
