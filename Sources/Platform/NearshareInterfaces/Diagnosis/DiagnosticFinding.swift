/// One observation about this machine, for the user.
package struct DiagnosticFinding<Subject: Sendable & Hashable>: Sendable, Hashable {
    package var severity: DiagnosticSeverity
    package var subject: Subject
    /// The observation, in lower case without a full stop.
    package var text: String
    /// The suggested remedy; nil where nothing is needed.
    package var advice: String?

    package init(_ severity: DiagnosticSeverity, _ subject: Subject, _ text: String, advice: String? = nil) {
        self.severity = severity
        self.subject = subject
        self.text = text
        self.advice = advice
    }
}
