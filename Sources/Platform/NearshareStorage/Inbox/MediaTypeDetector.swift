internal import CMagic
internal import Glibc
internal import NearshareBase
package import NearshareInterfaces
internal import Synchronization

/// Detects media types with libmagic: in a worker without rights where there is a launcher, otherwise in this process. The
/// database takes a millisecond to load and 6 MiB of memory: callers that have no further content to examine call
/// ``purgeCache()``.
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
    /// The time of a worker for one sample.
    private static let timeout = Duration.seconds(2)
    /// Limit on the bytes of a worker's answer (RFC 6838 allows 127 and 127).
    private static let maximumTypeByteCount = 255

    // libmagic frees memory twice when two threads use a cookie at once.
    private let state = Mutex(State.unopened)
    private let launcher: (any WorkerLauncher)?
    private let warn: @Sendable (String) -> Void

    /// - Parameters:
    ///   - launcher: of workers; nil to use libmagic in this process.
    ///   - warn: reports that a worker has failed.
    package init(launcher: (any WorkerLauncher)? = nil, warn: @escaping @Sendable (String) -> Void = { _ in }) {
        self.launcher = launcher
        self.warn = warn
    }

    deinit { purgeCache() }

    /// The media type of content that begins with these bytes, such as `image/jpeg`; nil when it is not known.
    package func type(of bytes: UnsafeRawBufferPointer) -> String? {
        guard let launcher else { return typeInProcess(of: bytes) }
        do throws(SystemCallError) {
            let worker = try WorkerConnection(launcher, .detectMediaType)
            let deadline = SystemClock.monotonic() + Self.timeout
            // A worker that answers before it has read everything is believed.
            _ = worker.send(bytes, by: deadline)
            worker.finishSending()
            guard let answer = worker.receiveAll(limit: Self.maximumTypeByteCount, by: deadline), answer.last == Self.end else {
                warn("the process that detects media types failed at a file; its type is unknown")
                return nil
            }
            // Printable ASCII, see magic(5) and RFC 6838.
            guard answer.count > 1, answer.dropLast().allSatisfy({ (0x21...0x7e).contains($0) }) else { return nil }
            return String(decoding: answer.dropLast(), as: UTF8.self)
        } catch {
            warn("the process that detects media types cannot be reached (\(systemErrorText(error.code))); types are unknown")
            return nil
        }
    }

    private static let end = UInt8(ascii: "\n")

    /// The job ``WorkerJob/detectMediaType``: reads a sample to its end, and answers with its type and a line feed.
    package static let routine = WorkerRoutine(timeout: .seconds(2)) { socket, _ in loadRoutine(on: socket) }

    private static func loadRoutine(on socket: Int32) -> () -> Void {
        let detector = MediaTypeDetector()
        detector.loadDatabase()
        let sample = UnsafeMutableRawBufferPointer.allocate(byteCount: sampleByteCount, alignment: 64)
        return {
            let filled = (try? DescriptorIO.read(into: sample, from: socket)) ?? 0
            let type = detector.typeInProcess(of: UnsafeRawBufferPointer(rebasing: sample[..<filled])) ?? ""
            try? DescriptorIO.sendAll(Array(type.utf8) + [end], to: socket)
        }
    }

    private func loadDatabase() {
        state.withLock { state in
            if case .unopened = state { state = Self.open() }
        }
    }

    private func typeInProcess(of bytes: UnsafeRawBufferPointer) -> String? {
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
        let filled = (try? DescriptorIO.read(into: sample, from: file.rawValue, at: 0)) ?? 0
        return type(of: UnsafeRawBufferPointer(rebasing: sample[..<filled]))
    }

    private static func open() -> State {
        guard let cookie = magic_open(MAGIC_MIME_TYPE | MAGIC_ERROR | MAGIC_NO_CHECK_COMPRESS) else { return .unavailable }
        // A file of line breaks took 0.35 s with the default of 8 KiB, and takes 0.1 s (libmagic 5.44).
        var regularExpressionByteCount = 1024
        magic_setparam(cookie, MAGIC_PARAM_REGEX_MAX, &regularExpressionByteCount)
        guard magic_load(cookie, nil) == 0 else {
            magic_close(cookie)
            return .unavailable
        }
        return .open(Cookie(raw: cookie))
    }
}
