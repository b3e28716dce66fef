import NearshareBase
import NearshareMesh
import NearshareTesting

// The speed of encoding and decoding packets of the mesh, on one core: one line for each operation, the median of its rounds.

let clock = ContinuousClock()
let rounds = 7

/// - Parameters:
///   - count: how many packets `work` handles at a time.
///   - byteCount: how many bytes of frames these are.
func measure(_ name: String, packets count: Int, bytes byteCount: Int, _ work: () throws -> Void) rethrows {
    var speeds: [Double] = []
    for _ in 0..<rounds {
        let start = clock.now
        var times = 0
        repeat {
            try work()
            times += 1
        } while clock.now - start < .milliseconds(300)
        speeds.append(Double(times) / ((clock.now - start) / .seconds(1)))
    }
    let speed = speeds.sorted()[rounds / 2]
    let packets = Int(speed * Double(count) / 1000)
    let megabytes = Int(speed * Double(byteCount) / 1e6)
    print("\(name.padded(to: 44))\("\(packets)k packets/s".padded(to: 20))\(megabytes) MB/s")
}

extension String {
    func padded(to width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }
}

var random = SeededRandom(seed: 1)
let sender = PeerID(bytes: random.bytes(8))!
let recipient = PeerID(bytes: random.bytes(8))!
let id = MeshFragment.ID(bytes: random.bytes(8))!

/// A fragment of a private file, which is what most packets are: 500 bytes with its header.
let fragments = (0..<1000).map { index in
    MeshPacket(
        type: .fragment, timestamp: UInt64(index), sender: sender, recipient: recipient, payload: random.bytes(470)[...])
}
let frames = try fragments.map { try $0.encoded(compression: .none)[...] }
let byteCount = frames.reduce(0) { $0 + $1.count }
var checksum = 0

try measure("decode fragments of 500 bytes", packets: frames.count, bytes: byteCount) {
    for frame in frames { checksum &+= try MeshFrame(decoding: frame).packet.payload.count }
}
try measure("encode fragments of 500 bytes", packets: frames.count, bytes: byteCount) {
    for packet in fragments { checksum &+= try packet.encoded(compression: .none).count }
}
try measure("relay fragments of 500 bytes", packets: frames.count, bytes: byteCount) {
    for bytes in frames {
        let frame = try MeshFrame(decoding: bytes)
        checksum &+= frame.bytes(withTTL: frame.packet.ttl - 1).count
    }
}
let stream = Array(frames.joined())
measure("find frames in a stream, 64 KiB at a time", packets: frames.count, bytes: byteCount) {
    var accumulator = MeshFrameAccumulator()
    for start in stride(from: 0, to: stream.count, by: 65_536) {
        accumulator.append(stream[start..<min(stream.count, start + 65_536)])
        while case .frame(let frame) = accumulator.next() { checksum &+= frame.count }
    }
}

let file = MeshFile(
    name: "large", mediaType: "application/octet-stream", content: random.bytes(MeshFile.maximumContentByteCount)[...])
let payload = try file.encoded()
let whole = MeshPacket(
    version: .v2, type: .fileTransfer, timestamp: 1, sender: sender, recipient: recipient, payload: payload[...],
    signature: random.bytes(64))
// Fragments of 454 bytes, the size phones use, would exceed the number of fragments a receiver reassembles.
let chunk = MeshFragmentation.chunkByteCount(forLargestWrite: 1024)
let count = try MeshFragmentation(whole, frame: try whole.encoded(), id: id, chunkByteCount: chunk).count
try measure("encode and cut a file of 5 MiB into \(count)", packets: count, bytes: payload.count) {
    let cut = try MeshFragmentation(whole, frame: try whole.encoded(), id: id, chunkByteCount: chunk)
    for index in 0..<cut.count { checksum &+= try cut[index].encoded(compression: .none).count }
}
let cut = try MeshFragmentation(whole, frame: try whole.encoded(), id: id, chunkByteCount: chunk)
let pieces = try (0..<cut.count).map { try cut[$0].encoded(compression: .none)[...] }
try measure("decode its fragments and join them", packets: count, bytes: payload.count) {
    var joined: [UInt8] = []
    for piece in pieces { joined += try MeshFragment(decoding: try MeshFrame(decoding: piece).packet.payload).slice }
    checksum &+= try MeshFile(decoding: try MeshFrame(decoding: joined[...]).packet.payload).content.count
}
// Read, so that the compiler cannot omit the work.
precondition(checksum != 0)
