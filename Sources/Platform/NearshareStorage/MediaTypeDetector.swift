internal import CMagic
internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces
internal import Synchronization

/// What libmagic says that content is. Its database takes 6 MiB while it is in use and a millisecond to load: whoever has asked all
/// that there was to ask calls ``purgeCache()``.
package final class MediaTypeDetector: Sendable {
    private struct Cookie: @unchecked Sendable {
        let raw: magic_t
    }

    private enum State {
        case unopened
        case open(Cookie)
        /// The database is missing: the content's type stays unknown, nothing else suffers.
        case unavailable
    }

    /// libmagic misjudges text from small samples; more than this hardly helps.
    package static let sampleByteCount = 256 << 10

    // A cookie must not be used by two threads at once: libmagic then frees memory twice.
    private let state = Mutex(State.unopened)

    package init() {}

    deinit { purgeCache() }

    /// The type of content that begins with these bytes, such as `image/jpeg`; nil when it can't be told.
    package func type(of bytes: UnsafeRawBufferPointer) -> String? {
        state.withLock { state in
            if case .unopened = state { state = Self.open() }
            guard case .open(let cookie) = state else { return nil }
            // The answer lives in the cookie until the next question.
            return magic_buffer(cookie.raw, bytes.baseAddress, bytes.count).map { String(cString: $0) }
        }
    }

    /// Gives the database's memory back; the next question loads it again.
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
            let count = pread(file.number, sample.baseAddress! + filled, sample.count - filled, off_t(filled))
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
