internal import NearshareBase
internal import NearshareDirect
internal import NearshareInterfaces

/// Determines the purpose of an incoming link from its first bytes.
enum LinkDemultiplexer {
    case direct(PrefixedLink)
    /// A mesh link, whose preambles are exchanged.
    case frames(any StreamLink)
    case nothing

    /// Reads the first bytes, and answers the preamble of a mesh link.
    /// - Parameters:
    ///   - acceptsFrames: false for a node without a mesh.
    ///   - timeout: closes the link when nothing arrives within this time (R5).
    ///   - onOpening: called as soon as the first bytes are read, on the thread that reads them.
    init(
        _ link: any StreamLink, acceptsFrames: Bool, timeout: Duration, onOpening: @escaping @Sendable () -> Void
    ) async {
        // Without a thread to read on, nothing is learned of it.
        let opening = try? await Self.limited(link, timeout) {
            let bytes = Self.readOpening(link)
            onOpening()
            // On the same thread: each further one makes a flood of links cost more.
            if acceptsFrames, let remote = Self.meshPreamble(bytes) {
                try? Self.write(Self.answer(to: remote).encoded, to: link)
            }
            return bytes
        }
        let bytes = opening ?? []
        if let remote = Self.meshPreamble(bytes) {
            let isCommon = Preamble.supportedMesh.newestInCommon(with: remote) != nil
            self = acceptsFrames && isCommon ? .frames(link) : .nothing
        } else {
            self = bytes.isEmpty ? .nothing : .direct(PrefixedLink(link, bytes))
        }
    }

    private static func meshPreamble(_ bytes: [UInt8]) -> Preamble? { try? Preamble(decoding: bytes[...], kind: .mesh) }

    /// Names the version to speak, or the supported ones where none is in common.
    private static func answer(to remote: Preamble) -> Preamble {
        guard let version = Preamble.supportedMesh.newestInCommon(with: remote) else { return .supportedMesh }
        return Preamble(kind: .mesh, newest: version, oldest: version)
    }

    /// Sends the local preamble on an outgoing mesh link, and checks the peer's preamble.
    static func openFrames(_ link: any StreamLink, timeout: Duration) async throws(NodeError) {
        let answer: [UInt8]
        do {
            answer = try await limited(link, timeout) {
                guard (try? write(Preamble.supportedMesh.encoded, to: link)) != nil else { return [] }
                return readExactly(Preamble.byteCount, from: link)
            }
        } catch {
            throw NodeError(error)
        }
        guard let preamble = try? Preamble(decoding: answer[...], kind: .mesh) else {
            throw .connectionLost(
                "the peer at \(link.remote) does not accept mesh links, or has too many connections of this address")
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

    /// Reads as few bytes as needed: the four-byte magic of a mesh link, or fewer bytes that are no prefix of it.
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

    /// - Returns: an empty array at the end, or when the link broke.
    private static func read(upTo count: Int, from link: any StreamLink) -> [UInt8] {
        withUnsafeTemporaryAllocation(byteCount: count, alignment: 1) { buffer in
            let count = (try? link.read(into: buffer)) ?? 0
            return Array(buffer[..<count])
        }
    }

    /// Runs blocking code on the link, which is closed at the timeout.
    private static func limited(
        _ link: any StreamLink, _ timeout: Duration, _ body: @escaping @Sendable () -> [UInt8]
    ) async throws(ThreadError) -> [UInt8] {
        let result: Result<[UInt8], ThreadError> = await withTaskCancellationHandler {
            await withTaskGroup(of: Result<[UInt8], ThreadError>?.self) { group in
                group.addTask {
                    do throws(ThreadError) {
                        return .success(try await BlockingThread.run(body))
                    } catch {
                        return .failure(error)
                    }
                }
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
                return .success([])
            }
        } onCancel: {
            link.close()
        }
        return try result.get()
    }
}

/// A link with bytes that were read in advance.
final class PrefixedLink: StreamLink {
    let link: any StreamLink
    let bytes: [UInt8]
    private let position = Monitor(0)

    init(_ link: any StreamLink, _ bytes: [UInt8]) {
        self.link = link
        self.bytes = bytes
    }

    var remote: LinkAddress { link.remote }
    var remoteHost: String? { link.remoteHost }
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
    var unacknowledgedByteCount: Int? { link.unacknowledgedByteCount }
    func setSilenceTimeout(_ timeout: Duration) { link.setSilenceTimeout(timeout) }
    func close() { link.close() }
}
