internal import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareInterfaces

/// The reading side of a link, on a thread of its own: performs the handshake, opens records in place, and passes control
/// frames to the machine, content to the sinks, and frames of streams and datagrams to their receivers.
struct LinkReader: Sendable {
    let link: any StreamLink
    let parameters: LinkDriver.Parameters
    let control: LinkControl
    let writer: LinkWriter
    let streams: LinkStreams
    let datagrams: LinkDatagrams
    private let pool = BlockPool(byteCount: receiveBlockByteCount, kept: 4)

    /// The state between two blocks, from which another thread can read on.
    private struct Reading: Sendable {
        var opener: RecordOpener
        var block: Block
        /// The first byte that belongs to no opened record.
        var position = 0
        var filled: Int
    }

    private typealias Batch = [(id: TransferID, pieces: [Piece])]

    /// Size of a receive buffer: more than a sender writes at once, and small enough for a processor's cache.
    private static let receiveBlockByteCount = 384 << 10

    init(
        link: any StreamLink, parameters: LinkDriver.Parameters, control: LinkControl, writer: LinkWriter, streams: LinkStreams,
        datagrams: LinkDatagrams
    ) {
        self.link = link
        self.parameters = parameters
        self.control = control
        self.writer = writer
        self.streams = streams
        self.datagrams = datagrams
    }

    /// Reads until the stream has ended or is of no more use; or, after the two threads have exchanged their tasks (``SinkPump``),
    /// until the transfer that this thread then stores has ended.
    func run() {
        switch performHandshake() {
        case .failure(let failure): finish(.handshake(failure))
        case .success(let established):
            begin(established)
            let block = pool.acquire()
            block.bytes.copyBytes(from: established.leftover)
            read(Reading(opener: established.opener, block: block, filled: established.leftover.count))
        }
    }

    private func read(_ reading: Reading) {
        if let pump = readRecords(reading) { pump.work() } else { finish(nil) }
    }

    /// Ends streams and transfers, and the link with them.
    /// - Parameter failure: the reason why there is no connection; nil when there was one.
    func finish(_ failure: LinkEnd?) {
        streams.close()
        datagrams.close()
        control.driver.update { machine, _ in machine.recordEndOfReading() }
        if let failure {
            control.fail(failure)
            link.finishWriting()
        } else {
            control.decide { connection, _ in connection.linkEnded() }
        }
    }

    // MARK: Handshake

    private func performHandshake() -> Result<EstablishedLink, HandshakeFailure> {
        var handshake = DirectHandshake(
            role: parameters.role, identity: parameters.identity, entropy: parameters.random(DirectHandshake.entropyByteCount),
            ciphers: parameters.ciphers, encryption: parameters.encryption)
        var buffer = [UInt8](repeating: 0, count: 2048)
        do {
            let first = try handshake.start()
            try write(first)
            while true {
                let count = try buffer.withUnsafeMutableBytes { (raw) throws(LinkError) in try link.read(into: raw) }
                guard count > 0 else { return .failure(interruption("the peer closed the connection during the handshake")) }
                switch handshake.receive(buffer[..<count]) {
                case .needsMoreBytes: break
                case .send(let bytes): try write(bytes)
                case .established(let established, let bytes):
                    try write(bytes)
                    return .success(established)
                case .failed(let failure, let bytes):
                    // The peer may have closed the link: the reason here stays.
                    try? write(bytes)
                    return .failure(failure)
                }
            }
        } catch let failure as HandshakeFailure {
            return .failure(failure)
        } catch {
            return .failure(interruption("the connection broke during the handshake"))
        }
    }

    /// The failure of a handshake whose link has ended. This side ends one that takes too long.
    /// - Parameter cause: of an earlier end.
    private func interruption(_ cause: String) -> HandshakeFailure {
        let isLate = control.driver.read { $0.isHandshakeLate }
        return .interrupted(isLate ? "the peer did not finish the handshake in time" : cause)
    }

    private func write(_ bytes: [UInt8]) throws(LinkError) {
        guard !bytes.isEmpty else { return }
        try bytes.withUnsafeBufferPointer { (raw) throws(LinkError) in try link.write(UnsafeRawBufferPointer(raw)) }
    }

    private func begin(_ established: EstablishedLink) {
        let connection = DirectConnection(
            ownName: parameters.name,
            authenticationString: ShortAuthenticationString(
                role: parameters.role, handshakeHash: established.handshakeHash,
                nonce: parameters.random(ShortAuthenticationString.nonceByteCount)),
            limits: parameters.limits, now: Moment(monotonic: parameters.clock(), wall: parameters.wallClock()))
        // The thread that keeps the link's time cannot end it while it waits for room in the send buffer.
        link.setSilenceTimeout(DirectLimits.idleTimeout)
        writer.begin(established.sealer)
        control.establish(
            connection, established.peer,
            HandshakeResult(
                version: established.version, handshakeHash: established.handshakeHash, datagrams: established.datagrams))
    }

    // MARK: Records

