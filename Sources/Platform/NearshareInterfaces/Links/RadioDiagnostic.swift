/// One result of checking a radio, shown to users who look for the cause of a problem.
package struct RadioDiagnostic: Sendable, Hashable {
    package enum Severity: Sendable, Hashable {
        case fine
        case note
        case problem
    }

    package var severity: Severity
    package var text: String
    /// The suggested remedy.
    package var advice: String?

    package init(_ severity: Severity, _ text: String, advice: String? = nil) {
        self.severity = severity
        self.text = text
        self.advice = advice
    }
}
