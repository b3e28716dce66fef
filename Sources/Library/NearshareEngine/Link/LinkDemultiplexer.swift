internal import NearshareBase
internal import NearshareDirect
internal import NearshareInterfaces

/// Finds out by its first bytes what a stranger's link is for.
enum LinkDemultiplexer {
    case direct(any StreamLink)
    /// Their preamble has been read; ours is due.
    case frames(any StreamLink, Preamble)
    case nothing

    /// - Parameter timeout: a stranger who is silent for so long is let go (R5).
    init(_ link: any StreamLink, timeout: Duration) async {
        let bytes = await Self.limited(link, timeout) { Self.readOpening(link) }
        guard bytes.count == Preamble.byteCount, let preamble = try? Preamble(decoding: bytes[...], kind: .mesh) else {
            self = bytes.isEmpty ? .nothing : .direct(PrefixedLink(link, bytes))
            return
        }
        self = .frames(link, preamble)
    }

    /// Says what we speak on a link that we have opened for frames, and hears the answer.
    static func openFrames(_ link: any StreamLink, timeout: Duration) async throws(NodeError) {
        let answer = await limited(link, timeout) {
            guard (try? write(Preamble.supportedMesh.encoded, to: link)) != nil else { return [] }
            return readExactly(Preamble.byteCount, from: link)
        }
        guard let preamble = try? Preamble(decoding: answer[...], kind: .mesh) else {
            throw .connectionLost("whoever answers at \(link.remote) does not carry frames of the mesh")
        }
        guard Preamble.supportedMesh.newestInCommon(with: preamble) != nil else {
            throw .incompatible("the mesh at \(link.remote) speaks \(preamble.shown); update the older of the two")
        }
    }

    static func write(_ bytes: [UInt8], to link: any StreamLink) throws(LinkError) {
        var failure: LinkError?
        bytes.withUnsafeBytes { bytes in
            do throws(LinkError) { try link.write(bytes) } catch { failure = error }
        }
        if let failure { throw failure }
    }

    /// Reads as few bytes as decide: the four of the magic of a frame link, or fewer that are no prefix of it.
    private static func readOpening(_ link: any StreamLink) -> [UInt8] {
        let magic = Preamble.Kind.mesh.magic
        var bytes: [UInt8] = []
        while bytes.count < Preamble.byteCount {
            let wanted = bytes.count < magic.count ? magic.count : Preamble.byteCount
            let more = read(upTo: wanted - bytes.count, from: link)
            bytes += more
            let isFrames = bytes.prefix(magic.count).elementsEqual(magic.prefix(bytes.count))
            if more.isEmpty || !isFrames { return bytes }
        }
        return bytes
    }

    private static func readExactly(_ count: Int, from link: any StreamLink) -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            let more = read(upTo: count - bytes.count, from: link)
            if more.isEmpty { return bytes }
            bytes += more
        }
        return bytes
    }

    /// - Returns: nothing at the end, or when the link broke.
    private static func read(upTo count: Int, from link: any StreamLink) -> [UInt8] {
        withUnsafeTemporaryAllocation(byteCount: count, alignment: 1) { buffer in
            let count = (try? link.read(into: buffer)) ?? 0
            return Array(buffer[..<count])
        }
    }

    /// Runs blocking code on the link, which is cut when it takes too long.
    private static func limited(
        _ link: any StreamLink, _ timeout: Duration, _ body: @escaping @Sendable () -> [UInt8]
    ) async -> [UInt8] {
        await withTaskCancellationHandler {
            await withTaskGroup(of: [UInt8]?.self) { group in
                group.addTask { await BlockingThread.run(body) }
                group.addTask {
                    try? await Task.sleep(for: timeout)
                    if !Task.isCancelled { link.close() }
                    return nil
                }
                for await result in group {
                    guard let result else { continue }
                    group.cancelAll()
                    return result
                }
                return []
            }
        } onCancel: {
            link.close()
        }
    }
}

/// A link of which some bytes have been read already.
private final class PrefixedLink: StreamLink {
    private let link: any StreamLink
    private let bytes: [UInt8]
    private let position = Monitor(0)

    init(_ link: any StreamLink, _ bytes: [UInt8]) {
        self.link = link
        self.bytes = bytes
    }

    var remote: LinkAddress { link.remote }
    var localHost: String? { link.localHost }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws(LinkError) -> Int {
        let replayed = position.withLock { position in
            let count = min(buffer.count, bytes.count - position)
            buffer.copyBytes(from: bytes[position..<position + count])
            position += count
            return count
        }
        return replayed > 0 ? replayed : try link.read(into: buffer)
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(LinkError) { try link.write(bytes) }
    func writeWithoutBlocking(_ bytes: UnsafeRawBufferPointer) throws(LinkError) -> Int { try link.writeWithoutBlocking(bytes) }
    func finishWriting() { link.finishWriting() }
    func close() { link.close() }
}
