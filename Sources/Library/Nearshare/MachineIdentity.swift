internal import NearshareBase
internal import NearshareStorage

/// The key, contacts and state with which a program uses this machine.
public enum MachineIdentity: Sendable, Hashable {
    /// The user's own, which the command `nearshare` and other programs share.
    case user
    /// The application's own, such as `.application("org.example.game")`: 1 to 63 letters, digits, hyphens and dots in ASCII, the
    /// first of which is no dot. Peers cannot see that it belongs to the same user. Nodes of one process at a time use it.
    case application(String)
    /// A fresh key without contacts, which is removed with the ``LocalMachine`` and its nodes; after the end of a process that
    /// had no time for that, when the next one begins to use such a key.
    case ephemeral

    /// - Returns: the directory of the state, inside of the user's directories; nil for an ephemeral one.
    func stateDirectory(in directories: Directories) throws(StorageError) -> String? {
        switch self {
        case .user: return directories.state
        case .application(let name):
            if let problem = Self.problem(ofIdentifier: name) {
                throw StorageError(
                    .failed,
                    "the identifier of the application, \(TerminalText.quoted(name)), \(problem); "
                        + "use 1 to \(Self.maximumIdentifierByteCount) letters, digits, hyphens and dots")
            }
            return "\(directories.state)/\(StateDirectory.applicationsName)/\(name)"
        case .ephemeral: return nil
        }
    }

    private static let maximumIdentifierByteCount = 63

    /// The rule that an identifier of an application violates, as words about it; nil for a valid one.
    private static func problem(ofIdentifier name: String) -> String? {
        if name.isEmpty { return "is empty" }
        if name.hasPrefix(".") { return "begins with a dot" }
        let wrong = name.unicodeScalars.first { scalar in
            switch scalar {
            case "a"..."z", "A"..."Z", "0"..."9", "-", ".": false
            default: true
            }
        }
        if let wrong { return "contains \(TerminalText.quoted(String(wrong)))" }
        return name.utf8.count > maximumIdentifierByteCount ? "has \(name.utf8.count) characters" : nil
    }
}
