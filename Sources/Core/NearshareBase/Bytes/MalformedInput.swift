/// Why bytes from outside could not be decoded. The text names the field, never its content.
@usableFromInline package struct MalformedInput: Error, Hashable, CustomStringConvertible {
    /// The decoder and its complaint, in lower case: "offer: the name is longer than 255 bytes".
    @usableFromInline package let description: String

    /// - Parameter description: The input's name, a colon, and what is wrong with it.
    package init(_ description: String) {
        self.description = description
    }
}
