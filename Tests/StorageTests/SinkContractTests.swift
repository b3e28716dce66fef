import NearshareBase
import NearshareCrypto
import NearshareInterfaces
import Testing

@testable import NearshareStorage

/// The contract of every sink, checked on the in-memory form and on real files.
@Suite("contract: sink")
struct SinkContractTests {
    enum Kind: String, CaseIterable, Sendable {
        case memory, files
    }

    /// One inbox of either kind, seen alike.
    struct Subject {
        let makeSink: (Offer) throws -> any ResourceSink
        /// Final names with content; folders end in a slash.
        let stored: () throws -> [String: [UInt8]]
        let setAvailable: (Bool) -> Void
        let deliverPending: () -> Void
        /// An object that has to live as long as the sink.
        let owner: Any

        init(_ kind: Kind) throws {
            switch kind {
            case .memory:
                let inbox = InMemoryInbox(digest: { SHA256Hasher.digest($0) })
                makeSink = { inbox.makeSink(for: $0, from: anna, resumeKey: someKey) }
                stored = {
                    var all: [String: [UInt8]] = [:]
                    for (path, stored) in inbox.stored {
                        switch stored {
                        case .file(let content): all[path] = content
                        case .folder: all[path + "/"] = []
                        case .link(let target): all[path] = target
                        }
                    }
                    return all
                }
                setAvailable = { inbox.setAvailable($0) }
                deliverPending = { inbox.deliverPending() }
                owner = inbox
            case .files:
                let rig = try InboxRig()
                try rig.inbox.prepare()
                makeSink = { try rig.sink($0) }
                stored = {
                    var all: [String: [UInt8]] = [:]
                    for line in rig.scratch.tree("inbox") {
                        let name = String(line.dropFirst(2))
                        if line.hasPrefix("d ") {
                            all[name + "/"] = []
                        } else {
                            all[name] = try rig.scratch.read("inbox/\(name)")
                        }
                    }
                    return all
                }
                // A file where the folder was: nothing can be put there, and nothing else be made in its place.
                setAvailable = { isAvailable in
                    if isAvailable {
                        unlinkFile(rig.scratch("inbox"))
                        renameFile(rig.scratch("away"), rig.scratch("inbox"))
                    } else {
                        renameFile(rig.scratch("inbox"), rig.scratch("away"))
                        _ = try? rig.scratch.write("inbox", [])
                    }
                }
                deliverPending = { _ = rig.inbox.deliverPending() }
                owner = rig
            }
        }
    }

    static let small = InMemorySource([
        .file("one.txt", Array("one".utf8), item: 0),
        .folder(["tree"], item: 1),
        .file(in: ["tree", "a"], bytes(20), item: 1),
        .folder(["tree", "sub"], item: 1),
        .file(in: ["tree", "sub", ".hidden"], [], item: 1),
        .file(in: ["tree", "sub", "b"], bytes(33, seed: 2), item: 1),
        .file(in: ["tree", "z"], bytes(5, seed: 3), item: 1),
    ])

    static let smallStored: [String: [UInt8]] = [
        "one.txt": Array("one".utf8), "tree/": [], "tree/a": bytes(20), "tree/sub/": [], "tree/sub/.hidden": [],
        "tree/sub/b": bytes(33, seed: 2), "tree/z": bytes(5, seed: 3),
    ]

    @Test("files and folders arrive whole, in the offer's order", arguments: Kind.allCases)
    func arrives(kind: Kind) throws {
        let subject = try Subject(kind)
        let result = try TransferRig().move(Self.small, to: try subject.makeSink(Self.small.offer))
        let delivered = try #require(result.delivered)
        #expect(delivered.map(\.item) == [0, 1])
        #expect(delivered.map(\.kind) == [.file, .folder])
        #expect(delivered.map(\.isInInbox) == [true, true])
        #expect(delivered.map(\.size) == [3, 58])
        #expect(delivered.map(\.claimedName.shown) == ["one.txt", "tree"])
        #expect(try subject.stored() == Self.smallStored)
    }

