package import NearshareBase

/// A message of a session, as a program sends and gets it.
public struct SessionMessage: Sendable, Hashable {
    /// Encoding of the content.
    public enum Kind: UInt8, Sendable, Hashable {
        /// Bytes in a format of the programs' own.
        case bytes = 0
        /// JSON, perhaps with binary parts.
        case structured = 1
    }

    /// Larger things are streams or resources.
    package static let maximumByteCount = 1 << 20

    /// Encoding of the content.
    public var kind: Kind
    /// At most ``maximumByteCount`` bytes.
    public var bytes: [UInt8]

    /// Puts a message together.
    public init(kind: Kind = .bytes, bytes: [UInt8]) {
        self.kind = kind
        self.bytes = bytes
    }
}

/// Reliable messages between two members of a session, in order, each delivered once, over whichever links the two have, one
/// after the other or at the same time (`docs/PROTOCOL.md`, section 12.4).
///
/// Messages are numbered. They are kept until the other side says that it has passed them on; on a new link it says first from
/// which number on they are to be sent again.
///
///     each link:   attached ── their resume ──► sending from there ── gone ──► (others go on)
///
/// A value that is told what came and asked what is to be sent.
package struct MessageChannel: Sendable {
    /// What may be under way to one member.
    package struct Limits: Sendable, Hashable {
        /// Bytes and messages that were sent and not yet passed on there; then ``hasRoom`` is false. More than these, which
        /// every receiver takes, does not count.
        package var unacknowledgedByteCount = 2 << 20
        /// Messages, however short.
        package var unacknowledgedCount = 4096

        /// What every receiver takes.
        package init() {}
    }

    /// Names a link of this channel.
    package struct LinkID: Sendable, Hashable {
        let number: UInt64
    }

    /// What has come of a frame.
    package enum Event: Sendable, Hashable {
        /// The next message, for the program.
        case message(SessionMessage)
        /// The other side has begun anew and knows nothing of before: what it had not passed on is lost.
        case restarted(lost: Int)
    }

    private struct Link {
        let id: LinkID
        /// Told to the other side already.
        var hasResumed = false
        /// The number of the next message to send on it; nil until the other side has said where to begin.
        var next: UInt64?
        /// The latest acknowledgement that went out on it.
        var acknowledged: UInt64
    }

    /// Drawn at random for this channel's life: a member that has begun anew is told apart by it.
    private let ownLife: UInt64
    private var theirLife: UInt64?
    private let limits: Limits
    /// In the order in which they came up; hardly ever more than two.
    private var links: [Link] = []
    private var lastLink: UInt64 = 0
    /// What is not acknowledged; the first has the number ``firstKept``.
    private var kept: [SessionMessage] = []
    private var keptStart = 0
    private var keptByteCount = 0
    private var firstKept: UInt64 = 0
    /// The number of the next message to come.
    private var expected: UInt64 = 0
    /// Messages that have been passed on to the program.
    private var passedOn: UInt64 = 0
    /// What was received and not passed on yet.
    private var waitingByteCount = 0
    /// What was passed on and is not acknowledged.
    private var owedByteCount = 0
    /// Messages from before the other side began anew that still wait, in front of all others.
    private var staleCount: UInt64 = 0
    /// What is owed waits no longer.
    private var isLate = false

    /// - Parameters:
    ///   - life: random, not 0.
    ///   - stale: what an earlier channel to the same member has received and not passed on yet. It fills this one's window.
    package init(life: UInt64, limits: Limits = Limits(), stale: [SessionMessage] = []) {
        ownLife = life
        self.limits = limits
        staleCount = UInt64(stale.count)
        waitingByteCount = stale.reduce(0) { $0 + $1.bytes.count + Self.overhead }
    }

    private var keptCount: Int { kept.count - keptStart }
    private var nextNumber: UInt64 { firstKept + UInt64(keptCount) }

    /// A further message may be appended.
    package var hasRoom: Bool {
        keptCount < min(limits.unacknowledgedCount, Self.window.unacknowledgedCount)
            && keptByteCount < min(limits.unacknowledgedByteCount, Self.window.unacknowledgedByteCount)
    }

    /// Everything that was appended has been passed on there.
    package var isEmpty: Bool { keptCount == 0 }

    // MARK: The program

    /// - Returns: the message's number, for ``isAcknowledged(_:)``.
    @discardableResult
    package mutating func append(_ message: SessionMessage) -> UInt64 {
        precondition(message.bytes.count <= SessionMessage.maximumByteCount)
        kept.append(message)
        keptByteCount += message.bytes.count + Self.overhead
        return nextNumber - 1
    }

    /// The other side has passed the message on to its program.
    package func isAcknowledged(_ number: UInt64) -> Bool { number < firstKept }

    /// The program has taken a message: the other side may send another.
    package mutating func notePassedOn(_ message: SessionMessage) {
        if staleCount > 0 {
            staleCount -= 1
        } else if passedOn < expected {
            passedOn += 1
            owedByteCount += message.bytes.count + Self.overhead
        }
        waitingByteCount = max(0, waitingByteCount - message.bytes.count - Self.overhead)
    }

    // MARK: Links

    private func place(of id: LinkID) -> Int? { links.firstIndex { $0.id == id } }

    /// The other side has said where to begin.
    private func hasBegun(_ id: LinkID) -> Bool { place(of: id).map { links[$0].next != nil } ?? false }

    /// A link has come up.
    package mutating func attach() -> LinkID {
        lastLink += 1
        let id = LinkID(number: lastLink)
        links.append(Link(id: id, acknowledged: 0))
        return id
    }

    /// A link is gone; what it carried and was not acknowledged goes over others.
    package mutating func detach(_ id: LinkID) {
        links.removeAll { $0.id == id }
    }

    private enum Due {
        case resume
        case message(UInt64)
        case acknowledgement
    }

    private func due(on id: LinkID) -> Due? {
        guard let link = place(of: id).map({ links[$0] }) else { return nil }
        guard link.hasResumed else { return .resume }
        guard let next = link.next, isPreferred(id) else { return nil }
        // What was acknowledged on another link meanwhile is skipped.
        let number = max(next, firstKept)
        if number < nextNumber { return .message(number) }
        guard passedOn > link.acknowledged else { return nil }
        let isMuch = passedOn - link.acknowledged >= Self.owedCount || owedByteCount >= Self.owedByteCount
        return isLate || isMuch ? .acknowledgement : nil
    }

    /// ``nextFrame(for:)`` has one.
    package func hasFrame(for id: LinkID) -> Bool { due(on: id) != nil }

    /// Something was passed on that the other side has not been told of. It waits for a message that can carry the news, but
    /// not for long: then ``acknowledgeSoon()`` is called.
    package var owesAcknowledgement: Bool {
        links.contains { $0.next != nil && isPreferred($0.id) && passedOn > $0.acknowledged }
    }

    /// What is owed is due now.
    package mutating func acknowledgeSoon() {
        isLate = true
    }

    /// The other side knows of everything but one message: whoever sent it waits for nothing else.
    package var isQuiet: Bool { keptCount <= 1 }

    /// The next frame for a link; nil when there is none for now. Messages go over the newest link that is ready.
    package mutating func nextFrame(for id: LinkID) -> [UInt8]? {
        switch due(on: id) {
        case .resume:
            links[place(of: id)!].hasResumed = true
            return Self.encode(Self.resumeType) { writer in
                writer.write(ownLife)
                writer.write(theirLife ?? 0)
                writer.write(expected)
            }
        case .message(let number):
            let message = kept[keptStart + Int(number - firstKept)]
            links[place(of: id)!].next = number + 1
            noteAcknowledged(on: id)
            return Self.encode(Self.messageType, reserving: message.bytes.count) { writer in
                writer.write(number)
                writer.write(passedOn)
                writer.write(message.kind.rawValue)
                writer.write(message.bytes)
            }
        case .acknowledgement:
            noteAcknowledged(on: id)
            return Self.encode(Self.acknowledgementType) { $0.write(passedOn) }
        case nil: return nil
        }
    }

    private mutating func noteAcknowledged(on id: LinkID) {
        links[place(of: id)!].acknowledged = passedOn
        owedByteCount = 0
        isLate = false
    }

    private func isPreferred(_ id: LinkID) -> Bool {
        !links.contains { $0.id.number > id.number && $0.next != nil }
    }

    /// Takes one frame that came over a link.
    package mutating func receive(_ frame: [UInt8], on id: LinkID) throws(MalformedInput) -> Event? {
        var reader = ByteReader(frame, of: "message")
        let type: UInt8 = try reader.readInteger()
        switch type {
        case Self.resumeType:
            let theirs: UInt64 = try reader.readInteger()
            let ours: UInt64 = try reader.readInteger()
            let next: UInt64 = try reader.readInteger()
            try reader.finish()
            return try resume(id, theirs: theirs, ours: ours, next: next)
        case Self.messageType:
            let number: UInt64 = try reader.readInteger()
            let upTo: UInt64 = try reader.readInteger()
            let kind: UInt8 = try reader.readInteger()
            let bytes = reader.readRemaining()
            guard bytes.count <= SessionMessage.maximumByteCount else {
                throw MalformedInput("message: it is longer than \(SessionMessage.maximumByteCount) bytes")
            }
            guard hasBegun(id) else { throw MalformedInput("message: before it was said where to begin") }
            try acknowledge(upTo: upTo)
            guard number <= expected else { throw MalformedInput("message: one is missing before it") }
            // Came over another link already.
            guard number == expected else { return nil }
            guard staleCount + expected - passedOn < UInt64(Self.window.unacknowledgedCount),
                waitingByteCount < Self.window.unacknowledgedByteCount
            else { throw MalformedInput("message: more than may wait") }
            expected += 1
            // Kinds that later versions add are passed over.
            guard let kind = SessionMessage.Kind(rawValue: kind) else {
                passedOn += 1
                isLate = true
                return nil
            }
            waitingByteCount += bytes.count + Self.overhead
            return .message(SessionMessage(kind: kind, bytes: Array(bytes)))
        case Self.acknowledgementType:
            let upTo: UInt64 = try reader.readInteger()
            try reader.finish()
            guard hasBegun(id) else { throw MalformedInput("message: before it was said where to begin") }
            try acknowledge(upTo: upTo)
            return nil
        default: return nil  // Of a later version.
        }
    }

    private mutating func resume(
        _ id: LinkID, theirs: UInt64, ours: UInt64, next: UInt64
    ) throws(MalformedInput) -> Event? {
        guard let place = place(of: id), links[place].next == nil else {
            throw MalformedInput("message: said twice where to begin")
        }
        var event: Event?
        if let known = theirLife, known != theirs {
            // Whoever was there has gone, and with it all it knew.
            event = .restarted(lost: keptCount)
            firstKept = nextNumber
            dropKept(keptCount)
            firstKept = 0
            staleCount += expected - passedOn
            (expected, passedOn, owedByteCount) = (0, 0, 0)
            links[place].acknowledged = 0
            // Those on which nothing was said yet may be of the new life.
            links.removeAll { $0.next != nil }
        }
        theirLife = theirs
        // What is passed on is told anew on each link.
        isLate = passedOn > 0
        if ours == ownLife {
            guard next <= nextNumber else { throw MalformedInput("message: what was never sent is expected after") }
            // It has come, but was not passed on: it fills the window there, and so it does here.
            links[self.place(of: id)!].next = next
        } else {
            // It knows nothing of us yet, or of somebody before us.
            links[self.place(of: id)!].next = firstKept
        }
        return event
    }

    private mutating func acknowledge(upTo number: UInt64) throws(MalformedInput) {
        guard number <= nextNumber else { throw MalformedInput("message: what was never sent is acknowledged") }
        guard number > firstKept else { return }
        dropKept(Int(number - firstKept))
        firstKept = number
    }

    private mutating func dropKept(_ count: Int) {
        for index in keptStart..<keptStart + count {
            keptByteCount -= kept[index].bytes.count + Self.overhead
            kept[index].bytes = []
        }
        keptStart += count
        // Moving what is left once in a while costs less than moving it each time.
        if keptStart == kept.count || keptStart > 1024, keptStart * 2 >= kept.count {
            kept.removeFirst(keptStart)
            keptStart = 0
        }
    }

    private static func encode(_ type: UInt8, reserving count: Int = 24, _ body: (inout ByteWriter) -> Void) -> [UInt8] {
        var writer = ByteWriter(reserving: count + 16)
        writer.write(type)
        body(&writer)
        return writer.bytes
    }

    private static let resumeType: UInt8 = 0
    private static let messageType: UInt8 = 1
    private static let acknowledgementType: UInt8 = 2
    /// What every receiver takes.
    private static let window = Limits()
    /// Acknowledged when it comes to so much, long before the other side would have to wait for it.
    private static let owedCount: UInt64 = 64
    private static let owedByteCount = window.unacknowledgedByteCount / 4
    /// What a message costs besides its bytes, so that many short ones are bounded too.
    private static let overhead = 64
}
