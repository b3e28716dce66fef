/// One thing that was found out about a radio, for people who look for a cause.
package struct RadioFinding: Sendable, Hashable {
    package enum Severity: Sendable, Hashable {
        case fine
        case note
        case problem
    }

    package var severity: Severity
    package var text: String
    /// What to do.
    package var advice: String?

    package init(_ severity: Severity, _ text: String, advice: String? = nil) {
        self.severity = severity
        self.text = text
        self.advice = advice
    }
}
