/// The purpose of a stream. The raw values are those of the wire format.
package enum StreamPurpose: UInt8, Sendable, Hashable, CaseIterable {
    /// A byte stream between two programs.
    case bytes = 0
    /// The messages of a session.
    case messages = 1
    /// A relayed link: the end-to-end encrypted link of two members of a session through a third one.
    case relay = 2
}
