internal import CNearshareShims
internal import Glibc
package import NearshareBase
package import NearshareInterfaces
internal import Synchronization

/// The directory that received things end up in. It may be unmounted, unwritable or full at any moment; what was accepted
/// then waits in the spool.
///
/// It is opened anew for each delivery: a descriptor held for hours would keep its file system from being unmounted.
public final class Inbox: Sendable {
    /// Absolute; may go through symbolic links of the person's own.
    public let path: String
    package let limits: InboxLimits
    private let spool: StagingArea
    private let detector: MediaTypeDetector
    private let ground = Mutex<Ground?>(nil)

    /// What the inbox stood on when it was first seen.
    private struct Ground {
        let device: dev_t
        let isMountPoint: Bool
    }

    private static let stagingName = ".nearshare"
    private static let highestNumber = 9999
    /// Asking libmagic takes a millisecond each: of more items than this the content's type stays unknown.
    private static let maximumExaminedItems = Offer.maximumDescribedItems

    /// - Parameters:
    ///   - path: made when it isn't there, readable by its owner alone (P12).
    ///   - spoolPath: a directory of ours, in the state directory.
    package init(
        path: String, spoolPath: String, limits: InboxLimits = InboxLimits(), detector: MediaTypeDetector = MediaTypeDetector()
    ) throws(StorageError) {
        self.path = try Self.absolute(path)
        self.limits = limits
        self.detector = detector
        spool = try StagingArea(path: spoolPath)
    }

    /// Makes the directory if need be, and says what is wrong with it.
    package func check() throws(StorageError) {
        _ = try open()
    }

    /// Bytes that a transfer may still fill; nil when that can't be told.
    package var freeSpace: UInt64? {
        limits.usable(of: ((try? open()) ?? spool.directory).freeBytes)
    }

    /// Removes partial transfers that nobody went on with.
    package func removeStaleTransfers(now: WallTime) {
        for area in stagingAreas() { area.removeStaleTransfers(olderThan: limits.partialLifetime, now: now) }
    }

    /// Where an accepted transfer goes.
    /// - Parameters:
    ///   - sender: proven by its link.
    ///   - resumeKey: 32 bytes, the sender's name for this send.
    package func makeSink(
        for offer: Offer, from sender: Fingerprint, resumeKey: [UInt8],
        clock: @escaping @Sendable () -> MonotonicInstant
    ) throws(StorageError) -> any ResourceSink {
        try IncomingTransferSink(
            offer: offer, staged: try stagingArea().open(sender: sender, resumeKey: resumeKey), inbox: self, clock: clock)
    }

    /// Moves what waits in the spool, as far as the inbox takes it.
    /// - Returns: where it is now.
    package func deliverPending() -> [DeliveredItem] {
        var delivered: [DeliveredItem] = []
        for area in stagingAreas() { area.forEachFinished { delivered += deliver($0).filter(\.isInInbox) } }
        return delivered
    }

    /// What has arrived and waits: one path each.
    package var pendingPaths: [String] {
        var paths: [String] = []
        for area in stagingAreas() {
            area.forEachFinished { staged in
                forEachItem(of: staged) { number, name, _ in paths.append(Self.path(of: name, item: number, in: staged)) }
            }
        }
        return paths
    }

    // MARK: Places

    private func open(makingIt: Bool = true) throws(StorageError) -> FileDescriptor {
        do throws(StorageError) {
            return try checked(try FileDescriptor.openDirectory(path: path))
        } catch {
            guard makingIt, error.code == .notFound else { throw error }
            try make()
            return try checked(try FileDescriptor.openDirectory(path: path))
        }
    }

    /// Made anew only where it was: under the mount point of a file system that is gone it would soon be out of sight.
    private func make() throws(StorageError) {
        if let known = ground.withLock({ $0 }) {
            let parent = try FileDescriptor.openDirectory(path: Self.parent(of: path)).status()
            guard !known.isMountPoint, parent.st_dev == known.device else {
                throw StorageError(.notFound, "the inbox \(shown(path)) is gone; is its disk still mounted?")
            }
        }
        guard mkdir(path, 0o700) == 0 else {
            if errno == EEXIST { return }
            throw StorageError(errno, "can't make the inbox \(shown(path))")
        }
        // Whatever the umask has left of it.
        chmod(path, 0o700)
    }

    private func checked(_ directory: FileDescriptor) throws(StorageError) -> FileDescriptor {
        let device = try directory.status().st_dev
        var parent = stat()
        let isMountPoint = fstatat(directory.number, "..", &parent, 0) == 0 && parent.st_dev != device
        let known = ground.withLock { ground in
            ground = ground ?? Ground(device: device, isMountPoint: isMountPoint)
            return ground!
        }
        guard !known.isMountPoint || isMountPoint else {
            throw StorageError(.notFound, "nothing is mounted at the inbox \(shown(path)) any more")
        }
        guard faccessat(directory.number, ".", W_OK | X_OK, AT_EACCESS) == 0 else {
            throw StorageError(errno, "can't write into the inbox \(shown(path))")
        }
        return directory
    }

