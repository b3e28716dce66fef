internal import Glibc
internal import NearshareBase
internal import NearshareCrypto
internal import NearshareInterfaces

/// The files of the inbox that an accepted offer may contain: compared by name and size, then by digest, so that identical ones
/// need not be received again (`docs/PROTOCOL.md`, section 6.1).
///
/// Only regular files below the inbox are read, and no link is followed. Each file answers once, so that a sender cannot find
/// out its size by listing it again and again (X5).
struct InboxComparison {
    private struct Candidate {
        let entry: EntryHeader
        let encodedHeader: [UInt8]
        /// In the inbox.
        let path: [String]
        let version: FileVersion
        let isNewer: Bool
        /// nil until the file was found identical.
        var digest: [UInt8]?
        var isUsable: Bool { isNewer || digest != nil }
    }

    private let policy: ExistingFilePolicy
    /// The names in the inbox with which items are compared, by the name of the item: the same one, or that of its newest
    /// version; nil where each item is compared with the one of its name.
    private let versions: [String: String]?
    private let rules: FileNameRules
    /// The items that are texts, by number. They are not compared: all of them have the same name.
    private let texts: Set<UInt32>
    private var tree: DirectoryTrail
    private var candidates: [UInt64: Candidate] = [:]
    private var pathByteCount = 0
    /// The files that have been compared, each of which answers once.
    private var examined: Set<FileIdentity> = []
    /// Items with a file that is not identical.
    private var incompleteItems: Set<UInt32> = []
    private let cancellation: Cancellation

    /// Limits on the memory that candidates take.
    private static let maximumCandidateCount = 1 << 16
    private static let maximumPathByteCount = 16 << 20

    /// - Parameters:
    ///   - mayCompare: whether an item of the inbox may be compared, by its name.
    /// - Returns: nil when there is nothing to compare.
    init?(
        _ offer: Offer, in inbox: FileDescriptor, policy: ExistingFilePolicy, rules: FileNameRules,
        cancellation: Cancellation = Cancellation(), mayCompare: (String) -> Bool
    ) {
        guard policy != .keepBoth, offer.totalSize != nil else { return nil }
        texts = Set(offer.items.enumerated().filter { $0.element.kind == .text }.map { UInt32(clamping: $0.offset) })
        let present = Set(
            offer.items.filter { $0.kind != .text }.map { SafeFileName($0.name).text }.filter { inbox.exists($0) })
        self.policy = policy
        if policy.mergesFolders {
            guard !present.isEmpty || Int(offer.itemCount) > offer.items.count else { return nil }
            versions = nil
        } else {
            let versions = present.compactMap { name -> (String, String)? in
                [inbox.newestVersion(of: name), name].compactMap(\.self).first(where: mayCompare).map { (name, $0) }
            }
            guard !versions.isEmpty else { return nil }
            self.versions = Dictionary(versions) { first, _ in first }
        }
        (self.rules, self.cancellation) = (rules, cancellation)
        tree = DirectoryTrail(inbox)
    }

    // MARK: Comparing

    mutating func compare(
        _ entry: EntryHeader, encodedHeader: [UInt8], number: UInt64
    ) throws(StorageError) -> FilePresence {
        let presence = try find(entry, encodedHeader: encodedHeader, number: number)
        if presence == .absent { incompleteItems.insert(entry.item) }
        return presence
    }

    private mutating func find(
        _ entry: EntryHeader, encodedHeader: [UInt8], number: UInt64
    ) throws(StorageError) -> FilePresence {
        guard !texts.contains(entry.item), candidates.count < Self.maximumCandidateCount,
            pathByteCount + encodedHeader.count <= Self.maximumPathByteCount,
            let (path, status) = locate(entry),
            examined.insert(FileIdentity(status)).inserted
        else { return .absent }
        let isNewer =
            policy == .update
            && entry.modified.map {
                status.modifiedNanoseconds >= min($0, SystemClock.wallNanoseconds())
            } ?? false
        let hasSize = entry.size == UInt64(clamping: status.st_size)
        guard hasSize || isNewer else { return .absent }
        pathByteCount += encodedHeader.count
        candidates[number] = Candidate(
            entry: entry, encodedHeader: encodedHeader, path: path, version: FileVersion(status), isNewer: isNewer)
        return hasSize ? .candidate : .newer
    }

