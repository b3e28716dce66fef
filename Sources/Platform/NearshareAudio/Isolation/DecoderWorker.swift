internal import CNearshareAudio
internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// The requests to a worker that decodes, and its replies. Each request is answered by a ``Reply``, then by its samples or the
/// text of an error.
enum DecoderWire {
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

/// Decodes a file in a worker without rights. Used by one thread.
final class DecoderWorker {
    private let connection: WorkerConnection
    private let path: String
    private let channels: Int

    /// The time of the worker for one request: some milliseconds of sound.
    private static let timeout = Duration.seconds(2)

    /// - Parameters:
    ///   - job: a job that decodes.
    ///   - channels: of the samples.
    init(_ job: WorkerJob, _ file: NoteFile, channels: Int, by launcher: any WorkerLauncher) throws(AudioError) {
        do throws(SystemCallError) {
            connection = try WorkerConnection(launcher, job, passing: file.descriptor)
        } catch {
            throw AudioError(.failed, "could not start a process to decode: \(systemErrorText(error.code))")
        }
        path = file.path
        self.channels = channels
    }

    /// Opens the file.
    /// - Parameter library: the library that the worker uses, and its Debian package.
    /// - Returns: the number of frames a second.
    func open(library: (name: String, package: String)) throws(AudioError) -> Int {
        let reply = try send(.open, 0)
        if reply.status == DecoderWire.Reply.noLibrary { throw AudioLibraries.missing(library.name, package: library.package) }
        return Int(reply.value)
    }

    /// Decodes the next frames.
    /// - Returns: the number of frames, 0 at the end, and the position after them.
    func read(into buffer: UnsafeMutableBufferPointer<Int16>) throws(AudioError) -> (frames: Int, position: Int) {
        let room = min(buffer.count / channels, DecoderWire.maximumFrames)
        let reply = try send(.read, Int64(room))
        guard (0...Int32(room)).contains(reply.status) else { throw damaged }
        let sampleCount = Int(reply.status) * channels
        try receive(UnsafeMutableRawBufferPointer(UnsafeMutableBufferPointer(rebasing: buffer[..<sampleCount])))
        return (Int(reply.status), Int(reply.value))
    }

    /// - Returns: the new position, in frames.
    func seek(to frame: Int) throws(AudioError) -> Int { Int(try send(.seek, Int64(frame)).value) }

    private func send(_ request: DecoderWire.Request, _ argument: Int64) throws(AudioError) -> DecoderWire.Reply {
        var bytes = [request.rawValue]
        withUnsafeBytes(of: argument) { bytes += $0 }
        guard bytes.withUnsafeBytes({ connection.send($0, by: deadline) }) else { throw damaged }
        let reply = try receive(DecoderWire.Reply.byteCount).withUnsafeBytes {
            DecoderWire.Reply(
                status: $0.loadUnaligned(as: Int32.self), value: $0.loadUnaligned(fromByteOffset: 4, as: Int64.self))
        }
        if reply.status == DecoderWire.Reply.failed {
            let reason = String(decoding: try receive(DecoderWire.errorByteCount).prefix { $0 != 0 }, as: UTF8.self)
            // The worker does not know the path, with which its messages begin.
            throw AudioError(.damaged, "\(shown(path)) \(shown(String(reason.drop { $0 == " " })))")
        }
        return reply
    }

    private func receive(_ count: Int) throws(AudioError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let filled = bytes.withUnsafeMutableBytes { connection.receive(into: $0, by: deadline) }
        guard filled == count else { throw damaged }
        return bytes
    }

    private func receive(_ buffer: UnsafeMutableRawBufferPointer) throws(AudioError) {
        guard connection.receive(into: buffer, by: deadline) == buffer.count else { throw damaged }
    }

    private var deadline: MonotonicInstant { SystemClock.monotonic() + Self.timeout }

    private var damaged: AudioError {
        AudioError(.damaged, "\(shown(path)) can't be decoded: the process that decodes it failed or took too long")
    }
}

/// The other end of a ``DecoderWorker``, in the worker.
struct DecoderService {
    /// A decoder that is open.
    struct Decoder {
        let channels: Int
        let rate: Int
        /// Fills a buffer; returns the number of frames, 0 at the end.
        let read: (UnsafeMutableBufferPointer<Int16>) throws(AudioError) -> Int
        let seek: (Int) throws(AudioError) -> Void
        let position: () -> Int
    }

    let socket: Int32
    /// Opens the decoder; nil where the library is missing.
    let open: () throws(AudioError) -> Decoder?

    /// Serves requests until the connection ends.
    func run() {
        var decoder: Decoder?
        let buffer = UnsafeMutableBufferPointer<Int16>.allocate(capacity: DecoderWire.maximumFrames * 2)
        while let (request, argument) = nextRequest() {
            do throws(AudioError) {
                if request == .open {
                    decoder = try open()
                    guard let decoder else {
                        reply(DecoderWire.Reply.noLibrary, 0)
                        continue
                    }
                    reply(0, Int64(decoder.rate))
                    continue
                }
                guard let decoder else { return }
                var count = 0
                if request == .seek {
                    try decoder.seek(Int(argument))
                } else {
                    let room = min(max(0, Int(argument)), DecoderWire.maximumFrames) * decoder.channels
                    count = try decoder.read(UnsafeMutableBufferPointer(rebasing: buffer[..<room]))
                }
                reply(Int32(count), Int64(decoder.position()))
                send(UnsafeRawBufferPointer(UnsafeBufferPointer(rebasing: buffer[..<(count * decoder.channels)])))
            } catch {
                reply(DecoderWire.Reply.failed, 0)
                let text = Array(error.description.utf8.prefix(DecoderWire.errorByteCount))
                let padding = [UInt8](repeating: 0, count: DecoderWire.errorByteCount - text.count)
                (text + padding).withUnsafeBytes { send($0) }
            }
        }
    }

    private func nextRequest() -> (DecoderWire.Request, Int64)? {
        var bytes = [UInt8](repeating: 0, count: DecoderWire.requestByteCount)
        var filled = 0
        while filled < bytes.count {
            let count = bytes.withUnsafeMutableBytes { bytes in
                Glibc.read(socket, bytes.baseAddress.map { $0 + filled }, bytes.count - filled)
            }
            guard count > 0 else { return nil }
            filled += count
        }
        guard let request = DecoderWire.Request(rawValue: bytes[0]) else { return nil }
        return (request, bytes.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: 1, as: Int64.self) })
    }

    private func reply(_ status: Int32, _ value: Int64) {
        var bytes: [UInt8] = []
        withUnsafeBytes(of: status) { bytes += $0 }
        withUnsafeBytes(of: value) { bytes += $0 }
        bytes.withUnsafeBytes { send($0) }
    }

    private func send(_ bytes: UnsafeRawBufferPointer) {
        // A caller that is gone is noticed at the next request.
        _ = try? DescriptorIO.writeAll(bytes, to: socket)
    }
}