    private static func absolute(_ path: String) throws(StorageError) -> String {
        guard !path.isEmpty, !path.utf8.contains(0) else { throw StorageError(.notFound, "the inbox needs a path") }
        var parts = path.split(separator: "/").filter { $0 != "." }
        if !path.hasPrefix("/") {
            guard let current = getcwd(nil, 0) else { throw StorageError(errno, "can't tell the current directory") }
            defer { free(current) }
            parts = String(cString: current).split(separator: "/") + parts
        }
        return "/" + parts.joined(separator: "/")
    }

    private static func parent(of path: String) -> String {
        "/" + path.split(separator: "/").dropLast().joined(separator: "/")
    }

    /// Where a final name is then given without copying: the spool when it is on the inbox's device, else beside the files.
    private func stagingArea() throws(StorageError) -> StagingArea {
        guard let inbox = try? open(), let device = try? inbox.status().st_dev, device != spool.device,
            let beside = try? StagingArea(named: Self.stagingName, in: inbox, parentPath: path, makingIt: true)
        else { return spool }
        return beside
    }

    private func stagingAreas() -> [StagingArea] {
        guard let inbox = try? open(makingIt: false),
            let beside = try? StagingArea(named: Self.stagingName, in: inbox, parentPath: path, makingIt: false)
        else { return [spool] }
        return [spool, beside]
    }

    // MARK: Delivering

    /// Goes over the items of a finished transfer that have no final name yet. One holder is open at a time: there may be
    /// more of them than a process may have open files.
    private func forEachItem(of staged: StagedTransfer, _ body: (UInt32, String, FileDescriptor) -> Void) {
        let numbers = ((try? staged.items.names()) ?? []).compactMap { UInt32($0) }.sorted()
        for number in numbers {
            guard let holder = try? staged.items.openDirectory("\(number)") else { continue }
            for name in (try? holder.names()) ?? [] { body(number, name, holder) }
        }
    }

    /// Gives every item of a finished transfer its final name; what can't have one waits where it is.
    func deliver(_ staged: StagedTransfer) -> [DeliveredItem] {
        let described = staged.finishedTransfer?.items ?? []
        var place = (try? open()).map { Place($0, path: path) }
        var delivered: [DeliveredItem] = []
        defer { detector.purgeCache() }
        forEachItem(of: staged) { number, name, holder in
            let claim = Int(number) < described.count ? described[Int(number)] : nil
            let claimedName = claim.flatMap { ClaimedFileName(bytes: $0.claimedName) } ?? ClaimedFileName(name)!
            let facts = examine(name, in: holder, number, claim)
            let finalName = place?.take(name, from: holder)
            let staging = Self.path(of: name, item: number, in: staged)
            delivered.append(
                DeliveredItem(
                    item: number, kind: facts.kind, claimedName: claimedName,
                    path: finalName.map { "\(path)/\($0)" } ?? staging, isInInbox: finalName != nil, size: facts.size,
                    detectedType: facts.type, typeWarning: facts.warning, stagedPath: finalName == nil ? nil : staging))
        }
        // Names that a loss of power could take away again are no reason to throw away what they stand for.
        let isDurable = (try? place?.directory.synchronize()) != nil
        if delivered.allSatisfy(\.isInInbox), isDurable || delivered.isEmpty {
            staged.remove()
        } else {
            try? staged.makeMarkDurable()
        }
        return delivered
    }

    private static func path(of name: String, item: UInt32, in staged: StagedTransfer) -> String {
        "\(staged.path)/items/\(item)/\(name)"
    }

    private func examine(
        _ name: String, in holder: FileDescriptor, _ number: UInt32, _ claim: FinishedTransfer.Item?
    ) -> (kind: OfferedItem.Kind, size: UInt64, type: String?, warning: String?) {
        let kind = claim.flatMap { OfferedItem.Kind(rawValue: $0.kind) }
        guard let file = try? holder.openForReading(name), let status = try? file.status() else {
            return (kind ?? .file, 0, nil, nil)
        }
        if status.isFolder { return (.folder, claim?.size ?? Self.size(of: file), nil, nil) }
        let type = number < Self.maximumExaminedItems ? detector.type(of: file) : nil
        return (
            kind ?? .file, UInt64(status.st_size), type,
            ContentTypeCheck.warning(name: name, claimed: claim?.claimedType, detected: type)
        )
    }

