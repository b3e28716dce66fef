extension StringProtocol {
    /// The lines, without the LF or CR LF between them.
    package var lines: [SubSequence] {
        // "\r\n" is one character.
        split(omittingEmptySubsequences: false) { $0 == "\n" || $0 == "\r\n" }
    }
}
