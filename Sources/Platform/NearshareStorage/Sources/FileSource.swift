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
    /// Descriptions of a hundred skipped entries at most: those that cannot be read, then links, sockets and devices.
    package let skipped: [String]
    /// The number of all skipped entries.
    package let skippedCount: Int
    /// The number of entries and paths among them that cannot be read or are rejected.
    package let unreadableCount: Int
    /// The patterns of ``Options/exclusions`` that match nothing.
    package let unusedExclusions: [ExclusionPatterns.Unused]
    /// Empty where the offer describes all entries.
    package let contents: [EntryHeader]
    let items: [Item]
    let entries: OfferedEntries
    package let options: Options

    /// The paths that are sent.
    package var paths: [String] { items.map(\.path.text) }

    /// The paths of the items, in bytes.
    package var localPaths: [LocalPath] { items.map(\.path) }

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
        var builder = OfferBuilder(options, detectedBy: detector, pathCount: paths.count)
        defer { detector.purgeCache() }
        var firstFailure: StorageError?
        for path in paths {
            do throws(StorageError) {
                try builder.add(path, named: givenName)
            } catch {
                guard options.skipsUnreadable else { throw error }
                builder.skipped.addUnreadable(error)
                firstFailure = firstFailure ?? error
            }
        }
        guard !builder.items.isEmpty else {
            throw firstFailure
                ?? StorageError(
                    .notFound, paths.isEmpty ? "nothing to send: no paths were given" : "nothing to send: all is excluded")
        }
        items = builder.items
        entries = builder.entries
        contents = builder.isDescribed ? [] : builder.contents
        skipped = builder.skipped.names
        skippedCount = builder.skipped.count
        unreadableCount = builder.skipped.unreadableCount
        unusedExclusions = options.exclusions.unused(builder.usedExclusions)
        offer = builder.offer
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
}