    /// - Returns: nil at the end of the stream; or the pump that this thread is to work for, because another one reads on.
    private func readRecords(_ start: Reading) -> SinkPump? {
        var reading = start
        do throws(LinkError) {
            while true {
                var batch: Batch = []
                do throws(MalformedInput) {
                    try receiveRecords(&reading, into: &batch)
                } catch {
                    // Records received before a malformed one are still delivered.
                    enqueue(batch)
                    control.closeForViolation(error)
                    drain()
                    return nil
                }
                if let pump = deliver(batch, reading) { return pump }
                batch = []
                makeRoom(in: &reading)
                let count = try link.read(into: UnsafeMutableRawBufferPointer(rebasing: reading.block.bytes[reading.filled...]))
                if count == 0 { return nil }
                reading.filled += count
                let now = parameters.clock()
                control.driver.withMachine { $0.recordActivity(byteCount: count, now: now) }
            }
        } catch {
            return nil
        }
    }

    /// Moves the unread rest to the front of a block. Delivered records may still be on their way to the disk: their block is
    /// filled up, and left to them then.
    private func makeRoom(in reading: inout Reading) {
        let rest = UnsafeRawBufferPointer(rebasing: reading.block.bytes[reading.position..<reading.filled])
        if !isKnownUniquelyReferenced(&reading.block) {
            guard reading.block.bytes.count - reading.filled < RecordFormat.maximumRecordByteCount else { return }
            let next = pool.acquire()
            next.bytes.copyMemory(from: rest)
            reading.block = next
        } else if reading.position > 0 {
            reading.block.bytes.copyMemory(from: rest)
        }
        (reading.position, reading.filled) = (0, rest.count)
    }

    /// Reads and discards bytes from the peer after the last frame: closing with unread data would reset the connection and
    /// lose the frame.
    private func drain() {
        let block = pool.acquire()
        do throws(LinkError) {
            while try link.read(into: block.bytes) > 0 {}
        } catch {}
    }

    /// Opens all complete records.
    /// - Parameter batch: receives the content that follows the last control frame.
    private func receiveRecords(_ reading: inout Reading, into batch: inout Batch) throws(MalformedInput) {
        let (block, filled) = (reading.block, reading.filled)
        while let length = try RecordOpener.recordByteCount(
            UnsafeRawBufferPointer(rebasing: block.bytes[reading.position..<filled])),
            reading.position + length <= filled
        {
            let start = reading.position
            reading.position += length
            let opened = try reading.opener.openInPlace(
                UnsafeMutableRawBufferPointer(rebasing: block.bytes[start..<reading.position]))
            let frame = start + opened.lowerBound..<start + opened.upperBound
            if block.bytes[frame.lowerBound] == FrameType.content {
                guard frame.count > RecordFormat.contentHeaderByteCount else {
                    throw MalformedInput("a content frame without content")
                }
                let raw = block.bytes.loadUnaligned(fromByteOffset: frame.lowerBound + 1, as: UInt64.self)
                let id = TransferID(rawValue: UInt64(bigEndian: raw))
                let piece = Piece(
                    block: block, range: frame.lowerBound + RecordFormat.contentHeaderByteCount..<frame.upperBound)
                guard isWanted(id, count: piece.range.count) else { continue }
                if batch.last?.id == id {
                    batch[batch.count - 1].pieces.append(piece)
                } else {
                    batch.append((id, [piece]))
                }
            } else if let stream = try StreamFrame(decoding: Array(block.bytes[frame])[...]) {
                try streams.receive(stream)
            } else if block.bytes[frame.lowerBound] == FrameType.datagram {
                try datagrams.receive(block.bytes[frame].dropFirst())
            } else if isOutsideSession(block.bytes[frame.lowerBound]) {
                continue
            } else if let session = try SessionFrame(decoding: Array(block.bytes[frame])[...]) {
                try control.receive(session)
            } else if let received = try ControlFrame.decode(Array(block.bytes[frame])) {
                enqueue(batch)
                batch = []
                if case .pong(let token) = received { streams.receivePong(token) }
                control.decide { connection, now in connection.receive(received, now: now) }
            }
        }
    }

    /// Whether a frame is of a kind that only members send, on an incoming link that has joined no session yet (Q2). Frames of the
    /// invitation pass.
    private func isOutsideSession(_ type: UInt8) -> Bool {
        let isOfMember =
            (FrameType.sessionRoster...FrameType.sessionDatagrams).contains(type) || type == FrameType.sessionLeaving
        return isOfMember && parameters.role == .responder && !streams.acceptsIncomingStreams
    }

    private func isWanted(_ id: TransferID, count: Int) -> Bool {
        var verdict = ContentVerdict.drop
        control.decide { connection, now in
            let answer = connection.receiveContent(id, byteCount: count, now: now)
            verdict = answer.verdict
            return answer.reactions
        }
        return verdict == .deliver
    }

    private func enqueue(_ batch: Batch) {
        for (id, pieces) in batch { control.transfers.sink(id)?.receive(pieces) }
    }

    /// Stores content of the only transfer on this thread; content of several is stored by a thread each.
    /// - Returns: the pump that this thread is to work for; nil when it is to read on.
    private func deliver(_ batch: Batch, _ reading: Reading) -> SinkPump? {
        guard batch.count == 1, let pump = control.transfers.onlySink(batch[0].id) else {
            enqueue(batch)
            return nil
        }
        return pump.storeOnReadingThread(batch[0].pieces) { read(reading) } ? nil : pump
    }
}
