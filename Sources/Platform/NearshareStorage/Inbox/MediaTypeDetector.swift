internal import CMagic
internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces
internal import Synchronization

/// Detects media types with libmagic. Its database takes a millisecond to load and 6 MiB of memory: callers that have no
/// further content to examine call ``purgeCache()``.
package final class MediaTypeDetector: Sendable {
    private struct Cookie: @unchecked Sendable {
        let raw: magic_t
    }

    private enum State {
        case unopened
        case open(Cookie)
        /// The database is missing: media types are not known.
        case unavailable
    }

    /// The sample that is examined: smaller ones make libmagic misjudge text, larger ones hardly help.
    package static let sampleByteCount = 256 << 10

    // libmagic frees memory twice when two threads use a cookie at once.
    private let state = Mutex(State.unopened)

    package init() {}

    deinit { purgeCache() }

    /// The media type of content that begins with these bytes, such as `image/jpeg`; nil when it is not known.
    package func type(of bytes: UnsafeRawBufferPointer) -> String? {
        state.withLock { state in
            if case .unopened = state { state = Self.open() }
            guard case .open(let cookie) = state else { return nil }
            // The result is valid until the next call.
            return magic_buffer(cookie.raw, bytes.baseAddress, bytes.count).map { String(cString: $0) }
        }
    }

    /// Frees the database, which is loaded again when it is next needed.
    package func purgeCache() {
        state.withLock { state in
            guard case .open(let cookie) = state else { return }
            magic_close(cookie.raw)
            state = .unopened
        }
    }

    func type(of file: FileDescriptor) -> String? {
        let sample = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.sampleByteCount, alignment: 64)
        defer { sample.deallocate() }
        var filled = 0
        while filled < sample.count {
            let rest = UnsafeMutableRawBufferPointer(rebasing: sample[filled...])
            let count = pread(file.rawValue, rest.baseAddress, rest.count, off_t(filled))
            guard count > 0 else { break }
            filled += count
        }
        return type(of: UnsafeRawBufferPointer(rebasing: sample[..<filled]))
    }

    private static func open() -> State {
        guard let cookie = magic_open(MAGIC_MIME_TYPE | MAGIC_ERROR | MAGIC_NO_CHECK_COMPRESS) else { return .unavailable }
        guard magic_load(cookie, nil) == 0 else {
            magic_close(cookie)
            return .unavailable
        }
        return .open(Cookie(raw: cookie))
    }
}
