internal import NearshareBase

/// The message about a network interface that the user has named, and that does not exist.
package enum MissingInterface {
    package static func text(for name: String) -> String {
        "there is no network interface \(TerminalText.escaped(name)): `ip link` lists those of this machine"
    }
}
