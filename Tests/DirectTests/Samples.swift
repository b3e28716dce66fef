import NearshareBase
import NearshareDirect

/// One sample of each frame of a direct link.
enum Samples {
    static let changedNames: ChangedNames = {
        var names = ChangedNames()
        for name in ["a:b", "\u{1b}[2J", "", "é", "c", "d", "e"] {
            if let claimed = ClaimedFileName(name) { names.record(claimed, storedAs: "_") }
        }
        return names
    }()
    static let id = TransferID(rawValue: 0x0123_4567_89ab_cdef)
    static let digest = (0..<32).map { UInt8($0) }

    static let offers: [Offer] = [
        Offer(items: [item(.file, "a.txt", 5)], itemCount: 1, entryCount: 1, totalSize: 5),
        Offer(items: [item(.text, "note", 0)], itemCount: 1, entryCount: 1, totalSize: 0),
        Offer(items: [item(.file, "stream", nil)], itemCount: 1, entryCount: 1, totalSize: nil),
        Offer(
            items: [item(.folder, "photos", 4096, entries: 12), item(.file, "b", 1)], itemCount: 2, entryCount: 13,
            totalSize: 4097),
        Offer(items: many(128), itemCount: 128, entryCount: 128, totalSize: 128),
        Offer(items: many(128), itemCount: 1000, entryCount: 1001, totalSize: 5000),
    ]

    static let headers: [EntryHeader] = [
        EntryHeader(item: 0, kind: .file, path: [name("a.txt")], size: 5, modified: nil, permissions: nil),
        EntryHeader(item: 7, kind: .file, path: [name("a"), name("b")], size: nil, modified: -1, permissions: 0o777),
        EntryHeader(item: .max, kind: .folder, path: [name("d")], size: 0, modified: .max, permissions: 0o700),
        EntryHeader(
            item: 1, kind: .link(target: Array("../x".utf8)), path: [name("d"), name("l")], size: 0, modified: .min,
            permissions: nil),
        EntryHeader(item: 1, kind: .link(target: []), path: [name("")], size: 0, modified: 0, permissions: 0),
    ]

    static let frames: [ControlFrame] =
        [
            .hello(name: DisplayName(truncating: "Ada")!, commitment: digest, time: WallTime(milliseconds: -5)),
            .reveal(nonce: digest), .ping(0), .pong(.max), .close(.done), .close(.tooManyLinks), .compare,
            .compared(isSame: true), .compared(isSame: false), .accept(id, window: 4 << 20), .decline(id, .identityChanged),
            .resume(id, .start),
            .resume(id, ResumePoint(completeEntries: 3, entriesDigest: digest, partialSize: 9, partialDigest: digest)),
            .resume(id, ResumePoint(completeEntries: 0, entriesDigest: [], partialSize: 9, partialDigest: digest)),
            .credit(id, upTo: .max), .stored(id), .features(.listsFiles), .features([]), .listFiles(id),
            .select(id, EntrySelection(ranges: [0...0, 7...UInt64.max])!), .features([.listsFiles, .sendsParts]),
            .contents(id, headers.map(\.listed)), .contents(id, []),
            .candidates(id, files([])), .candidates(id, files([true, false, true, true, false, false, false, true, true])),
            .present(id, identical: files([true, false, false]), newer: files([false, false, true])),
            .changedNames(id, changedNames), .changedNames(id, ChangedNames(count: .max, listed: [])), .cancel(id, .goingAway),
            .cancelled(id),
        ]
        + offers.map { offer in
            .offer(TransferOffer(id: id, timeout: .seconds(120), resumeKey: digest, context: [1, 2, 3], offer: offer))
        }

    static func files(_ members: [Bool]) -> FileSet {
        members.reduce(into: FileSet()) { $0.append($1) }
    }

    static func name(_ text: String) -> ClaimedFileName { ClaimedFileName(text)! }

    static func item(_ kind: OfferedItem.Kind, _ name: String, _ size: UInt64?, entries: UInt64 = 1) -> OfferedItem {
        OfferedItem(
            kind: kind, name: self.name(name), size: size, entryCount: entries,
            mediaType: kind == .folder ? .folder : .unknown)
    }

    private static func many(_ count: Int) -> [OfferedItem] { (0..<count).map { item(.file, "f\($0)", 1) } }
}
