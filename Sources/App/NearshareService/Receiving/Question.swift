package import Nearshare

/// A question to the user about a peer, and the answers that it allows besides yes, no and block.
package struct Question: Sendable {
    /// The question itself, such as "accept?".
    package let prompt: String
    /// The name of the peer, escaped.
    package let peerName: String
    /// The subject, in whole lines, shown once before the question.
    package let subject: String
    /// Whether the user has met the peer before.
    package var isKnown = false
    /// The answers to "list", in whole lines, one after the other; empty where there is nothing to list.
    package var pages: [String] = []
    /// Selects a part; nil where it is no answer.
    package var parts: PartChooser?
    /// Whether "always" is an answer.
    package var allowsAlways = false
    /// The sentence with which the user is asked again before "block" counts; nil where it counts at once.
    package var blockWarning: String?
    /// The time at which the subject ends by itself, for the countdown in the prompt; nil for none.
    package var deadline: MonotonicInstant?
    /// The question for front ends besides the terminal; nil for one that only the terminal asks.
    package var outline: PromptQueue.Outline?

    package init(_ prompt: String, about peerName: String, subject: String = "") {
        (self.prompt, self.peerName, self.subject) = (prompt, peerName, subject)
    }
}
