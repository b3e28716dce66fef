internal import ArgumentParser
internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// A received item, as named on the command line.
enum ReceivedItemArgument {
    /// The latest item that is still there.
    static func latest(of machine: LocalMachine) throws -> ReceiveHistory.Entry {
        guard let entry = try ReceiveHistory(in: machine.state).latestEntries().last(where: \.exists) else {
            throw CommandFailure(.failure, "no received item is there; `nearshare inbox` lists all")
        }
        return entry
    }

    static func find(_ text: String, of machine: LocalMachine) throws -> ReceiveHistory.Entry {
        // Completion writes a slash behind the name of a folder.
        let text = text.withoutFinalSlashes
        let entries = try ReceiveHistory(in: machine.state).latestEntries()
        let absolute = (try? ResolvedPath.of(text)) ?? text
        if let entry = select(text, absolute: absolute, among: entries.filter(\.exists)) { return entry }
        if let gone = select(text, absolute: absolute, among: entries.filter(\.isGone)) {
            throw CommandFailure(
                .failure,
                "\(TerminalText.path(gone.path)) is no longer there; `nearshare inbox clean` removes the records of such items")
        }
        throw CommandFailure(
            .failure, "\(TerminalText.escaped(text)) is no received item that is still there; `nearshare inbox` lists all")
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

    @Sendable static func completions(_ arguments: [String], _ index: Int, _ prefix: String) -> [String] {
        guard let state = try? LocalMachine().state, let entries = try? ReceiveHistory(in: state).entries() else { return [] }
        // A shell would give a meaning to characters of other names (T8).
        let shell = CompletionShell.requesting
        return Set(entries.filter(\.exists).map(\.fileName)).filter { PeerArgument.isQuotable($0, for: shell) }.sorted()
    }
}

extension ReceiveHistory.Entry {
    /// Whether something still has the path under which the item was delivered.
    var exists: Bool {
        var status = stat()
        return lstat(path, &status) == 0
    }

    /// Whether its folder is there, and the item is not: an inbox on a disk that is not mounted has lost nothing.
    var isGone: Bool {
        var status = stat()
        guard lstat(path, &status) != 0, errno == ENOENT, let parent = path.pathOfParent else { return false }
        return stat(parent, &status) == 0
    }

    /// The name under which it is stored.
    var fileName: String { path.pathComponents.last ?? path }
}
