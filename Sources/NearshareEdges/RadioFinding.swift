/// One thing that was found out about a radio, for people who look for a cause.
public struct RadioFinding: Sendable, Hashable {
    public enum Severity: Sendable, Hashable {
        case fine
        case note
        case problem
    }

    public var severity: Severity
    public var text: String
    /// What to do.
    public var advice: String?

    public init(_ severity: Severity, _ text: String, advice: String? = nil) {
        self.severity = severity
        self.text = text
        self.advice = advice
    }
}
