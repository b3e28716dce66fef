/// The requests to a worker that decodes, and its replies. Each request is answered by a ``Reply``, then by its samples or the
/// text of an error.
enum DecoderMessage {
    enum Request: UInt8 {
        case open = 1
        case read
        case seek
    }

    struct Reply {
        /// The number of frames that follow, or ``failed`` or ``noLibrary``.
        var status: Int32 = 0
        /// The position in frames, or for ``Request/open`` the number of frames a second.
        var value: Int64 = 0

        static let failed: Int32 = -1
        static let noLibrary: Int32 = -2
        static let byteCount = 12
    }

    /// A request's code and argument.
    static let requestByteCount = 9
    /// Bytes of an error's text, which is padded with zeros.
    static let errorByteCount = 256
    /// The longest Opus packet, 120 ms; more is never asked for at once.
    static let maximumFrames = 5760
}
