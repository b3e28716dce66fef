internal import CNearshareAudio
internal import Glibc
internal import NearshareBase
package import NearshareInterfaces

/// A sound server with the PulseAudio protocol, which PipeWire implements as well.
package struct PulseAudio: AudioSystem {
    package let title: String

    /// - Throws: when libpulse is not installed or no server answers.
    package init() throws(AudioError) {
        let connection = try PulseConnection()
        let server = try connection.serverInfo()
        title = server.title
    }

    package func devices() throws(AudioError) -> [AudioDevice] {
        let connection = try PulseConnection()
        let server = try connection.serverInfo()
        return try connection.devices(.input, default: server.input) + connection.devices(.output, default: server.output)
    }

    package func openInput(device: String?, format: AudioFormat) throws(AudioError) -> any AudioInput {
        try PulseInput(PulseConnection(), device: device, format: format)
    }

    package func openOutput(device: String?, format: AudioFormat) throws(AudioError) -> any AudioOutput {
        try PulseOutput(PulseConnection(), device: device, format: format)
    }
}

/// A connection to the server with its event loop, which runs on the calling thread only.
private final class PulseConnection {
    let library: nearshare_pulse
    let context: OpaquePointer
    private let loop: OpaquePointer

    /// Timeout of a server's reply; a local one takes milliseconds.
    private static let timeout = Duration.seconds(5)

    init() throws(AudioError) {
        guard let library = AudioLibraries.pulse else { throw AudioLibraries.missing("libpulse", package: "libpulse0") }
        guard let loop = library.pa_mainloop_new() else {
            throw AudioError(.failed, "no memory for the sound server's event loop")
        }
        guard let context = library.pa_context_new(library.pa_mainloop_get_api(loop), "nearshare") else {
            library.pa_mainloop_free(loop)
            throw AudioError(.failed, "no memory for a connection to the sound server")
        }
        self.library = library
        self.loop = loop
        self.context = context
        guard library.pa_context_connect(context, nil, PA_CONTEXT_NOFLAGS, nil) == 0 else { throw connectionError }
        try wait { () throws(AudioError) in
            switch library.pa_context_get_state(context) {
            case PA_CONTEXT_READY: true
            case PA_CONTEXT_FAILED, PA_CONTEXT_TERMINATED: throw connectionError
            default: false
            }
        }
    }

    deinit {
        library.pa_context_disconnect(context)
        library.pa_context_unref(context)
        library.pa_mainloop_free(loop)
    }

    private var connectionError: AudioError { AudioError(.unavailable, "no sound server answers (\(reason))") }

    /// The error text of the last failed call.
    var reason: String {
        library.pa_strerror(library.pa_context_errno(context)).map { String(cString: $0).lowercased() } ?? "unknown"
    }

    /// Runs one iteration of the event loop.
    /// - Parameter milliseconds: the longest wait for an event; -1 for no limit.
    func runOnce(milliseconds: Int32 = AudioTimeout.milliseconds) throws(AudioError) {
        // The timeout is in microseconds. Poll and dispatch may be called only after a successful prepare.
        guard library.pa_mainloop_prepare(loop, milliseconds * 1000) >= 0, library.pa_mainloop_poll(loop) >= 0,
            library.pa_mainloop_dispatch(loop) >= 0
        else { throw AudioError(.deviceGone, "the connection to the sound server was lost") }
        if library.pa_context_get_state(context) != PA_CONTEXT_READY, isReady {
            throw AudioError(.deviceGone, "the sound server has stopped (\(reason))")
        }
    }

    /// Runs one iteration of the event loop, which waits for an event or the wake-up descriptor.
    func runOnce(until wakeup: EventFD) throws(AudioError) {
        guard let api = library.pa_mainloop_get_api(loop),
            let event = api.pointee.io_new(api, wakeup.descriptor, PA_IO_EVENT_INPUT, { _, _, _, _, _ in }, nil)
        else { return try runOnce() }
        defer { api.pointee.io_free(event) }
        try runOnce(milliseconds: -1)
    }