    /// Bytes of content in a folder.
    private static func size(of folder: FileDescriptor) -> UInt64 {
        guard let names = try? DirectoryListing(of: folder) else { return 0 }
        var total: UInt64 = 0
        for index in 0..<names.count {
            var status = stat()
            let name = names.name(at: index)
            guard fstatat(folder.number, name, &status, AT_SYMLINK_NOFOLLOW) == 0 else { continue }
            if status.isFolder {
                if let child = try? folder.openDirectory(name) { total += size(of: child) }
            } else if status.isFile {
                total += UInt64(status.st_size)
            }
        }
        return total
    }

    /// The inbox while items of one transfer are placed in it.
    private struct Place {
        let directory: FileDescriptor
        let path: String
        /// Names in it as they look, whatever their case and however their accents are written.
        private var taken: Set<String>
        /// Where numbering goes on: a thousand items of one name must not be a million attempts.
        private var numbers: [String: Int] = [:]

        init(_ directory: FileDescriptor, path: String) {
            self.directory = directory
            self.path = path
            taken = Set(((try? directory.names()) ?? []).map(Self.folded))
        }

        /// - Returns: the name that the item has got; nil when the inbox doesn't take it.
        mutating func take(_ name: String, from holder: FileDescriptor) -> String? {
            do throws(FileDescriptor.Failure) {
                return try giveName(name, from: holder, wanted: name)
            } catch {
                guard error.code == EXDEV else { return nil }
            }
            // Another device, or another mount of the same: copied aside in the inbox first, so that a final name never
            // stands for half of something.
            guard let area = try? StagingArea(named: Inbox.stagingName, in: directory, parentPath: path, makingIt: true),
                let copy = try? area.openForCopy()
            else { return nil }
            defer { copy.remove() }
            do {
                try Inbox.copyTree(name, in: holder, to: name, in: copy.items)
                try copy.items.synchronizeFileSystem()
                guard let finalName = try giveName(name, from: copy.items, wanted: name) else { return nil }
                holder.removeTree(name)
                return finalName
            } catch {
                return nil
            }
        }

        private mutating func giveName(
            _ name: String, from holder: FileDescriptor, wanted: String
        ) throws(FileDescriptor.Failure) -> String? {
            guard let claimed = ClaimedFileName(wanted) else { return nil }
            let safe = SafeFileName(claimed)
            let wish = Self.folded(safe.text)
            for number in min(numbers[wish] ?? 1, Inbox.highestNumber)...Inbox.highestNumber {
                let candidate = number == 1 ? safe : safe.numbered(number)
                // What differs only in case or in its accents looks the same, or is the same on another file system (P9).
                guard !taken.contains(Self.folded(candidate.text)) else { continue }
                let isFree = try holder.rename(name, to: candidate.text, in: directory)
                taken.insert(Self.folded(candidate.text))
                numbers[wish] = number + 1
                if isFree { return candidate.text }
            }
            return nil
        }

        /// Canonically equivalent strings are equal in Swift, so composed and decomposed accents fold together as they are.
        private static func folded(_ name: String) -> String { name.lowercased() }
    }

    private static func copyTree(
        _ name: String, in source: FileDescriptor, to copy: String, in target: FileDescriptor
    ) throws(StorageError) {
        var status = stat()
        guard fstatat(source.number, name, &status, AT_SYMLINK_NOFOLLOW) == 0 else {
            throw StorageError(errno, "can't look at \(shown(name))")
        }
        switch status.st_mode & S_IFMT {
        case S_IFDIR:
            let from = try source.openDirectory(name)
            let to = try target.directory(copy)
            for child in try from.names() { try copyTree(child, in: from, to: child, in: to) }
            fchmod(to.number, status.st_mode & 0o777)
            to.setModified(status.modifiedNanoseconds)
        case S_IFLNK:
            var link = [CChar](repeating: 0, count: EntryHeader.maximumPathByteCount + 1)
            let count = readlinkat(source.number, name, &link, link.count - 1)
            guard count >= 0, symlinkat(link, target.number, copy) == 0 else {
                throw StorageError(errno, "can't make the link \(shown(copy))")
            }
        default:
            let from = try source.openForReading(name)
            guard try from.status().isFile else { throw StorageError(.refused, "\(shown(name)) is no plain file") }
            guard let to = try target.createFile(copy) else { throw StorageError(.failed, "\(shown(copy)) is there already") }
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 64)
            defer { buffer.deallocate() }
            while true {
                let count = try from.read(into: buffer)
                if count == 0 { break }
                try to.write(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            }
            fchmod(to.number, status.st_mode & 0o777)
            to.setModified(status.modifiedNanoseconds)
        }
    }
}