    private func lengthOfSmall(_ kind: Kind) throws -> Int {
        let subject = try Subject(kind)
        return try withExtendedLifetime(subject) {
            try TransferRig().move(Self.small, to: try subject.makeSink(Self.small.offer)).streamByteCount
        }
    }

    @Test("P13: nothing has a final name before the end", arguments: Kind.allCases)
    func nothingBeforeTheEnd(kind: Kind) throws {
        let subject = try Subject(kind)
        let length = try lengthOfSmall(kind)
        let sink = try subject.makeSink(Self.small.offer)
        try TransferRig(recordSize: 7, cut: length - 1).move(Self.small, to: sink)
        #expect(try subject.stored().isEmpty)
        sink.suspend()
        #expect(try subject.stored().isEmpty)
    }

    @Test("a transfer cut at any byte goes on from there", arguments: Kind.allCases)
    func resumesAnywhere(kind: Kind) throws {
        let length = try lengthOfSmall(kind)
        for cut in 0..<length {
            let subject = try Subject(kind)
            do {
                let sink = try subject.makeSink(Self.small.offer)
                try TransferRig(recordSize: 11, cut: cut).move(Self.small, to: sink)
                sink.suspend()
            }
            let sink = try subject.makeSink(Self.small.offer)
            let point = try sink.resumePoint()
            let result = try TransferRig(recordSize: 11).move(Self.small, to: sink)
            #expect(result.delivered?.count == 2, "cut at \(cut)")
            #expect(try subject.stored() == Self.smallStored, "cut at \(cut)")
            let complete = Self.small.entries.prefix(Int(point.completeEntries)).reduce(0) { $0 + $1.content.count }
            #expect(result.resumed == UInt64(complete) + point.partialSize, "cut at \(cut)")
        }
    }

    @Test("a suspended transfer goes on in another sink while its own one still exists", arguments: Kind.allCases)
    func resumesBesideSuspendedSink(kind: Kind) throws {
        let subject = try Subject(kind)
        let source = InMemorySource([.file("long", bytes(5000))])
        let first = try subject.makeSink(source.offer)
        try withExtendedLifetime(first) {
            try TransferRig(recordSize: 64, cut: 600).move(source, to: first)
            first.suspend()
            let result = try TransferRig(recordSize: 64).move(source, to: try subject.makeSink(source.offer))
            #expect(result.resumed > 0)
            #expect(try subject.stored() == ["long": bytes(5000)])
        }
    }

    @Test("cut again and again, it still arrives whole", arguments: Kind.allCases)
    func resumesOften(kind: Kind) throws {
        let subject = try Subject(kind)
        let content = bytes(5000)
        let source = InMemorySource([.file("long", content)])
        var steps = 0
        while true {
            steps += 1
            let sink = try subject.makeSink(source.offer)
            // Headers take some of it each time.
            let result = try TransferRig(recordSize: 64, cut: 600).move(source, to: sink)
            if result.delivered != nil { break }
            sink.suspend()
            try #require(steps < 50, "it does not come to an end")
        }
        #expect(steps > 8)
        #expect(try subject.stored() == ["long": content])
    }

    @Test("A10: a source that changed starts again", arguments: Kind.allCases)
    func changedSource(kind: Kind) throws {
        let subject = try Subject(kind)
        let before = InMemorySource([.file("a", bytes(100), item: 0), .file("b", bytes(500), item: 1)])
        do {
            let sink = try subject.makeSink(before.offer)
            try TransferRig(recordSize: 50, cut: 400).move(before, to: sink)
            sink.suspend()
        }
        let changed = InMemorySource([.file("a", bytes(100), item: 0, modified: 5), .file("b", bytes(500, seed: 8), item: 1)])
        let sink = try subject.makeSink(changed.offer)
        let result = try TransferRig(recordSize: 50).move(changed, to: sink)
        #expect(result.resumed == 0)
        #expect(try subject.stored() == ["a": bytes(100), "b": bytes(500, seed: 8)])
    }

