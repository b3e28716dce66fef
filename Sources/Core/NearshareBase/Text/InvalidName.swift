/// The reason why a text is no name of its kind, such as a ``DisplayName``.
public struct InvalidName: Error, Sendable, Hashable, CustomStringConvertible {
    /// The violated rule, as a sentence for users.
    public let description: String

    package init(_ description: String) {
        self.description = description
    }
}