    private var isReady = false

    private func wait(until isDone: () throws(AudioError) -> Bool) throws(AudioError) {
        let deadline = SystemClock.monotonic() + Self.timeout
        while try !isDone() {
            guard SystemClock.monotonic() < deadline else {
                throw AudioError(.unavailable, "the sound server does not answer")
            }
            try runOnce()
        }
        isReady = true
    }

    func isComplete(_ operation: OpaquePointer) -> Bool { library.pa_operation_get_state(operation) != PA_OPERATION_RUNNING }

    /// Waits for an operation whose callback stores the reply.
    private func finish(_ operation: OpaquePointer?) throws(AudioError) {
        guard let operation else { throw AudioError(.failed, "the sound server refuses the request (\(reason))") }
        defer { library.pa_operation_unref(operation) }
        do throws(AudioError) {
            try wait { isComplete(operation) }
        } catch {
            // The callback's destination goes out of scope.
            library.pa_operation_cancel(operation)
            throw error
        }
    }

    struct Server {
        var title = "PulseAudio"
        var input: String?
        var output: String?
    }

    func serverInfo() throws(AudioError) -> Server {
        var server = Server()
        try withUnsafeMutablePointer(to: &server) { (server) throws(AudioError) in
            try finish(
                library.pa_context_get_server_info(
                    context,
                    { _, info, server in
                        guard let info = info?.pointee else { return }
                        guard let server = server?.assumingMemoryBound(to: Server.self) else { return }
                        let name = info.server_name.map { String(cString: $0) } ?? "PulseAudio"
                        let version = info.server_version.map { String(cString: $0) } ?? ""
                        server.pointee.title = "\(name) \(version)"
                        server.pointee.input = info.default_source_name.map { String(cString: $0) }
                        server.pointee.output = info.default_sink_name.map { String(cString: $0) }
                    }, server))
        }
        return server
    }

    func devices(_ direction: AudioDevice.Direction, default standard: String?) throws(AudioError) -> [AudioDevice] {
        var found: [AudioDevice] = []
        try withUnsafeMutablePointer(to: &found) { (found) throws(AudioError) in
            try finish(
                direction == .input
                    ? library.pa_context_get_source_info_list(
                        context,
                        { _, info, _, found in
                            guard let info = info?.pointee else { return }
                            appendDevice(named: info.name, title: info.description, direction: .input, to: found)
                        }, found)
                    : library.pa_context_get_sink_info_list(
                        context,
                        { _, info, _, found in
                            guard let info = info?.pointee else { return }
                            appendDevice(named: info.name, title: info.description, direction: .output, to: found)
                        }, found))
        }
        for index in found.indices { found[index].isDefault = found[index].name == standard }
        return found
    }
}

private func appendDevice(
    named name: UnsafePointer<CChar>?, title: UnsafePointer<CChar>?, direction: AudioDevice.Direction,
    to found: UnsafeMutableRawPointer?
) {
    guard let name, let found else { return }
    let text = String(cString: name)
    found.assumingMemoryBound(to: [AudioDevice].self).pointee.append(
        AudioDevice(name: text, title: title.map { String(cString: $0) } ?? text, direction: direction, isDefault: false))
}

extension AudioFormat {
    fileprivate var pulse: pa_sample_spec {
        pa_sample_spec(
            format: Int16(1).littleEndian == 1 ? PA_SAMPLE_S16LE : PA_SAMPLE_S16BE, rate: UInt32(rate),
            channels: UInt8(channels))
    }

    fileprivate var bytesPerFrame: Int { channels * MemoryLayout<Int16>.size }

    /// The size of a duration, in bytes.
    fileprivate func bytes(milliseconds: Int) -> UInt32 { UInt32(rate * milliseconds / 1000 * bytesPerFrame) }
}

/// A stream of either direction: it has to become ready, and may fail at any time.
private final class PulseStream {
    let connection: PulseConnection
    let library: nearshare_pulse
    let raw: OpaquePointer
    private let what: String

