package import NearshareInterfaces

/// The directories of nearshare's files, by the XDG base directory specification.
package struct Directories: Sendable, Hashable {
    package var home: String
    package var configuration: String
    package var state: String
    /// Files that the user has created and keeps, such as recorded voice notes.
    package var data: String
    package var defaultInbox: String
    /// Sockets, which live as long as a login session. Inside the state directory where XDG_RUNTIME_DIR is not set.
    package var runtime: String

    /// The path of the user's settings.
    package var configurationFile: String { "\(configuration)/config.toml" }

    /// - Parameters:
    ///   - environment: the environment variables.
    ///   - home: the home directory if HOME is not set.
    package init(environment: [String: String], home: String) {
        let home = environment["HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil } ?? home
        self.home = home
        // The specification requires relative paths to be ignored.
        func base(_ variable: String, _ fallback: String) -> String {
            guard let value = environment[variable], value.hasPrefix("/") else { return "\(home)/\(fallback)" }
            return value
        }
        configuration = base("XDG_CONFIG_HOME", ".config") + "/nearshare"
        data = base("XDG_DATA_HOME", ".local/share") + "/nearshare"
        state = base("XDG_STATE_HOME", ".local/state") + "/nearshare"
        runtime = environment["XDG_RUNTIME_DIR"].flatMap { $0.hasPrefix("/") ? "\($0)/nearshare" : nil } ?? "\(state)/run"
        defaultInbox = "\(home)/Inbox"
    }

    /// Refuses directories of a program's own environment that are no paths.
    package func check() throws(StorageError) {
        for path in [home, configuration, data, state, runtime] { try LocalPath.check(path) }
    }

    /// A path whose beginning `~` is a home directory.
    package static func expanding(_ path: String, home: String) -> String {
        path == "~" || path.hasPrefix("~/") ? home + path.dropFirst() : path
    }
}
