/// An error in reading a source or writing to a destination. The description is shown to the user.
public struct StorageError: Error, Sendable, CustomStringConvertible {
    package enum Code: Sendable, Hashable {
        case notFound
        case noPermission
        /// The disk is full or a quota is used up. The description names the missing space where it is known.
        case noSpace
        /// A limit of the user's configuration was exceeded.
        case overLimit
        /// The source has changed since it was offered.
        case changed
        /// The content of a peer is invalid or unsafe, a path of the user is nothing that can be sent, or an argument of a program is
        /// out of its bounds.
        case rejected
        /// A directory of the user's choice must not serve the purpose.
        case unsuitable
        /// The program that reads the output has closed it.
        case outputClosed
        case failed
    }

    package let code: Code
    /// The error as a sentence for users.
    public let description: String

    package init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }
}
