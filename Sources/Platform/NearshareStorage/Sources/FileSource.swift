internal import Glibc
package import NearshareBase
package import NearshareInterfaces

/// Files and folders that the user has named, with all content of the folders.
///
/// Symbolic links that the user has named are followed; links inside folders are sent as links or skipped, never followed.
package struct FileSource: ResourceSource {
    package struct Options: Sendable, Hashable {
        /// Send symbolic links that stay inside their folder as links.
        package var links = false
        /// Said of each link that is left out, such as the option that sends it; nil where nothing would.
        package var linkAdvice: String?
        /// How content is sent that is neither a file nor a folder.
        package var streamAdvice = "copy its content into a file, or write it to a byte stream"
        /// Send permission bits.
        package var keepModes = false
        /// Skip entries that cannot be read, or whose paths are too deep, as long as there are others, instead of failing.
        package var skipsUnreadable = false
        /// The entries that the user does not want to send.
        package var exclusions = ExclusionPatterns()

        package init() {}
    }

    struct Item: Sendable {
        let path: LocalPath
        let name: ClaimedFileName
        /// The size that is offered.
        let size: UInt64
        let entryCount: UInt64
    }

    package let offer: Offer
    /// Descriptions of the first hundred skipped entries: links, sockets, devices.
    package let skipped: [String]
    /// The number of all skipped entries.
    package let skippedCount: Int
    /// The number of entries and paths among them that cannot be read or are rejected.
    package let unreadableCount: Int
    /// The patterns of ``Options/exclusions`` that match nothing, without those of files.
    package let unusedExclusions: [String]
    /// Empty where the offer describes all entries.
    package let contents: [EntryHeader]
    let items: [Item]
    let entries: OfferedEntries
    package let options: Options

    /// The paths that are sent.
    package var paths: [String] { items.map(\.path.text) }

    /// The paths of the items, in bytes.
    package var localPaths: [LocalPath] { items.map(\.path) }

    /// libmagic takes time: of more items than this, only the receiver detects the media types.
    private static let maximumDetectedItems = 32

    /// Files of a folder that were modified within this time before the offer may still be written to: one day, in nanoseconds. The
    /// others are not opened before they are sent.
    private static let sampledAge: Int64 = 86_400_000_000_000

    /// Limit on the listed entries, of which a frame has room for a part.
    private static let maximumListedEntries = 256

    /// Opens files by paths that are text.
    package init(
        paths: [String], named givenName: ClaimedFileName? = nil, options: Options = Options(),
        detector: MediaTypeDetector = MediaTypeDetector()
    ) throws(StorageError) {
        guard !paths.contains("") else { throw StorageError(.rejected, "the path is empty; name a file or a folder") }
        for path in paths { try LocalPath.check(path) }
        try self.init(localPaths: paths.map { LocalPath($0) }, named: givenName, options: options, detector: detector)
    }

    /// Enumerates everything once, so that unreadable files are reported before a receiver is asked.
    /// - Parameter givenName: the offered name of a single path; nil for the paths' own names.
    package init(
        localPaths paths: [LocalPath], named givenName: ClaimedFileName? = nil, options: Options = Options(),
        detector: MediaTypeDetector = MediaTypeDetector()
    ) throws(StorageError) {
        guard givenName == nil || paths.count == 1 else {
            throw StorageError(.failed, "a name is for a single file or folder; there are \(paths.count)")
        }
        self.options = options
        var items: [Item] = []
        var described: [OfferedItem] = []
        var skipped = SkippedEntries()
        var firstFailure: StorageError?
        var contents: [EntryHeader] = []
        var entries = OfferedEntries()
        var usedExclusions: Set<Int> = []
        defer { detector.purgeCache() }
        for path in paths {
            let item: OfferedItem
            do throws(StorageError) {
                guard
                    let described = try Self.describe(
                        path, named: givenName, options, detectedBy: paths.count <= Self.maximumDetectedItems ? detector : nil,
                        item: UInt32(clamping: items.count), contents: &contents, entries: &entries, skipped: &skipped,
                        usedExclusions: &usedExclusions)
                else { continue }
                item = described
            } catch {
                guard options.skipsUnreadable else { throw error }
                skipped.addUnreadable(error)
                firstFailure = firstFailure ?? error
                continue
            }
            items.append(Item(path: path, name: item.name, size: item.size ?? 0, entryCount: item.entryCount))
            if described.count < Offer.maximumDescribedItems { described.append(item) }
        }
        guard !items.isEmpty else {
            throw firstFailure
                ?? StorageError(
                    .notFound, paths.isEmpty ? "nothing to send: no paths were given" : "nothing to send: all is excluded")
        }
        self.items = items
        self.entries = entries
        self.contents = described.contains { $0.kind == .folder } || described.count < items.count ? contents : []
        self.skipped = skipped.names
        skippedCount = skipped.count
        unreadableCount = skipped.unreadableCount
        unusedExclusions = options.exclusions.unused(usedExclusions)
        offer = Offer(
            items: described, itemCount: UInt32(clamping: items.count),
            entryCount: items.reduce(0) { $0.addingClamped($1.entryCount) },
            totalSize: items.reduce(0) { $0.addingClamped($1.size) })
    }

    /// Enumerates all entries, in the order in which they are sent.
    package func forEachEntry(_ body: (EntryHeader) throws -> Void) throws {
        for (number, item) in items.enumerated() {
            let file = try FileDescriptor.openForReading(item.path)
            let status = try file.status()
            guard status.isFolder else {
                try body(EntryHeader(item: UInt32(clamping: number), file: status, path: [item.name], options))
                continue
            }
            let enumerator = FolderEnumerator(
                file, name: item.name, item: UInt32(clamping: number), options: options, shownPath: item.path.text)
            while let (header, _) = try enumerator.next(opening: false) { try body(header) }
        }
    }

    package func makeReader() throws(StorageError) -> any ResourceReader {
        FileReader(self)
    }

    /// - Returns: nil when the path is excluded.
    private static func describe(
        _ path: LocalPath, named givenName: ClaimedFileName?, _ options: Options, detectedBy detector: MediaTypeDetector?,
        item: UInt32, contents: inout [EntryHeader], entries: inout OfferedEntries, skipped: inout SkippedEntries,
        usedExclusions: inout Set<Int>
    ) throws(StorageError) -> OfferedItem? {
        let file = try FileDescriptor.openForReading(path)
        let status = try file.status()
        if try isInsideStateDirectory(path) {
            throw StorageError(.rejected, "\(path.shown) belongs to nearshare's own keys, which are never sent")
        }
        let name: ClaimedFileName
        if let givenName { name = givenName } else { name = try Self.name(of: path) }
        // A pattern means the file, under whatever name it is offered.
        let ownName = (try? Self.name(of: path)) ?? name
        if options.exclusions.match([ownName], isFolder: status.isFolder, used: &usedExclusions) { return nil }
        if status.isFolder {
            return try measure(
                file, name: name, path: path, options, item: item, contents: &contents, entries: &entries, skipped: &skipped,
                usedExclusions: &usedExclusions)
        }
        guard status.isFile else {
            throw StorageError(
                .rejected, "\(path.shown) is neither a file nor a folder; \(options.streamAdvice)")
        }
        guard !file.isGeneratedByKernel else {
            throw StorageError(
                .rejected, "the size of \(path.shown) is not known before it is read; \(options.streamAdvice)")
        }
        let header = EntryHeader(item: item, file: status, path: [name], options)
        list(header, in: &contents)
        entries.append(header, file: file)
        return OfferedItem(
            kind: .file, name: name, size: UInt64(clamping: status.st_size), entryCount: 1,
            mediaType: detector?.type(of: file).flatMap(ClaimedMediaType.init) ?? .unknown)
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

    /// Counts and sums up the content of a folder.
    private static func measure(
        _ folder: FileDescriptor, name: ClaimedFileName, path: LocalPath, _ options: Options, item: UInt32,
        contents: inout [EntryHeader], entries: inout OfferedEntries, skipped: inout SkippedEntries,
        usedExclusions: inout Set<Int>
    ) throws(StorageError) -> OfferedItem {
        let enumerator = FolderEnumerator(folder, name: name, item: item, options: options, shownPath: path.text)
        let sampledSince = SystemClock.wallNanoseconds() - sampledAge
        var size: UInt64 = 0
        var count: UInt64 = 0
        while true {
            enumerator.sampledSince = entries.takesSamples ? sampledSince : nil
            guard let (header, file) = try enumerator.next(opening: false) else { break }
            count += 1
            size = size.addingClamped(header.size ?? 0)
            list(header, in: &contents)
            entries.append(header, file: file)
        }
        skipped.add(enumerator.skipped)
        usedExclusions.formUnion(enumerator.usedExclusions)
        return OfferedItem(kind: .folder, name: name, size: size, entryCount: count, mediaType: .folder)
    }

    private static func list(_ header: EntryHeader, in contents: inout [EntryHeader]) {
        if contents.count < maximumListedEntries { contents.append(header.listed) }
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
