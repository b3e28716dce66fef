/// The severity of a finding about this machine. The raw values are those of `nearshare doctor --json`.
package enum DiagnosticSeverity: String, Sendable, Hashable, Comparable, CaseIterable {
    /// The expected state.
    case ok
    /// Worth knowing; nothing is wrong.
    case notice
    /// May keep peers from being found, or files from arriving.
    case warning
    /// Keeps peers from being found, or files from arriving.
    case error

    private var rank: Int {
        switch self {
        case .ok: 0
        case .notice: 1
        case .warning: 2
        case .error: 3
        }
    }

    package static func < (one: Self, other: Self) -> Bool { one.rank < other.rank }
}
