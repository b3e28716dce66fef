package import NearshareInterfaces

/// A WAV, FLAC, M4A or other sound file as input, decoded in a worker without rights.
package final class IsolatedSoundFileInput: AudioInput {
    package let format: AudioFormat
    package var lostFrames: UInt64 { 0 }
    private let worker: DecoderClient

    /// - Throws: for a format that neither libsndfile nor libfaad2 supports, and for rates outside ``AudioFormat/rates``.
    package init(_ file: NoteFile, by launcher: any WorkerLauncher) throws(AudioError) {
        let library = try SoundFormat(of: file).isAAC ? SoundFormat.aacLibrary : ("libsndfile", "libsndfile1")
        worker = try DecoderClient(.decodeSoundFile, file, channels: 1, by: launcher)
        let rate = try worker.open(library: library)
        guard let format = AudioFormat(rate: rate, channels: 1) else {
            throw AudioError(.damaged, "\(shown(file.path)) has \(rate) samples a second, which voice notes do not support")
        }
        self.format = format
    }

    package func read(into buffer: UnsafeMutableBufferPointer<Int16>) throws(AudioError) -> AudioReading {
        let (count, _) = try worker.read(into: buffer)
        return count > 0 ? .frames(count) : .end
    }

    package func close() {}

    /// The job ``WorkerJob/decodeSoundFile``.
    package static let routine = WorkerRoutine { socket, file in
        let (hasLibrary, hasAAC) = (AudioLibraries.sndfile != nil, AudioLibraries.faad != nil)
        let file = file.map { NoteFile(passed: $0) }
        let server = DecoderServer(socket: socket) { () throws(AudioError) in
            guard let file else { return nil }
            let isAAC = try SoundFormat(of: file).isAAC
            guard isAAC ? hasAAC : hasLibrary else { return nil }
            if isAAC {
                let reader = try AACReader(file, mixesToMono: true)
                return DecoderServer.Decoder(
                    channels: 1, rate: reader.format.rate,
                    read: { (buffer) throws(AudioError) in try reader.read(into: buffer) },
                    seek: { _ in }, position: { 0 })
            }
            let input = try SoundFileInput(file)
            return DecoderServer.Decoder(
                channels: 1, rate: input.format.rate,
                read: { (buffer) throws(AudioError) in
                    if case .frames(let count) = try input.read(into: buffer) { return count }
                    return 0
                }, seek: { _ in }, position: { 0 })
        }
        return { server.run() }
    }
}
