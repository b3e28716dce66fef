/// Asks for the PIN that a LocalSend device requires.
package struct PINPrompt: Sendable {
    /// Returns the PIN; nil when there is none. The arguments are the receiver's name, escaped for a terminal, and whether the PIN
    /// that was given before is wrong.
    package let ask: @Sendable (String, Bool) async -> String?

    package init(ask: @escaping @Sendable (String, Bool) async -> String?) {
        self.ask = ask
    }
}
