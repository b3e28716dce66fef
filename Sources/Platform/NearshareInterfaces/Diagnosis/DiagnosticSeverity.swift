/// The severity of a finding about this machine. The raw values are those of `nearshare doctor --json`.
package enum DiagnosticSeverity: String, Sendable, Hashable, Comparable, CaseIterable {
    /// The expected state.
    case fine
    /// Worth knowing, but harmless by itself.
    case note
    /// May keep peers from being found, or files from arriving.
    case warning
    /// Keeps peers from being found, or files from arriving.
    case problem

    private var rank: Int {
        switch self {
        case .fine: 0
        case .note: 1
        case .warning: 2
        case .problem: 3
        }
    }

    package static func < (one: Self, other: Self) -> Bool { one.rank < other.rank }
}
