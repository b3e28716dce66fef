package import NearshareInterfaces

/// Decodes the AAC sound of an MP4 or ADTS file in this process.
package final class AACReader: NoteSamples {
    package let format: AudioFormat
    private let file: NoteFile
    private let track: AACTrack
    private let decoder: AACDecoder
    private var nextPacket = 0
    /// Decoded samples that were not read yet.
    private var samples: [Int16] = []
    private var readSampleCount = 0
    /// Frames that are still to be decoded and dropped after a seek.
    private var framesToDrop = 0

    /// - Parameter mixesToMono: whether the samples have one channel, whatever the file has.
    package init(_ file: NoteFile, mixesToMono: Bool = false) throws(AudioError) {
        self.file = file
        do throws(AudioError) {
            track = try AACTrack(of: file)
            decoder = try AACDecoder(track.configuration, channels: mixesToMono ? 1 : track.configuration.channels)
        } catch {
            guard error.code == .damaged else { throw error }
            throw AudioError(.damaged, "\(shown(file.path)) cannot be decoded: \(error)")
        }
        guard let format = AudioFormat(rate: decoder.rate, channels: mixesToMono ? 1 : track.configuration.channels) else {
            throw AudioError(
                .damaged, "\(shown(file.path)) has \(decoder.rate) samples a second, which voice notes do not support")
        }
        self.format = format
    }

    package var frames: Int { track.packets.count * decoder.framesPerPacket }

    package var position: Int {
        let decoded = nextPacket * decoder.framesPerPacket - (samples.count - readSampleCount) / format.channels
        return min(max(0, decoded + framesToDrop), frames)
    }

    package func read(into buffer: UnsafeMutableBufferPointer<Int16>) throws(AudioError) -> Int {
        while readSampleCount == samples.count {
            guard nextPacket < track.packets.count else { return 0 }
            try decodeNextPacket()
        }
        let count = min(samples.count - readSampleCount, buffer.count / format.channels * format.channels)
        _ = buffer.update(fromContentsOf: samples[readSampleCount..<(readSampleCount + count)])
        readSampleCount += count
        return count / format.channels
    }

    package func seek(to frame: Int) throws(AudioError) {
        let target = min(max(0, frame), frames)
        // A packet is decoded with the one before it.
        nextPacket = max(0, target / decoder.framesPerPacket - 1)
        framesToDrop = target - nextPacket * decoder.framesPerPacket
        (samples, readSampleCount) = ([], 0)
        decoder.prepare(forPacket: nextPacket)
    }

    private func decodeNextPacket() throws(AudioError) {
        let packet = track.packets[nextPacket]
        samples.removeAll(keepingCapacity: true)
        readSampleCount = 0
        do throws(AudioError) {
            try decoder.decode(file.read(packet.byteCount, at: packet.offset), into: &samples)
        } catch {
            let seconds = nextPacket * track.configuration.framesPerPacket / track.configuration.rate
            throw AudioError(error.code, "\(shown(file.path)) is damaged after \(seconds) s: \(error)")
        }
        nextPacket += 1
        let dropped = min(framesToDrop, decoder.framesPerPacket)
        framesToDrop -= dropped
        readSampleCount = min(dropped * format.channels, samples.count)
    }
}
