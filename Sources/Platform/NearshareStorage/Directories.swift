/// Where nearshare's files are, by the XDG base directory specification.
package struct Directories: Sendable, Hashable {
    package var configuration: String
    package var state: String
    package var defaultInbox: String
    /// For what lives as long as a login: sockets. Where the system has no place for it, beside the state.
    package var runtime: String

    /// - Parameters:
    ///   - environment: the process's, or a test's.
    ///   - home: the person's home directory, where the environment has none.
    package init(environment: [String: String], home: String) {
        let home = environment["HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil } ?? home
        // A relative path in one of these is to be ignored, says the specification.
        func base(_ variable: String, _ otherwise: String) -> String {
            guard let value = environment[variable], value.hasPrefix("/") else { return "\(home)/\(otherwise)" }
            return value
        }
        configuration = base("XDG_CONFIG_HOME", ".config") + "/nearshare"
        state = base("XDG_STATE_HOME", ".local/state") + "/nearshare"
        runtime = environment["XDG_RUNTIME_DIR"].flatMap { $0.hasPrefix("/") ? "\($0)/nearshare" : nil } ?? "\(state)/run"
        defaultInbox = "\(home)/Inbox"
    }
}
