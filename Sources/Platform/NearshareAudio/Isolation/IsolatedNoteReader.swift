package import NearshareInterfaces

/// Decodes a voice note in a worker without rights. Used by one thread.
package final class IsolatedNoteReader: NoteSamples {
    package let format: AudioFormat
    package let frames: Int
    private let worker: DecoderClient
    private var next = 0

    /// - Throws: for a file that is not a voice note, or that libopusfile refuses.
    package init(_ file: NoteFile, by launcher: any WorkerLauncher) throws(AudioError) {
        let summary = try NoteSummary(of: file)
        guard let format = AudioFormat(rate: OpusHead.granulesPerSecond, channels: summary.head.channels) else {
            throw AudioError(.damaged, "a voice note has one or two channels")
        }
        self.format = format
        frames = Int(summary.granules)
        worker = try DecoderClient(.decodeNote, file, channels: format.channels, by: launcher)
        _ = try worker.open(library: ("libopusfile", "libopusfile0"))
    }

    package var position: Int { min(max(0, next), frames) }

    package func read(into buffer: UnsafeMutableBufferPointer<Int16>) throws(AudioError) -> Int {
        let (count, position) = try worker.read(into: buffer)
        next = position
        return count
    }

    package func seek(to frame: Int) throws(AudioError) { next = try worker.seek(to: frame) }

    /// The job ``WorkerJob/decodeNote``.
    package static let routine = WorkerRoutine { socket, file in
        let hasLibrary = AudioLibraries.opusfile != nil
        let file = file.map { NoteFile(passed: $0) }
        let server = DecoderServer(socket: socket) { () throws(AudioError) in
            guard hasLibrary, let file else { return nil }
            let reader = try NoteReader(file)
            return DecoderServer.Decoder(
                channels: reader.format.channels, rate: reader.format.rate,
                read: { (buffer) throws(AudioError) in try reader.read(into: buffer) },
                seek: { (frame) throws(AudioError) in try reader.seek(to: frame) }, position: { reader.position })
        }
        return { server.run() }
    }
}
