/// Asks for the PIN that a LocalSend device requires.
package struct PINPrompt: Sendable {
    /// A sentence for the user of the command where the device has accepted no PIN; nil for none.
    package let advice: String?
    /// Returns the PIN; nil when there is none. The arguments are the receiver's name, escaped for a terminal, and whether the PIN
    /// that was given before is wrong.
    package let ask: @Sendable (String, Bool) async -> String?

    package init(advice: String? = nil, ask: @escaping @Sendable (String, Bool) async -> String?) {
        (self.advice, self.ask) = (advice, ask)
    }
}