    @Test("Q3: what was kept for another offer is neither resumed nor delivered", arguments: Kind.allCases)
    func otherOffer(kind: Kind) throws {
        let evil = InMemorySource([
            .file("evil.desktop", bytes(900), item: 0), .folder(["t"], item: 1), .file(in: ["t", "x"], bytes(100), item: 1),
        ])
        let others = [
            // Another name, size, kind, number of entries or of items, another split of the same total, an unknown total.
            InMemorySource([.file("cat.jpg", bytes(10))]),
            InMemorySource([
                .file("cat.jpg", bytes(900), item: 0), .folder(["t"], item: 1), .file(in: ["t", "x"], bytes(100), item: 1),
            ]),
            InMemorySource([
                .file("evil.desktop", bytes(901), item: 0), .folder(["t"], item: 1), .file(in: ["t", "x"], bytes(99), item: 1),
            ]),
            InMemorySource([.folder(["evil.desktop"], item: 0), .file(in: ["evil.desktop", "y"], bytes(1000), item: 0)]),
            InMemorySource([
                .file("evil.desktop", bytes(900), item: 0), .folder(["t"], item: 1), .file(in: ["t", "x"], bytes(50), item: 1),
                .file(in: ["t", "y"], bytes(51, seed: 2), item: 1),
            ]),
            InMemorySource([.file("evil.desktop", bytes(900), item: 0)]),
            InMemorySource([.file("evil.desktop", bytes(900), item: 0, hasKnownSize: false)]),
        ]
        let length = try TransferRig.streamByteCount(of: evil)
        for cut in [400, length - 120, length - 1] {
            for other in others {
                let subject = try Subject(kind)
                do {
                    let sink = try subject.makeSink(evil.offer)
                    try TransferRig(recordSize: 50, cut: cut).move(evil, to: sink)
                    sink.suspend()
                }
                #expect(try subject.makeSink(evil.offer).resumePoint() != .start)
                let sink = try subject.makeSink(other.offer)
                #expect(try sink.resumePoint() == .start)
                let result = try TransferRig(recordSize: 50).move(other, to: sink)
                #expect(result.resumed == 0)
                let expected = Set(other.entries.filter { $0.header.kind == .file }.map(\.content))
                #expect(Set(try subject.stored().filter { !$0.key.hasSuffix("/") }.values) == expected)
            }
        }
    }

    @Test("what a sender says is gone on with is gone on with, whatever it is called now", arguments: Kind.allCases)
    func renamedInside(kind: Kind) throws {
        let subject = try Subject(kind)
        let before = InMemorySource([.folder(["t"]), .file(in: ["t", "old"], bytes(500))])
        do {
            let sink = try subject.makeSink(before.offer)
            try TransferRig(recordSize: 50, cut: 300).move(before, to: sink)
            sink.suspend()
        }
        let after = InMemorySource([.folder(["t"]), .file(in: ["t", "new"], bytes(500))])
        let result = try TransferRig(recordSize: 50).move(after, to: try subject.makeSink(after.offer))
        #expect(result.resumed > 0)
        #expect(try subject.stored() == ["t/": [], "t/new": bytes(500)])
    }

    @Test("R12: content of unknown size arrives, and is not gone on with", arguments: Kind.allCases)
    func unknownSize(kind: Kind) throws {
        let subject = try Subject(kind)
        let source = InMemorySource([.file("stdin", bytes(3000), hasKnownSize: false, modified: nil)])
        do {
            let sink = try subject.makeSink(source.offer)
            try TransferRig(recordSize: 100, cut: 1000).move(source, to: sink)
            sink.suspend()
        }
        let sink = try subject.makeSink(source.offer)
        #expect(try sink.resumePoint() == .start)
        try TransferRig().move(source, to: sink)
        #expect(try subject.stored() == ["stdin": bytes(3000)])
    }

