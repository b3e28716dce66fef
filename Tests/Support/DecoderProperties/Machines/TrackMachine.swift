import NearshareAudio
import NearshareBase
import NearshareInterfaces
import NearshareTesting

extension DecoderProperty {
    /// The packets of AAC in MP4 files whose fields lie, and in any bytes.
    static let aacTracks = Self(
        name: "aac-tracks",
        seeds: [
            [0, 3, 5, 1, 2, 3, 4, 5], [0, 4, 7, 1, 1, 2, 2, 1, 3, 1, 0, 1, 6, 9, 2, 2, 3, 1], [0, 2, 5, 1, 5, 1, 3, 5, 0],
            [1, 11, 0, 0xff, 0xf1, 0x60, 0x40, 0x01, 0x60, 0, 1, 2, 3, 4],
        ]
    ) { bytes throws(Violation) in
        var script = EventScript(bytes, maximumEventCount: 64)
        let isMP4 = script.number(below: 2) == 0
        let file = isMP4 ? TrackScript.file(&script) : script.bytes(upTo: 1 << 14)
        var readCount = 0
        let read = { (offset: UInt64, count: Int) throws(AudioError) -> [UInt8] in
            readCount += count
            guard offset < UInt64(file.count) else { return [] }
            return Array(file[Int(offset)...].prefix(count))
        }
        let size = UInt64(file.count)
        let track = isMP4 ? try? AACTrack(mp4OfSize: size, read: read) : try? AACTrack(adtsOfSize: size, read: read)
        try require(
            readCount <= 16 * 512 + 2 * file.count + 9 * file.count + 1 << 16, "\(readCount) bytes read of \(file.count)")
        guard let track else { return false }
        try require(!track.packets.isEmpty, "a track without packets")
        var sum = 0
        for packet in track.packets {
            try require(
                (1...AACTrack.maximumPacketByteCount).contains(packet.byteCount), "a packet of \(packet.byteCount) bytes")
            try require(packet.offset <= UInt64(file.count - packet.byteCount), "a packet at \(packet.offset) of \(file.count)")
            sum += packet.byteCount
        }
        try require(sum <= file.count, "packets of \(sum) bytes in \(file.count)")
        let summary = NoteSummary(track)
        // A packet of one byte lasts at most 128 ms, at 8,000 samples a second.
        try require(
            summary.duration >= .zero && summary.duration <= .milliseconds(128 * file.count), "\(summary.duration)")
        try require((1...2).contains(summary.channels), "\(summary.channels) channels")
        return true
    }
}

/// MP4 files composed by a script.
private enum TrackScript {
    static func file(_ script: inout EventScript) -> [UInt8] {
        let packetCount = script.number(below: 12)
        var builder = MP4Builder(
            (0..<packetCount).map { _ in [UInt8](repeating: 7, count: script.number(below: 40) * script.number(below: 6)) })
        var changes: [([UInt8]) -> [UInt8]] = []
        while let event = script.nextEvent(below: 10) {
            switch event {
            case 0: builder.endsWithTables.toggle()
            case 1: builder.hasLongOffsets.toggle()
            case 2: builder.chunks = (0..<script.number(below: 8)).map { _ in script.number(below: 12) }
            case 3: builder.fixedSize = script.number(below: 10_000)
            case 4: builder.shift = Int64(script.number(below: 256)) << Int64(script.number(below: 64))
            case 5: builder.configuration = script.bytes(upTo: 8)
            case 6: builder.created = UInt32(script.number(below: 256)) << 24
            case 7: builder.trackCount = script.number(below: 3)
            case 8:
                let (place, byte) = (script.number(below: 1 << 12), UInt8(script.number(below: 256)))
                changes.append { file in
                    var file = file
                    file[place % file.count] ^= byte
                    return file
                }
            default: builder.objectType = UInt8(script.number(below: 256))
            }
        }
        return changes.reduce(builder.file) { $1($0) }
    }
}
