internal import CNearshareAudio
internal import NearshareInterfaces

/// Decodes packets of AAC with libfaad2. Used by one thread.
final class AACDecoder {
    /// Frames a second of the decoded samples: those of the configuration, or twice as many with SBR.
    let rate: Int
    /// Frames of a decoded packet.
    let framesPerPacket: Int
    private let channels: Int
    private let library: nearshare_faad
    private let handle: NeAACDecHandle

    /// - Parameter channels: of the samples; one or two, into which those of the file are mixed.
    init(_ configuration: AACConfiguration, channels: Int) throws(AudioError) {
        guard let library = AudioLibraries.faad, let handle = library.NeAACDecOpen() else {
            throw AudioLibraries.missing(SoundFormat.aacLibrary.name, package: SoundFormat.aacLibrary.package)
        }
        self.library = library
        self.handle = handle
        self.channels = channels
        let settings = library.NeAACDecGetCurrentConfiguration(handle)
        settings?.pointee.outputFormat = UInt8(FAAD_FMT_16BIT)
        // Mixes surround sound into two channels.
        settings?.pointee.downMatrix = 1
        _ = library.NeAACDecSetConfiguration(handle, settings)
        var bytes = configuration.bytes
        var outputRate: UInt = 0
        var outputChannels: UInt8 = 0
        let result = library.NeAACDecInit2(handle, &bytes, UInt(bytes.count), &outputRate, &outputChannels)
        rate = Int(clamping: outputRate)
        framesPerPacket = configuration.framesPerPacket * (rate == 2 * configuration.rate ? 2 : 1)
        guard result == 0, [configuration.rate, 2 * configuration.rate].contains(rate) else {
            // All properties are set, so deinit releases the handle.
            throw AudioError(.damaged, "its AAC sound is of a kind that is not supported")
        }
    }

    deinit { library.NeAACDecClose(handle) }

    /// Decodes the next packet.
    /// - Parameter samples: the frames are appended to it.
    func decode(_ packet: [UInt8], into samples: inout [Int16]) throws(AudioError) {
        var packet = packet
        var info = NeAACDecFrameInfo()
        let output = library.NeAACDecDecode(handle, &info, &packet, UInt(packet.count))
        guard info.error == 0 else {
            let reason = library.NeAACDecGetErrorMessage(info.error).map { String(cString: $0) } ?? "code \(info.error)"
            throw AudioError(.damaged, "its AAC sound is damaged (\(shown(reason).lowercased()))")
        }
        let decodedChannels = Int(info.channels)
        // The first packet may give no samples.
        guard let output, decodedChannels > 0, info.samples > 0 else { return }
        guard info.samplerate == UInt(rate), Int(info.samples) == framesPerPacket * decodedChannels else {
            throw AudioError(.damaged, "its AAC sound changes its rate")
        }
        let decoded = UnsafeBufferPointer(
            start: output.assumingMemoryBound(to: Int16.self), count: Int(info.samples))
        append(decoded, channels: decodedChannels, to: &samples)
    }

    /// Prepares for a packet that does not follow the last one.
    func prepare(forPacket index: Int) { library.NeAACDecPostSeekReset(handle, index) }

    private func append(_ decoded: UnsafeBufferPointer<Int16>, channels decodedChannels: Int, to samples: inout [Int16]) {
        guard decodedChannels != channels else {
            samples.append(contentsOf: decoded)
            return
        }
        // libfaad2 gives two channels for one, as SBR may make two of it.
        for frame in stride(from: 0, to: decoded.count, by: decodedChannels) {
            let sum = decoded[frame..<(frame + decodedChannels)].reduce(0) { $0 + Int($1) }
            let mixed = Int16(sum / decodedChannels)
            for _ in 0..<channels { samples.append(mixed) }
        }
    }
}
