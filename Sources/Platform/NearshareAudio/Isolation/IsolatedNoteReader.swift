package import NearshareInterfaces

/// Decodes a voice note in a worker without rights. Used by one thread.
package final class IsolatedNoteReader: NoteSamples {
    package let format: AudioFormat
    package let frames: Int
    private let worker: DecoderClient
    private var nextFrame = 0

    /// - Throws: for a file that is not a voice note, or that the decoder refuses.
    package init(_ file: NoteFile, by launcher: any WorkerLauncher) throws(AudioError) {
        let summary = try NoteSummary(of: file)
        worker = try DecoderClient(.decodeNote, file, channels: summary.channels, by: launcher)
        let rate = try worker.open(
            library: summary.codec == .opus ? ("libopusfile", "libopusfile0") : SoundFormat.aacLibrary)
        guard let format = AudioFormat(rate: rate, channels: summary.channels) else {
            throw AudioError(.damaged, "\(shown(file.path)) cannot be decoded: it has \(rate) samples a second")
        }
        self.format = format
        frames = summary.frames(at: rate)
    }

    package var position: Int { min(max(0, nextFrame), frames) }

    package func read(into buffer: UnsafeMutableBufferPointer<Int16>) throws(AudioError) -> Int {
        let (count, position) = try worker.read(into: buffer)
        nextFrame = position
        return count
    }

    package func seek(to frame: Int) throws(AudioError) { nextFrame = try worker.seek(to: frame) }

    /// The job ``WorkerJob/decodeNote``.
    package static let routine = WorkerRoutine { socket, file in
        // Loads the libraries, which the confined worker could not open later.
        let (hasOpus, hasAAC) = (AudioLibraries.opusfile != nil, AudioLibraries.faad != nil)
        let file = file.map { NoteFile(passed: $0) }
        let server = DecoderServer(socket: socket) { () throws(AudioError) in
            guard let file else { return nil }
            let isAAC = try SoundFormat(of: file).isAAC
            // nil: the library is missing.
            guard isAAC ? hasAAC : hasOpus else { return nil }
            let reader: any NoteSamples = isAAC ? try AACReader(file) : try NoteReader(file)
            return DecoderServer.Decoder(
                channels: reader.format.channels, rate: reader.format.rate,
                read: { (buffer) throws(AudioError) in try reader.read(into: buffer) },
                seek: { (frame) throws(AudioError) in try reader.seek(to: frame) }, position: { reader.position })
        }
        return { server.run() }
    }
}
