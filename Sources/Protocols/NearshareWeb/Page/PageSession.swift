internal import NearshareBase
internal import NearshareCrypto
internal import NearshareHTTP

/// The session of one browser that has the page's key: at most one offer, or one request for what the node sends, at a time.
///
///     idle ──offer──► waiting ──accepted──► receiving ──all chunks──► storing ──► stored
///                        │                      └── cancelled, failed ──┘
///     idle ──request──► waiting ──accepted──► sending ──all items received──► stored
///                        │                      └── cancelled, failed
///                        └── declined, cancelled, expired, not asked
///
/// An offer or request may follow each end. The number of its first message identifies it in this process. A browser that has
/// loaded the page again repeats its offer, whose content goes on where it was under the number of the new message.
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
        case sending = 9
        /// The user is not asked, because there were too many questions.
        case notAsked = 10
    }

    let keys: PageKeys
    /// The numeric address of the browser that began the session.
    let host: String
    private(set) var phase = Phase.idle
    /// The number of the current offer or request: that of its first message.
    private(set) var firstMessageNumber: UInt32 = 0
    /// The number of the message that has offered the current content last.
    private var latestOfferMessageNumber: UInt32 = 0
    private var offer: PageOffer?
    /// The items that the browser has.
    private(set) var received: Set<UInt32> = []
    /// The chunks of each item that the browser has fetched.
    private var fetched: [UInt32: FetchedChunks] = [:]
    /// Counts changes of the state, so that a browser can wait for the next one.
    private(set) var version: UInt32 = 0
    /// The time of the last authentic record.
    private(set) var lastUse: MonotonicInstant
    private var lastMessage: UInt32 = 0
    private var chunks: ChunkWindow?
    private var recordCount: UInt64 = 0

    init(keys: PageKeys, host: String, now: MonotonicInstant) {
        (self.keys, self.host) = (keys, host)
        lastUse = now
    }

    /// Whether an offer or a request is being decided about, or its content is being transferred.
    var isActive: Bool {
        switch phase {
        case .waiting, .receiving, .storing, .sending: true
        case .idle, .stored, .declined, .cancelled, .failed, .expired, .notAsked: false
        }
    }

    /// The sealed state. Each sealed state has a number of its own; the browser ignores one that is older than another it has
    /// seen.
    mutating func sealedState(named name: DisplayName, _ mode: PageMachine.Mode) -> [UInt8] {
        var state = ByteWriter()
        state.write(version)
        state.write(phase.rawValue)
        state.write(latestOfferMessageNumber)
        state.write(chunks?.next ?? 0)
        state.write(lastMessage)
        state.write(mode.rawValue)
        // Bounded: a display name has at most 63 bytes.
        state.writeCounted(name.claimed.utf8, by: UInt8.self)
        return keys.seal(state.bytes, .state, number: nextRecordNumber())
    }

    /// The number of the next record of the node.
    mutating func nextRecordNumber() -> UInt64 {
        recordCount += 1
        return recordCount
    }

    // MARK: Records of the browser

    /// Receives a message: its number and the sealed content.
    /// - Returns: nil for one without a consequence: a repetition, whose first reply was lost, or a cancel that comes too late.
    mutating func receiveMessage(
        _ record: [UInt8], _ mode: PageMachine.Mode, now: MonotonicInstant
    ) throws(HTTPStatus) -> PageMessage? {
        guard let number = UInt32(bigEndianBytes: record.prefix(4)) else { throw .badRequest }
        guard let bytes = try? keys.open(record.dropFirst(4), .message, first: 0, second: number) else { throw .forbidden }
        lastUse = now
        if number <= lastMessage { return nil }
        // The number is used up, whatever the message is: the browser seals no other one under it. One that was lost while the
        // page was loaded again leaves a gap.
        lastMessage = number
        guard let message = try? PageMessage(decoding: bytes) else { throw .badRequest }
        switch (message, mode) {
        case (.offer(let offer), .nodeReceives):
            if isActive {
                guard offer == self.offer else { throw .conflict }
                latestOfferMessageNumber = number
                enter(phase)
                return nil
            }
            (firstMessageNumber, latestOfferMessageNumber, self.offer) = (number, number, offer)
            chunks = ChunkWindow(totalSize: offer.totalSize)
            enter(.waiting)
        case (.request, .nodeSends):
            guard !isActive else { throw .conflict }
            (firstMessageNumber, latestOfferMessageNumber, received, fetched) = (number, number, [], [:])
            enter(.waiting)
        // A browser has nothing that it was not given.
        case (.received(let item), .nodeSends):
            guard phase == .sending, received.contains(item) || fetched[item]?.isComplete == true else { throw .conflict }
        case (.cancel, _):
            // All content is here, or there is nothing to cancel.
            guard isActive, phase != .storing else { return nil }
            enter(.cancelled)
        case (.offer, .nodeSends), (.request, .nodeReceives), (.received, .nodeReceives): throw .conflict
        }
        return message
    }

    /// Receives a sealed chunk of the current offer's content.
    /// - Parameter number: the number of the message that has offered the content last.
    /// - Returns: content in order.
    mutating func receiveChunk(
        _ sealed: [UInt8], ofContent number: UInt32, at index: UInt32, now: MonotonicInstant
    ) throws(HTTPStatus) -> [[UInt8]] {
        // Content before consent, after the end or of another offer is never opened (A1, A2).
        guard number == latestOfferMessageNumber, phase == .receiving || phase == .storing || phase == .stored,
            chunks?.expects(index) == true
        else { throw .conflict }
        guard let chunk = try? keys.open(sealed[...], .chunk, first: number, second: index) else { throw .forbidden }
        lastUse = now
        guard phase == .receiving else { return [] }
        guard case .content(let content)? = chunks?.receive(chunk, at: index) else { throw .conflict }
        if chunks?.isComplete == true { enter(.storing) }
        return content
    }

    /// Checks the record with which a browser fetches content: an eavesdropper cannot ask for what it has not seen.
    mutating func receiveFetch(
        _ sealed: [UInt8], of item: UInt32, at index: UInt32, now: MonotonicInstant
    ) throws(HTTPStatus) {
        guard phase == .sending else { throw .conflict }
        guard (try? keys.open(sealed[...], .fetch, first: item, second: index)) != nil else { throw .forbidden }
        lastUse = now
    }

    // MARK: From the local node

    /// Records that the response to a fetch of a request has the content.
    /// - Parameter isLast: whether the item ends with this chunk.
    mutating func recordFetch(_ index: UInt32, of item: UInt32, in request: UInt32, isLast: Bool) {
        guard request == firstMessageNumber, phase == .sending else { return }
        fetched[item, default: FetchedChunks()].insert(index, isLast: isLast)
    }

    /// - Returns: false when the offer or request is over already.
    mutating func accept(_ offer: UInt32, _ mode: PageMachine.Mode) -> Bool {
        guard offer == firstMessageNumber, phase == .waiting else { return false }
        enter(mode == .nodeSends ? .sending : chunks?.isComplete == true ? .storing : .receiving)
        return true
    }

    /// The effect of a report that an item was received.
    enum ItemReceipt: Sendable {
        /// All of the item was received, and others are missing.
        case received
        /// All items were received.
        case lastReceived
        /// The item was recorded before, or nothing is being sent.
        case repeated
    }

    /// Records that the browser has received all of an item.
    /// - Parameter count: the number of all items.
    mutating func markReceived(_ item: UInt32, of count: Int) -> ItemReceipt {
        guard phase == .sending, received.insert(item).inserted else { return .repeated }
        guard received.count == count else {
            enter(.sending)
            return .received
        }
        enter(.stored)
        return .lastReceived
    }

    mutating func end(_ offer: UInt32, _ phase: Phase) {
        guard offer == firstMessageNumber, isActive else { return }
        enter(phase)
    }

    private mutating func enter(_ phase: Phase) {
        self.phase = phase
        version &+= 1
    }
}

/// The chunks of an item that a browser has fetched, in any order.
private struct FetchedChunks: Sendable {
    private var indexes = RangeSet<UInt64>()
    /// The number of chunks; nil until the last one is fetched.
    private var count: UInt64?

    var isComplete: Bool { count.map { indexes == RangeSet(0..<$0) } ?? false }

    mutating func insert(_ index: UInt32, isLast: Bool) {
        let end = UInt64(index).addingClamped(1)
        indexes.insert(contentsOf: UInt64(index)..<end)
        if isLast { count = end }
    }
}