    /// The file with which an entry is compared: that of its name, under the next number where an earlier entry of the folder was
    /// compared with that, or, where something else has the name, the file of its size under its name with a number. What could not
    /// be merged was kept there.
    private mutating func locate(_ entry: EntryHeader) -> (path: [String], status: stat)? {
        guard let path = inboxPath(of: entry) else { return nil }
        if let (directory, name) = tree.locate(path) {
            guard let status = try? directory.status(of: name) else { return nil }
            if status.isFile {
                guard path.count > 1, examined.contains(FileIdentity(status)) else { return (path, status) }
                // An earlier entry has this name, because both became equal when they were made safe. The next number is this one's.
                let compared = examined
                let next = present(name, in: directory) { $0.isFile && !compared.contains(FileIdentity($0)) }
                guard let next else { return nil }
                return (Array(path.dropLast()) + [next.name], next.status)
            }
        }
        guard policy.mergesFolders, let size = entry.size else { return nil }
        var found: [String] = []
        for (depth, name) in path.enumerated() {
            guard let (directory, _) = tree.locate(found + [name]) else { return nil }
            let isLast = depth == path.count - 1
            let match = present(name, in: directory) { status in
                isLast ? status.isFile && UInt64(clamping: status.st_size) == size : status.isFolder
            }
            guard let match else { return nil }
            found.append(match.name)
            if isLast { return (found, match.status) }
        }
        return nil
    }

    /// The first that matches among what has a name, and its numbered names one after the other.
    private func present(
        _ name: String, in directory: FileDescriptor, where matches: (stat) -> Bool
    ) -> (name: String, status: stat)? {
        guard let status = try? directory.status(of: name) else { return nil }
        if matches(status) { return (name, status) }
        for numbered in ItemMerge.numberedNames(of: name, rules) {
            guard let status = try? directory.status(of: numbered) else { return nil }
            if matches(status) { return (numbered, status) }
        }
        return nil
    }

    mutating func decide(number: UInt64, digest: [UInt8]) throws(StorageError) -> FilePresence {
        guard let candidate = candidates[number] else { return .absent }
        if try digestOfFile(candidate) == digest {
            candidates[number]?.digest = digest
            return .identical
        }
        if candidate.isNewer { return .newer }
        incompleteItems.insert(candidate.entry.item)
        candidates[number] = nil
        return .absent
    }

    /// - Returns: nil for a file that cannot be read, or was changed.
    private mutating func digestOfFile(_ candidate: Candidate) throws(StorageError) -> [UInt8]? {
        guard let file = open(candidate) else { return nil }
        var digest = FileDigest(encodedHeader: candidate.encodedHeader)
        do {
            try file.forEachBlock { (block) throws(StorageError) in
                try cancellation.check()
                digest.update(block)
            }
        } catch {
            try cancellation.check()
            return nil
        }
        guard let after = try? file.status(), FileVersion(after) == candidate.version else { return nil }
        return digest.finalize()
    }

    /// Opens the file as it was when it was compared.
    private mutating func open(_ candidate: Candidate) -> FileDescriptor? {
        // The kind of the file is known before it is opened: opening a device can have effects.
        guard let (directory, name) = tree.locate(candidate.path),
            let before = try? directory.status(of: name), before.isFile, FileVersion(before) == candidate.version,
            let file = try? directory.openForReading(name), let status = try? file.status(), status.isFile,
            FileVersion(status) == candidate.version
        else { return nil }
        return file
    }

    /// The path in the inbox with which an entry is compared; nil for none.
    private func inboxPath(of entry: EntryHeader) -> [String]? {
        var path = entry.path.enumerated().map { depth, name in
            SafeFileName(name, mayBeHidden: depth > 0, rules: depth > 0 ? rules : .windows).text
        }
        guard let first = path.first else { return nil }
        if let versions {
            guard let version = versions[first] else { return nil }
            path[0] = version
        }
        return path
    }

    /// Whether the file of an entry needs no space: it is linked, and does not have to be copied.
    func isShared(_ entry: EntryHeader, number: UInt64) -> Bool {
        candidates[number]?.isUsable == true && stays(entry)
    }