    init(_ connection: PulseConnection, format: AudioFormat, what: String) throws(AudioError) {
        self.connection = connection
        library = connection.library
        self.what = what
        var spec = format.pulse
        guard let raw = library.pa_stream_new(connection.context, "voice note", &spec, nil) else {
            throw AudioError(.failed, "the sound server refuses a stream (\(connection.reason))")
        }
        self.raw = raw
    }

    deinit {
        _ = library.pa_stream_disconnect(raw)
        library.pa_stream_unref(raw)
    }

    /// Waits until the stream is ready.
    /// - Parameter code: the result of connecting it.
    func waitUntilReady(_ code: Int32, device: String?) throws(AudioError) {
        let name = device.map { "\"\(shown($0))\"" } ?? "the default \(what)"
        func deviceError() -> AudioError {
            AudioError(
                .unavailable, "\(name) cannot be used (\(connection.reason)); `nearshare voice --list-devices` lists what can")
        }
        guard code == 0 else { throw deviceError() }
        while true {
            switch library.pa_stream_get_state(raw) {
            case PA_STREAM_READY: return
            case PA_STREAM_FAILED, PA_STREAM_TERMINATED: throw deviceError()
            default: try connection.runOnce()
            }
        }
    }

    /// Runs one iteration of the event loop.
    /// - Parameter wakeup: ends the wait for an event; nil for ``AudioTimeout``.
    /// - Throws: when the device was disconnected.
    func runOnce(until wakeup: EventFD? = nil) throws(AudioError) {
        if let wakeup { try connection.runOnce(until: wakeup) } else { try connection.runOnce() }
        guard library.pa_stream_get_state(raw) == PA_STREAM_READY else {
            throw AudioError(.deviceGone, "the \(what) was disconnected")
        }
    }

    /// Starts an operation without waiting for its reply: the next iteration reports a failure.
    func start(_ operation: OpaquePointer?) {
        if let operation { library.pa_operation_unref(operation) }
    }
}

private final class PulseInput: AudioInput {
    let format: AudioFormat
    private(set) var lostFrames: UInt64 = 0
    private let stream: PulseStream
    private let library: nearshare_pulse
    /// Bytes of the present fragment that were read.
    private var consumed = 0
    private var lastSound = SystemClock.monotonic()

    init(_ connection: PulseConnection, device: String?, format: AudioFormat) throws(AudioError) {
        self.format = format
        stream = try PulseStream(connection, format: format, what: "microphone")
        library = connection.library
        // Without a fragment size, sound arrives in bursts of up to two seconds. The longest queue that the server allows (over
        // a minute) bridges a slow disk.
        var attributes = pa_buffer_attr(
            maxlength: .max, tlength: .max, prebuf: .max, minreq: .max, fragsize: format.bytes(milliseconds: 20))
        // Not moved to another device: a disconnected microphone has to be distinguished from a silent one.
        let flags = pa_stream_flags_t(PA_STREAM_ADJUST_LATENCY.rawValue | PA_STREAM_DONT_MOVE.rawValue)
        try stream.waitUntilReady(library.pa_stream_connect_record(stream.raw, device, &attributes, flags), device: device)
    }

    func read(into buffer: UnsafeMutableBufferPointer<Int16>) throws(AudioError) -> AudioReading {
        if library.pa_stream_readable_size(stream.raw) == 0 { try stream.runOnce() }
        let byteCount = buffer.count / format.channels * format.bytesPerFrame
        guard let target = UnsafeMutableRawPointer(buffer.baseAddress) else { return .timedOut }
        var filled = 0
        while filled < byteCount {
            var bytes: UnsafeRawPointer?
            var count = 0
            guard library.pa_stream_peek(stream.raw, &bytes, &count) == 0 else {
                throw AudioError(.deviceGone, "the microphone cannot be read any more (\(stream.connection.reason))")
            }
            guard count > 0 else { break }
            let piece = min(count - consumed, byteCount - filled)
            if let bytes {
                (target + filled).copyMemory(from: bytes + consumed, byteCount: piece)
            } else {
                // A hole: the server's queue was full.
                memset(target + filled, 0, piece)
                lostFrames += UInt64(piece / format.bytesPerFrame)
            }
            filled += piece
            consumed += piece
            if consumed == count {
                _ = library.pa_stream_drop(stream.raw)
                consumed = 0
            }
        }
        if filled > 0 {
            lastSound = SystemClock.monotonic()
            return .frames(filled / format.bytesPerFrame)
        }
        // Servers keep the stream of a disconnected device without reporting it.
        guard SystemClock.monotonic() - lastSound < LinuxAudio.sampleTimeout else {
            throw AudioError(.deviceGone, "the microphone sends no sound any more")
        }
        return .timedOut
    }

