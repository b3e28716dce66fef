/// The answer of a destination to the name, size, time and digest of an offered file.
package enum FilePresence: Sendable, Hashable {
    /// No such file, or files that exist are not compared (``ExistingFilePolicy``).
    case absent
    /// A file of this size: its content decides.
    case candidate
    /// A file with the same content.
    case identical
    /// A file that is not older, and stays.
    case newer
}