    /// The files that need no space in all, as far as they are known: their number, and their offered size.
    var shared: (count: UInt64, byteCount: UInt64) {
        candidates.values.reduce((0, 0)) { sum, candidate in
            guard candidate.isUsable, stays(candidate.entry) else { return sum }
            return (sum.0.addingClamped(1), sum.1.addingClamped(candidate.entry.size ?? 0))
        }
    }

    /// Whether the present file of an entry stays in its place, so that it is linked and not copied.
    private func stays(_ entry: EntryHeader) -> Bool { policy.mergesFolders || !incompleteItems.contains(entry.item) }

    // MARK: Using

    /// Puts the present file of an entry into the staging area: as a hard link where it is to stay where it is, otherwise as a
    /// copy.
    /// - Returns: whether it is a link; nil when the name is in use.
    mutating func stage(
        _ entry: EntryHeader, number: UInt64, as name: String, in directory: FileDescriptor
    ) throws(StorageError) -> Bool? {
        guard let candidate = candidates[number], candidate.isUsable, candidate.entry == entry,
            let file = open(candidate), let (source, sourceName) = tree.locate(candidate.path)
        else { throw Self.changed(entry) }
        if stays(entry) {
            if linkat(source.rawValue, sourceName, directory.rawValue, name, 0) == 0 {
                // Another process may have replaced the file between the two calls.
                if let linked = try directory.status(of: name), FileIdentity(linked) == FileIdentity(try file.status()) {
                    return true
                }
                directory.unlink(name)
                throw Self.changed(entry)
            }
            if errno == EEXIST { return nil }
        }
        // A newer file may be of any size, and nothing has reserved more than was offered.
        guard try UInt64(clamping: file.status().st_size) <= entry.size ?? 0 else {
            throw StorageError(
                .failed,
                "\(entry.path.last?.shown ?? "a file") in the inbox is newer and larger, and the inbox takes no hard links; "
                    + "receive it without --update")
        }
        guard let copy = try directory.createFile(name) else { return nil }
        var writer = SparseWriter(copy)
        var digest = FileDigest(encodedHeader: candidate.encodedHeader)
        try file.forEachBlock { (block) throws(StorageError) in
            try cancellation.check()
            digest.update(block)
            try writer.write(block)
        }
        try writer.finish()
        let copied = digest.finalize()
        if let expected = candidate.digest, copied != expected { throw Self.changed(entry) }
        let status = try file.status()
        fchmod(copy.rawValue, status.st_mode & 0o777)
        copy.setModified(status.modifiedNanoseconds)
        return false
    }

    private static func changed(_ entry: EntryHeader) -> StorageError {
        StorageError(.failed, "\(entry.path.last?.shown ?? "a file") was changed in the inbox meanwhile; send it again")
    }
}

/// A position in a directory tree that follows a sequence of paths, which mostly are in the same folder.
private struct DirectoryTrail {
    private let root: FileDescriptor
    private var cursor: DirectoryCursor
    private var names: ArraySlice<String> = []

    init(_ root: FileDescriptor) {
        self.root = root
        cursor = DirectoryCursor(root)
    }

    /// Returns the folder of a path and its last component; nil when there is no such folder.
    mutating func locate(_ path: [String]) -> (FileDescriptor, String)? {
        guard let name = path.last else { return nil }
        let parents = path.dropLast()
        let common = zip(parents, names).prefix { $0 == $1 }.count
        while names.count > common {
            guard (try? cursor.ascend()) != nil else {
                (cursor, names) = (DirectoryCursor(root), [])
                break
            }
            names = names.dropLast()
        }
        for parent in parents.dropFirst(names.count) {
            guard (try? cursor.descend(into: parent)) != nil else { return nil }
            names.append(parent)
        }
        return (cursor.directory, name)
    }
}

extension FileDescriptor {
    /// Reads the rest of a file.
    func forEachBlock(_ body: (UnsafeRawBufferPointer) throws(StorageError) -> Void) throws(StorageError) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 64)
        defer { buffer.deallocate() }
        while case let count = try read(into: buffer), count > 0 {
            try body(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        }
    }
}
