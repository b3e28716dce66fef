internal import NearshareBase
internal import NearshareCrypto

/// The session of one browser that has the page's key: at most one offer at a time.
///
///     idle ──offer──► waiting ──accepted──► receiving ──all chunks──► storing ──► stored
///                        └─────────┴──────────────┴── declined, cancelled, failed
///
/// An offer may follow each end.
struct PageSession: Sendable {
    /// The states that the browser shows. The raw values are those of the wire format.
    enum Phase: UInt8, Sendable {
        case idle = 0
        case waiting = 1
        case receiving = 2
        case storing = 3
        case stored = 4
        case declined = 5
        case cancelled = 6
        case failed = 7
        case expired = 8
    }

    let keys: PageKeys
    /// The numeric address of the browser that began the session.
    let host: String
    private(set) var phase = Phase.idle
    /// The number of the present offer: that of its message.
    private(set) var offerNumber: UInt32 = 0
    /// Counts changes of the state, so that a browser can wait for the next one.
    private(set) var version: UInt32 = 0
    /// The time of the last authentic record.
    private(set) var lastUse: MonotonicInstant
    private var lastMessage: UInt32 = 0
    private var chunks: ChunkWindow?
    private var stateCount: UInt64 = 0

    init(keys: PageKeys, host: String, now: MonotonicInstant) {
        (self.keys, self.host) = (keys, host)
        lastUse = now
    }

    /// Whether an offer is being decided about or received.
    var isBusy: Bool {
        switch phase {
        case .waiting, .receiving, .storing: true
        case .idle, .stored, .declined, .cancelled, .failed, .expired: false
        }
    }

    /// The sealed state. Each has a number of its own; the browser ignores one that is older than another it has seen.
    mutating func sealedState(named name: DisplayName) -> [UInt8] {
        stateCount += 1
        var state = ByteWriter()
        state.write(version)
        state.write(phase.rawValue)
        state.write(offerNumber)
        state.write(chunks?.next ?? 0)
        state.write(lastMessage)
        // Bounded: a display name has at most 63 bytes.
        state.writeCounted(name.claimed.utf8, by: UInt8.self)
        var record = ByteWriter()
        record.write(stateCount)
        record.write(keys.seal(state: state.bytes, number: stateCount))
        return record.bytes
    }

    // MARK: Records of the browser

    /// Receives a message: its number and the sealed content.
    /// - Returns: nil for a repetition, whose first reply was lost.
    mutating func receiveMessage(_ record: [UInt8], now: MonotonicInstant) throws(HTTPStatus) -> PageMessage? {
        guard let number = UInt32(bigEndianBytes: record.prefix(4)) else { throw .badRequest }
        guard let bytes = try? keys.open(record.dropFirst(4), .message, 0, number) else { throw .forbidden }
        lastUse = now
        if number <= lastMessage { return nil }
        guard number == lastMessage.addingReportingOverflow(1).partialValue else { throw .conflict }
        // The number is used up, whatever the message is: the browser seals no other one under it.
        lastMessage = number
        guard let message = try? PageMessage(decoding: bytes) else { throw .badRequest }
        if case .offer = message, isBusy { throw .conflict }
        switch message {
        case .offer(let offer):
            offerNumber = number
            chunks = ChunkWindow(totalSize: offer.totalSize)
            enter(.waiting)
        case .cancel: if isBusy, phase != .storing { enter(.cancelled) }
        }
        return message
    }

    /// Receives a sealed chunk of the present offer's content.
    /// - Returns: content in order.
    mutating func receiveChunk(
        _ sealed: [UInt8], of offer: UInt32, at index: UInt32, now: MonotonicInstant
    ) throws(HTTPStatus) -> [[UInt8]] {
        // Content before consent, after the end or of another offer is never opened (A1, A2).
        guard offer == offerNumber, phase == .receiving || phase == .storing || phase == .stored, chunks?.expects(index) == true
        else { throw .conflict }
        guard let chunk = try? keys.open(sealed[...], .chunk, offer, index) else { throw .forbidden }
        lastUse = now
        guard phase == .receiving else { return [] }
        guard case .content(let content)? = chunks?.receive(chunk, at: index) else { throw .conflict }
        if chunks?.isComplete == true { enter(.storing) }
        return content
    }

    // MARK: From the local node

    /// - Returns: false when the offer is over already.
    mutating func accept(_ offer: UInt32) -> Bool {
        guard offer == offerNumber, phase == .waiting else { return false }
        enter(chunks?.isComplete == true ? .storing : .receiving)
        return true
    }

    mutating func end(_ offer: UInt32, _ phase: Phase) {
        guard offer == offerNumber, isBusy else { return }
        enter(phase)
    }

    private mutating func enter(_ phase: Phase) {
        self.phase = phase
        version &+= 1
    }
}
