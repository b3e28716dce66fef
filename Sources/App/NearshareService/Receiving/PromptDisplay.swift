package import Nearshare

/// The terminal on which the user is asked. The command line implements it.
package protocol PromptDisplay: Sendable {
    /// The keys that the user presses while a question is shown, until the terminal closes.
    func keys() -> AsyncStream<AnswerKey>

    /// Whether a prompt can be drawn again in its place.
    var redraws: Bool { get }

    /// The size of the terminal, in character cells.
    var size: (columns: Int, rows: Int) { get }

    /// Writes whole lines above the prompt.
    func show(_ text: String)

    /// Replaces the prompt below everything else, and the answer typed so far behind it; nil removes them.
    func setPrompt(_ prompt: String?, typed: String)

    /// Keeps the prompt and the typed answer as a line above.
    func confirmAnswer()

    /// Discards input that was typed before the first question was shown.
    func discardTypedInput()
}
