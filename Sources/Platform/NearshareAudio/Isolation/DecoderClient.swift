internal import NearshareBase
internal import NearshareInterfaces

/// Decodes a file in a sandboxed worker process. Used by one thread.
final class DecoderClient {
    private let connection: WorkerConnection
    private let path: String
    private let channels: Int

    /// The time of the worker for one request, which takes it some milliseconds.
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
        if reply.status == DecoderMessage.Reply.noLibrary {
            throw AudioLibraries.missing(library.name, package: library.package)
        }
        return Int(reply.value)
    }

    /// Decodes the next frames.
    /// - Returns: the number of frames, 0 at the end, and the position after them.
    func read(into buffer: UnsafeMutableBufferPointer<Int16>) throws(AudioError) -> (frames: Int, position: Int) {
        let frameCount = min(buffer.count / channels, DecoderMessage.maximumFrames)
        let deadline = SystemClock.monotonic() + Self.timeout
        let reply = try send(.read, Int64(frameCount), by: deadline)
        guard (0...Int32(frameCount)).contains(reply.status) else { throw damaged }
        let sampleCount = Int(reply.status) * channels
        let samples = UnsafeMutableRawBufferPointer(UnsafeMutableBufferPointer(rebasing: buffer[..<sampleCount]))
        guard connection.receive(into: samples, by: deadline) == samples.count else { throw damaged }
        return (Int(reply.status), Int(reply.value))
    }

    /// - Returns: the new position, in frames.
    func seek(to frame: Int) throws(AudioError) -> Int { Int(try send(.seek, Int64(frame)).value) }

    private func send(
        _ request: DecoderMessage.Request, _ argument: Int64, by deadline: MonotonicInstant? = nil
    ) throws(AudioError) -> DecoderMessage.Reply {
        let deadline = deadline ?? SystemClock.monotonic() + Self.timeout
        var bytes = [request.rawValue]
        withUnsafeBytes(of: argument) { bytes += $0 }
        guard bytes.withUnsafeBytes({ connection.send($0, by: deadline) }) else { throw damaged }
        let reply = try receive(DecoderMessage.Reply.byteCount, by: deadline).withUnsafeBytes {
            DecoderMessage.Reply(
                status: $0.loadUnaligned(as: Int32.self), value: $0.loadUnaligned(fromByteOffset: 4, as: Int64.self))
        }
        if reply.status == DecoderMessage.Reply.failed {
            let reason = String(
                decoding: try receive(DecoderMessage.errorByteCount, by: deadline).prefix { $0 != 0 }, as: UTF8.self)
            // The worker does not know the path, with which its messages begin.
            throw AudioError(.damaged, "\(shown(path)) \(shown(String(reason.drop { $0 == " " })))")
        }
        return reply
    }

    private func receive(_ count: Int, by deadline: MonotonicInstant) throws(AudioError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let filled = bytes.withUnsafeMutableBytes { connection.receive(into: $0, by: deadline) }
        guard filled == count else { throw damaged }
        return bytes
    }

    private var damaged: AudioError {
        AudioError(.damaged, "\(shown(path)) cannot be decoded: the process that decodes it failed or took too long")
    }
}
