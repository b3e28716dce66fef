/// One observation about this machine's Bluetooth, for the user.
package struct BluetoothFinding: Sendable, Hashable {
    package var severity: DiagnosticSeverity
    package var text: String
    /// The suggested remedy.
    package var advice: String?

    package init(_ severity: DiagnosticSeverity, _ text: String, advice: String? = nil) {
        self.severity = severity
        self.text = text
        self.advice = advice
    }
}
