internal import Glibc

/// The size of a terminal, in character cells.
package struct TerminalSize: Sendable, Hashable {
    package var columns: Int
    package var rows: Int

    package init(columns: Int, rows: Int) {
        self.columns = columns
        self.rows = rows
    }

    /// The size assumed where the terminal reports none.
    package static let standard = TerminalSize(columns: 80, rows: 24)
}

/// The properties of a descriptor as a terminal, and the terminal's abilities according to the environment.
package enum TerminalProperties {
    package static func isTerminal(_ descriptor: Int32) -> Bool { isatty(descriptor) == 1 }

    package static func isPipe(_ descriptor: Int32) -> Bool {
        var status = stat()
        return fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFIFO
    }

    /// Whether output may have colours: `NO_COLOR` is unset or empty, and the descriptor is a terminal other than a dumb one.
    package static func hasColor(_ descriptor: Int32) -> Bool {
        variable("NO_COLOR") == nil && variable("TERM") != "dumb" && isTerminal(descriptor)
    }

    /// Whether the cursor can be moved: `TERM` names a terminal other than a dumb one.
    package static var canMoveCursor: Bool { variable("TERM").map { $0 != "dumb" } ?? false }

    /// Whether the locale's encoding is UTF-8. True without any locale, as in a container: modern terminals use UTF-8.
    package static var usesUTF8: Bool {
        for name in ["LC_ALL", "LC_CTYPE", "LANG"] {
            guard let locale = variable(name)?.lowercased() else { continue }
            return locale.hasSuffix("utf-8") || locale.hasSuffix("utf8") || locale.contains("utf-8@")
        }
        return true
    }

    /// The size of the terminal, and ``TerminalSize/standard`` for what is not a terminal.
    package static func size(of descriptor: Int32) -> TerminalSize {
        var window = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &window) == 0 else { return .standard }
        return TerminalSize(
            columns: window.ws_col > 0 ? Int(window.ws_col) : TerminalSize.standard.columns,
            rows: window.ws_row > 0 ? Int(window.ws_row) : TerminalSize.standard.rows)
    }

    /// - Returns: nil also for an empty value, which by convention means the same as an unset variable.
    private static func variable(_ name: String) -> String? {
        guard let value = getenv(name), value.pointee != 0 else { return nil }
        return String(cString: value)
    }
}