    @Test("a transfer that is ended before it is settled where it goes on keeps what was there", arguments: Kind.allCases)
    func suspendedBeforeItBegan(kind: Kind) throws {
        let subject = try Subject(kind)
        let source = InMemorySource([.file("long", bytes(5000))])
        do {
            let sink = try subject.makeSink(source.offer)
            try TransferRig(recordSize: 100, cut: 3000).move(source, to: sink)
            sink.suspend()
        }
        do {
            let sink = try subject.makeSink(source.offer)
            _ = try sink.resumePoint()
            sink.suspend()
        }
        #expect(try subject.makeSink(source.offer).resumePoint().partialSize > 2000)
    }

    @Test("P7: what is discarded is gone, and only that", arguments: Kind.allCases)
    func discards(kind: Kind) throws {
        let subject = try Subject(kind)
        let kept = InMemorySource([.file("kept", [1])])
        try TransferRig().move(kept, to: try subject.makeSink(kept.offer))
        do {
            let sink = try subject.makeSink(Self.small.offer)
            try TransferRig(recordSize: 10, cut: 150).move(Self.small, to: sink)
            sink.discard()
        }
        #expect(try subject.makeSink(Self.small.offer).resumePoint() == .start)
        #expect(try subject.stored() == ["kept": [1]])
    }

    @Test("P9: a name that is taken gets a number", arguments: Kind.allCases)
    func numbers(kind: Kind) throws {
        let subject = try Subject(kind)
        let twins = InMemorySource([
            .file("a.tar.gz", [1], item: 0), .file("a.tar.gz", [2], item: 1), .file("A.TAR.GZ", [3], item: 2),
        ])
        try TransferRig().move(twins, to: try subject.makeSink(twins.offer))
        let another = InMemorySource([.file("a.tar.gz", [4])])
        try TransferRig().move(another, to: try subject.makeSink(another.offer))
        #expect(
            try subject.stored() == [
                "a.tar.gz": [1], "a (2).tar.gz": [2], "A (3).TAR.GZ": [3], "a (4).tar.gz": [4],
            ])
    }

    @Test("P1: ../x never leaves the inbox", arguments: Kind.allCases)
    func escapes(kind: Kind) throws {
        let subject = try Subject(kind)
        let hostile = InMemorySource([
            .file("../x", [1], item: 0), .folder([".."], item: 1), .file(in: ["..", "../../y"], [2], item: 1),
        ])
        try TransferRig().move(hostile, to: try subject.makeSink(hostile.offer))
        let stored = try subject.stored()
        #expect(stored == ["_._x": [1], "unnamed/": [], "unnamed/.._.._y": [2]])
    }

    @Test("nothing accepted is lost while the inbox is away", arguments: Kind.allCases)
    func unavailable(kind: Kind) throws {
        let subject = try Subject(kind)
        subject.setAvailable(false)
        let result = try TransferRig().move(Self.small, to: try subject.makeSink(Self.small.offer))
        #expect(result.delivered?.map(\.isInInbox) == [false, false])
        subject.deliverPending()
        subject.setAvailable(true)
        #expect(try subject.stored().isEmpty)
        subject.deliverPending()
        #expect(try subject.stored() == Self.smallStored)
    }

    @Test("a source that fails in the middle leaves what can be gone on with", arguments: Kind.allCases)
    func failingSource(kind: Kind) throws {
        let subject = try Subject(kind)
        var source = InMemorySource([.file("f", bytes(1000))])
        source.failure = InMemorySource.Failure(entry: 0, offset: 700, error: StorageError(.failed, "bad sector"))
        do {
            let sink = try subject.makeSink(source.offer)
            #expect(throws: StorageError.self) { try TransferRig(recordSize: 100).move(source, to: sink) }
            sink.suspend()
        }
        source.failure = nil
        let result = try TransferRig().move(source, to: try subject.makeSink(source.offer))
        #expect(result.resumed > 0)
        #expect(try subject.stored() == ["f": bytes(1000)])
    }
}
