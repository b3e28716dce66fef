internal import FoundationEssentials
internal import Glibc
package import Nearshare

/// The received items of a machine: selects one by the text that the user gives, and removes items and records.
package struct ReceivedItems: Sendable {
    private let state: StateDirectory

    package init(of machine: LocalMachine) { state = machine.state }

    private var history: ReceiveHistory { ReceiveHistory(in: state) }

    private func latestEntries() throws(CommandFailure) -> [ReceiveHistory.Entry] {
        do throws(StorageError) {
            return try history.latestEntries()
        } catch {
            throw CommandFailure(error)
        }
    }

    /// The latest item that is still there.
    /// - Throws: also when there is none.
    package func latest() throws(CommandFailure) -> ReceiveHistory.Entry {
        guard let entry = try latestEntries().last(where: { $0.exists }) else {
            throw CommandFailure(.failure, "no received item is there; `nearshare inbox` lists all")
        }
        return entry
    }

    /// The item that a text selects, see ``select(_:absolute:among:)``.
    /// - Throws: also when none is selected that is still there.
    package func find(_ text: String) throws(CommandFailure) -> ReceiveHistory.Entry {
        // Completion writes a slash behind the name of a folder.
        let text = text.withoutFinalSlashes
        let entries = try latestEntries()
        let absolute = (try? ResolvedPath.of(text)) ?? text
        if let entry = Self.select(text, absolute: absolute, among: entries.filter(\.exists)) { return entry }
        if let gone = Self.select(text, absolute: absolute, among: entries.filter(\.isGone)) {
            throw CommandFailure(
                .failure,
                "\(TerminalText.path(gone.path)) is no longer there; `nearshare inbox clean` removes the records of such items")
        }
        throw CommandFailure(
            .failure, "\(TerminalText.escaped(text)) is no received item that is still there; `nearshare inbox` lists all")
    }

    /// The picture that a text selects, see ``select(_:absolute:among:)``, or the item received last.
    /// - Throws: also when that is no picture, by the type that was detected.
    package func findPicture(_ text: String?) throws(CommandFailure) -> ReceiveHistory.Entry {
        let entry = if let text { try find(text) } else { try latest() }
        guard Self.isPicture(entry) else {
            let type = entry.isFolder ? "a folder" : entry.type.map { TerminalText.escaped($0) } ?? "of unknown type"
            throw CommandFailure(
                .failure, "\(TerminalText.path(entry.path)) is no picture (\(type)); `nearshare inbox open` opens it")
        }
        return entry
    }

    /// The latest picture that is still there.
    /// - Parameter peer: its sender; nil for any.
    /// - Throws: also when there is none.
    package func latestPicture(from peer: PeerID?) throws(CommandFailure) -> ReceiveHistory.Entry {
        let isSender = { (entry: ReceiveHistory.Entry) in peer == nil || entry.peer.peerID == peer }
        guard let entry = try latestEntries().last(where: { Self.isPicture($0) && isSender($0) && $0.exists }) else {
            throw CommandFailure(.failure, "no picture was received here; `nearshare inbox` lists all items")
        }
        return entry
    }

    private static func isPicture(_ entry: ReceiveHistory.Entry) -> Bool {
        !entry.isFolder && entry.type?.hasPrefix("image/") == true
    }

    /// The item with a path, or else the latest that is stored under a name, or else the latest to which its sender gave that name,
    /// where no item can be stored under it: running `rm a.txt` twice must not remove `a (2).txt`.
    /// - Parameter absolute: the path that the text means in the working directory.
    static func select(
        _ text: String, absolute: String, among entries: [ReceiveHistory.Entry]
    ) -> ReceiveHistory.Entry? {
        if let entry = entries.last(where: { $0.path == text || $0.path == absolute })
            ?? entries.last(where: { $0.fileName == text })
        {
            return entry
        }
        let storedName = ClaimedFileName(text).map { SafeFileName($0).text }
        return storedName == text ? nil : entries.last { $0.claimedName == text }
    }

    /// The names of the items that are still there, for shell completion.
    package func fileNames() throws(StorageError) -> Set<String> {
        try Set(history.entries().filter(\.exists).map(\.fileName))
    }

    /// The item that a text selects, if it can be removed, see ``remove(_:)``.
    package func findRemovable(_ text: String) throws(CommandFailure) -> ReceiveHistory.Entry {
        let entry = try find(text)
        try Self.requireOnlyReceivedContent(entry)
        return entry
    }

    /// Removes an item from the disk, and records that. Its content is checked again: it may have changed since it was found.
    package func remove(_ entry: ReceiveHistory.Entry) throws(CommandFailure) {
        try Self.requireOnlyReceivedContent(entry)
        do {
            try FileManager.default.removeItem(atPath: entry.path)
        } catch {
            throw CommandFailure(
                .failure, "\(TerminalText.path(entry.path)) could not be removed; check the permissions of its folder")
        }
        do throws(StorageError) {
            try history.recordRemoval(of: entry.path)
        } catch {
            throw CommandFailure(error)
        }
    }

    /// - Throws: ``CommandFailure`` for an item that is no longer what was received, or not that alone.
    static func requireOnlyReceivedContent(_ entry: ReceiveHistory.Entry) throws(CommandFailure) {
        let shown = TerminalText.path(entry.path)
        var status = stat()
        let hasStatus = lstat(entry.path, &status) == 0
        let kind = status.st_mode & S_IFMT
        // The content of a folder is not compared: the question names it as a whole.
        let isUnchanged = entry.isFolder ? kind == S_IFDIR : kind == S_IFREG && UInt64(status.st_size) == entry.size
        guard hasStatus, isUnchanged else {
            throw CommandFailure(.failure, "\(shown) is not what was received any more; remove it by hand")
        }
        guard entry.isFolder else { return }
        switch entry.isMerged {
        case false?: break
        case true?:
            throw CommandFailure(
                .failure, "\(shown) was there before, and the received files were added to it; remove them by hand")
        case nil:
            throw CommandFailure(
                .failure, "\(shown) may have been there before: its record is of an older version; remove it by hand")
        }
    }

    /// Removes the records of items that are gone or were removed, also from the history; touches no file.
    /// - Returns: the number of items.
    package func removeRecordsOfGoneItems() throws(StorageError) -> Int {
        var senders: Set<PeerID> = []
        let count = try history.remove { entry in
            guard entry.isRemoved == true || entry.isGone else { return false }
            senders.insert(entry.peer.peerID)
            return true
        }
        // Without the record of its completion, a resumed transfer would be listed as interrupted. The records of attempts lack
        // the path of the item, so all resumed ones of its sender are removed.
        try TransferLog(of: .notReceived, in: state).removeResumedAttempts { senders.contains($0) }
        return count
    }
}

extension ReceiveHistory.Entry {
    /// Whether something still has the path under which the item was delivered.
    package var exists: Bool {
        var status = stat()
        return lstat(path, &status) == 0
    }

    /// Whether its folder is there, and the item is not: an inbox on a disk that is not mounted has lost nothing.
    package var isGone: Bool {
        var status = stat()
        guard lstat(path, &status) != 0, errno == ENOENT, let parent = path.pathOfParent else { return false }
        return stat(parent, &status) == 0
    }

    /// The name under which it is stored.
    package var fileName: String { path.pathComponents.last ?? path }
}
