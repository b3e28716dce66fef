internal import NearshareInterfaces

/// The other end of a ``DecoderClient``, in the worker process.
struct DecoderServer {
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
        let buffer = UnsafeMutableBufferPointer<Int16>.allocate(capacity: DecoderMessage.maximumFrames * 2)
        while let (request, argument) = nextRequest() {
            do throws(AudioError) {
                if request == .open {
                    decoder = try open()
                    guard let decoder else {
                        reply(DecoderMessage.Reply.noLibrary, 0)
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
                    let sampleCount = min(max(0, Int(argument)), DecoderMessage.maximumFrames) * decoder.channels
                    count = try decoder.read(UnsafeMutableBufferPointer(rebasing: buffer[..<sampleCount]))
                }
                reply(Int32(count), Int64(decoder.position()))
                send(UnsafeRawBufferPointer(UnsafeBufferPointer(rebasing: buffer[..<(count * decoder.channels)])))
            } catch {
                reply(DecoderMessage.Reply.failed, 0)
                let text = Array(error.description.utf8.prefix(DecoderMessage.errorByteCount))
                let padding = [UInt8](repeating: 0, count: DecoderMessage.errorByteCount - text.count)
                (text + padding).withUnsafeBytes { send($0) }
            }
        }
    }

    private func nextRequest() -> (DecoderMessage.Request, Int64)? {
        var bytes = [UInt8](repeating: 0, count: DecoderMessage.requestByteCount)
        let count = try? bytes.withUnsafeMutableBytes { try DescriptorIO.read(into: $0, from: socket) }
        guard count == bytes.count, let request = DecoderMessage.Request(rawValue: bytes[0]) else { return nil }
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