    /// The stream is disconnected when this object is released.
    func close() {}
}

private final class PulseOutput: AudioOutput {
    let format: AudioFormat
    private let stream: PulseStream
    private let library: nearshare_pulse
    private var draining: OpaquePointer?

    init(_ connection: PulseConnection, device: String?, format: AudioFormat) throws(AudioError) {
        self.format = format
        stream = try PulseStream(connection, format: format, what: "loudspeaker")
        library = connection.library
        // Short, so that keys take effect immediately, but long enough for playback without gaps.
        var attributes = pa_buffer_attr(
            maxlength: .max, tlength: format.bytes(milliseconds: 200), prebuf: .max, minreq: .max, fragsize: .max)
        let flags = pa_stream_flags_t(
            PA_STREAM_ADJUST_LATENCY.rawValue | PA_STREAM_AUTO_TIMING_UPDATE.rawValue | PA_STREAM_INTERPOLATE_TIMING.rawValue)
        try stream.waitUntilReady(
            library.pa_stream_connect_playback(stream.raw, device, &attributes, flags, nil, nil), device: device)
    }

    deinit {
        if let draining { library.pa_operation_unref(draining) }
    }

    var pendingFrames: Int {
        var microseconds: pa_usec_t = 0
        var isNegative: Int32 = 0
        guard library.pa_stream_get_latency(stream.raw, &microseconds, &isNegative) == 0, isNegative == 0 else { return 0 }
        return Int(min(microseconds, 10_000_000)) * format.rate / 1_000_000
    }

    func write(_ samples: UnsafeBufferPointer<Int16>) throws(AudioError) -> Int {
        var writableByteCount = writable
        if writableByteCount == 0 {
            try stream.runOnce()
            writableByteCount = writable
        }
        let frames = min(writableByteCount / format.bytesPerFrame, samples.count / format.channels)
        guard frames > 0 else { return 0 }
        let code = library.pa_stream_write(
            stream.raw, samples.baseAddress, frames * format.bytesPerFrame, nil, 0, PA_SEEK_RELATIVE)
        guard code == 0 else {
            throw AudioError(.deviceGone, "the loudspeaker accepts no sound any more (\(stream.connection.reason))")
        }
        return frames
    }

    /// Free space in bytes; the library returns the largest number on failure.
    private var writable: Int {
        let size = library.pa_stream_writable_size(stream.raw)
        return size == .max ? 0 : size
    }

    func idle(until wakeup: EventFD) throws(AudioError) { try stream.runOnce(until: wakeup) }

    func setPaused(_ isPaused: Bool) throws(AudioError) {
        stream.start(library.pa_stream_cork(stream.raw, isPaused ? 1 : 0, nil, nil))
        try stream.runOnce()
    }

    func discard() throws(AudioError) {
        stream.start(library.pa_stream_flush(stream.raw, nil, nil))
        try stream.runOnce()
    }

    func drain() throws(AudioError) -> Bool {
        if draining == nil { draining = library.pa_stream_drain(stream.raw, nil, nil) }
        guard let operation = draining else { return true }
        if !stream.connection.isComplete(operation) { try stream.runOnce() }
        guard stream.connection.isComplete(operation) else { return false }
        library.pa_operation_unref(operation)
        draining = nil
        return true
    }

    func close() {}
}
