internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// Looks at each path that the user has named, and collects what the offer says of them.
struct OfferBuilder: ~Copyable {
    /// libmagic takes time: of more items than this, only the receiver detects the media types.
    private static let maximumDetectedItems = 32
    /// Files of a folder that were modified within this time before the offer may still be written to: one day, in nanoseconds. The
    /// others are not opened before they are sent.
    private static let sampledAge: Int64 = 86_400_000_000_000
    /// Limit on the listed entries, of which a frame has room for a part.
    private static let maximumListedEntries = 256

    private let options: FileSource.Options
    /// nil where the receiver detects the media types.
    private let detector: MediaTypeDetector?
    private(set) var items: [FileSource.Item] = []
    private(set) var entries = OfferedEntries()
    /// The first entries.
    private(set) var contents: [EntryHeader] = []
    var skipped = SkippedEntries()
    /// The indices of the patterns of ``FileSource/Options/exclusions`` that match something.
    private(set) var usedExclusions: Set<Int> = []
    private var described: [OfferedItem] = []

    /// - Parameter pathCount: of all paths that will be added.
    init(_ options: FileSource.Options, detectedBy detector: MediaTypeDetector, pathCount: Int) {
        self.options = options
        self.detector = pathCount <= Self.maximumDetectedItems ? detector : nil
    }

    var offer: Offer {
        Offer(
            items: described, itemCount: UInt32(clamping: items.count),
            entryCount: items.reduce(0) { $0.addingClamped($1.entryCount) },
            totalSize: items.reduce(0) { $0.addingClamped($1.size) })
    }

    /// Whether the offer describes all entries by itself.
    var isDescribed: Bool { described.count == items.count && !described.contains { $0.kind == .folder } }

    /// Adds a file, or a folder with its content, unless it is excluded.
    /// - Parameter givenName: the offered name; nil for the path's own.
    mutating func add(_ path: LocalPath, named givenName: ClaimedFileName?) throws(StorageError) {
        guard let item = try describe(path, named: givenName) else { return }
        items.append(FileSource.Item(path: path, name: item.name, size: item.size ?? 0, entryCount: item.entryCount))
        if described.count < Offer.maximumDescribedItems { described.append(item) }
    }

    /// - Returns: nil when the path is excluded.
    private mutating func describe(_ path: LocalPath, named givenName: ClaimedFileName?) throws(StorageError) -> OfferedItem? {
        guard !path.isSocket else { throw notSendable(path) }
        let file = try FileDescriptor.openForReading(path)
        let status = try file.status()
        if try Self.isInsideStateDirectory(path) {
            throw StorageError(.rejected, "\(path.shown) belongs to nearshare's own keys, which are never sent")
        }
        let name: ClaimedFileName
        if let givenName { name = givenName } else { name = try Self.name(of: path) }
        // A pattern means the file, under whatever name it is offered.
        let ownName = (try? Self.name(of: path)) ?? name
        if options.exclusions.match([ownName], isFolder: status.isFolder, used: &usedExclusions) { return nil }
        let number = UInt32(clamping: items.count)
        if status.isFolder {
            return try describeFolder(
                FolderEnumerator(file, name: name, item: number, options: options, shownPath: path.text), name: name)
        }
        guard status.isFile else { throw notSendable(path) }
        guard !file.isGeneratedByKernel else {
            throw StorageError(
                .rejected, "the size of \(path.shown) is not known before it is read; \(options.streamAdvice)")
        }
        add(EntryHeader(item: number, file: status, path: [name], options), file: file)
        return OfferedItem(
            kind: .file, name: name, size: UInt64(clamping: status.st_size), entryCount: 1,
            mediaType: detector?.type(of: file).flatMap(ClaimedMediaType.init) ?? .unknown)
    }

    private func notSendable(_ path: LocalPath) -> StorageError {
        StorageError(.rejected, "\(path.shown) is neither a file nor a folder; \(options.streamAdvice)")
    }

    /// Counts and sums up the content of a folder.
    private mutating func describeFolder(
        _ enumerator: FolderEnumerator, name: ClaimedFileName
    ) throws(StorageError) -> OfferedItem {
        let sampledSince = SystemClock.wallNanoseconds() - Self.sampledAge
        var size: UInt64 = 0
        var count: UInt64 = 0
        while true {
            enumerator.sampledSince = entries.takesSamples ? sampledSince : nil
            guard let (header, file) = try enumerator.next(opening: false) else { break }
            count += 1
            size = size.addingClamped(header.size ?? 0)
            add(header, file: file)
        }
        skipped.add(enumerator.skipped)
        usedExclusions.formUnion(enumerator.usedExclusions)
        return OfferedItem(kind: .folder, name: name, size: size, entryCount: count, mediaType: .folder)
    }

    private mutating func add(_ header: EntryHeader, file: FileDescriptor?) {
        if contents.count < Self.maximumListedEntries { contents.append(header.listed) }
        entries.append(header, file: file)
    }

    /// Whether a path leads to a state directory that this process uses, or to something below it.
    private static func isInsideStateDirectory(_ path: LocalPath) throws(StorageError) -> Bool {
        guard var ancestor = path.resolved else {
            throw StorageError(.notFound, "\(path.shown) was moved or removed while it was looked at; send it again")
        }
        while true {
            if let identity = FileIdentity(ancestor), StateDirectory.isUsed(identity) { return true }
            guard ancestor.bytes.count > 1 else { return false }
            ancestor = ancestor.parent
        }
    }

    /// The last component of the path, after resolving `.`, `..` and `/`.
    private static func name(of path: LocalPath) throws(StorageError) -> ClaimedFileName {
        var components = path.components
        if components.last.map({ $0.elementsEqual(".".utf8) || $0.elementsEqual("..".utf8) }) ?? true {
            guard let resolved = path.resolved else { throw StorageError(errno, "could not find \(path.shown)") }
            components = resolved.components
        }
        guard let name = components.last.flatMap({ ClaimedFileName(bytes: $0) }) else {
            throw StorageError(.rejected, "\(path.shown) has no name of its own; name what is in it")
        }
        return name
    }
}
