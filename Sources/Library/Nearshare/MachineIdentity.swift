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
            let isValid =
                (1...63).contains(name.utf8.count) && name.utf8.first != UInt8(ascii: ".")
                && name.utf8.allSatisfy { byte in
                    switch byte {
                    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."):
                        true
                    default: false
                    }
                }
            guard isValid else {
                throw StorageError(
                    .failed,
                    "\(TerminalText.escaped(name)) is no identifier of an application; use 1 to 63 letters, digits, hyphens and dots"
                )
            }
            return "\(directories.state)/\(StateDirectory.applicationsName)/\(name)"
        case .ephemeral: return nil
        }
    }
}
