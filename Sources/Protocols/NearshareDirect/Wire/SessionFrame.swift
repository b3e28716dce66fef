package import NearshareBase

/// The frames that members of a session exchange besides messages, streams and transfers.
package enum SessionFrame: Sendable, Hashable {
    /// Limit on the context of an invitation.
    package static let maximumContextByteCount = 1024
    /// The size of the proof of a shared secret, and of a share.
    package static let proofByteCount = 32
    /// Limit on the entries of a roster, members that are gone included.
    package static let maximumRosterCount = 64
    /// Upper bound that the invited peer applies to the timeout.
    package static let maximumTimeout = Duration.seconds(600)

    /// Invites a peer to the session; between members, attaches a new link to the session.
    /// - Parameters:
    ///   - timeout: The time for which an answer is awaited, in whole seconds on the wire.
    ///   - proof: The proof of a shared secret, ``proofByteCount`` bytes; empty without one.
    ///   - context: Bytes for the program at the invited peer.
    case invite(SessionID, timeout: Duration, proof: [UInt8], context: [UInt8])
    /// Accepts the invitation, or attaches the link to the session.
    case accept(SessionID)
    /// Refuses the invitation.
    case refuse(SessionID, SessionRefusal)
    /// Withdraws the invitation.
    case withdraw(SessionID)
    /// The sender's roster.
    case roster(SessionID, [SessionMember])
    /// The sender leaves the session.
    case leave(SessionID)
    /// The sender is about to leave the session, and waits for the answer; or, as the answer (`isDone`), has sent what its program had
    /// finished (``LinkDeparture``).
    case leaving(SessionID, isDone: Bool)
    /// The sender's UDP port, at the host of this link, and the tag that precedes each of its datagrams.
    case datagrams(SessionID, port: UInt16, tag: UInt64)
    /// The founder of the session, and the members that it has removed. Only the founder's own frame removes members.
    case founder(SessionID, SessionFounder, removed: [Fingerprint])
    /// The sender's share of the proof of a room's secret, ``proofByteCount`` bytes.
    case share(SessionID, [UInt8])
    /// A value of ``proofByteCount`` bytes, which has one of three meanings: the proof of the end that accepts an invitation into a
    /// room with a secret; from the inviting peer, its statement before the invitation (``statement(_:isRemembered:)``), or after an
    /// invitation into a room its agreement to the invited peer's key (``SessionRoom/agreement``).
    case confirm(SessionID, proof: [UInt8])

    /// States, before an invitation into a session without a room, whether the inviting peer joins without asking its user: 0 when it
    /// does. The bit is inverted, unlike that of ``SessionRoom/context(memberCount:isRemembered:)``.
    package static func statement(_ id: SessionID, isRemembered: Bool) -> SessionFrame {
        .confirm(id, proof: [isRemembered ? 0 : 1] + [UInt8](repeating: 0, count: proofByteCount - 1))
    }

    /// Reads the content of ``statement(_:isRemembered:)``; nil for another one.
    package static func isRemembered(in proof: [UInt8]) -> Bool? {
        guard let first = proof.first, first <= 1, proof.dropFirst().allSatisfy({ $0 == 0 }) else { return nil }
        return first == 0
    }

    /// The frame's bytes: type, session, then fields.
    package var encoded: [UInt8] {
        var writer = ByteWriter(reserving: 64)
        switch self {
        case .invite(let id, let timeout, let proof, let context):
            writer.write([FrameType.sessionInvite] + id.bytes)
            writer.write(UInt16(clamping: timeout.components.seconds))
            writer.writeCounted(proof, by: UInt8.self)
            writer.writeCounted(context, by: UInt16.self)
        case .accept(let id): writer.write([FrameType.sessionAccept] + id.bytes)
        case .refuse(let id, let reason): writer.write([FrameType.sessionRefuse] + id.bytes + [reason.rawValue])
        case .withdraw(let id): writer.write([FrameType.sessionWithdraw] + id.bytes)
        case .roster(let id, let members):
            writer.write([FrameType.sessionRoster] + id.bytes + [UInt8(members.count)])
            for member in members { member.write(to: &writer) }
        case .leave(let id): writer.write([FrameType.sessionLeave] + id.bytes)
        case .leaving(let id, let isDone): writer.write([FrameType.sessionLeaving] + id.bytes + [isDone ? 1 : 0])
        case .datagrams(let id, let port, let tag):
            writer.write([FrameType.sessionDatagrams] + id.bytes)
            writer.write(port)
            writer.write(tag)
        case .founder(let id, let founder, let removed):
            writer.write([FrameType.sessionFounder] + id.bytes + founder.fingerprint.bytes + founder.nonce)
            writer.write(UInt8(removed.count))
            for fingerprint in removed { writer.write(fingerprint.bytes) }
        case .share(let id, let share): writer.write([FrameType.sessionShare] + id.bytes + share)
        case .confirm(let id, let proof): writer.write([FrameType.sessionConfirm] + id.bytes + proof)
        }
        return writer.bytes
    }

    /// Decodes exactly one frame.
    /// - Returns: nil for a type that is not a session frame.
    package init?(decoding frame: ArraySlice<UInt8>) throws(MalformedInput) {
        guard let type = frame.first, (FrameType.sessionInvite...FrameType.sessionLeaving).contains(type) else { return nil }
        var reader = ByteReader(frame.dropFirst(), of: "session frame")
        let id = try SessionID(from: &reader)
        switch type {
        case FrameType.sessionInvite:
            let timeout = Duration.seconds(Int64(try reader.readInteger(UInt16.self)))
            let proof = try reader.readCounted(by: UInt8.self, upTo: Self.proofByteCount, field: "the proof")
            let context = try reader.readCounted(
                by: UInt16.self, upTo: Self.maximumContextByteCount, field: "the context")
            self = .invite(
                id, timeout: max(.seconds(1), min(timeout, Self.maximumTimeout)), proof: Array(proof), context: Array(context))
        case FrameType.sessionAccept: self = .accept(id)
        case FrameType.sessionRefuse:
            self = .refuse(id, SessionRefusal(rawValue: try reader.readInteger()) ?? .declined)
        case FrameType.sessionWithdraw: self = .withdraw(id)
        case FrameType.sessionRoster:
            let count = Int(try reader.readInteger(UInt8.self))
            guard count <= Self.maximumRosterCount else { throw MalformedInput("session frame: too many members") }
            var members: [SessionMember] = []
            for _ in 0..<count { members.append(try SessionMember(from: &reader)) }
            guard Set(members.map(\.fingerprint)).count == count else {
                throw MalformedInput("session frame: a duplicate member")
            }
            self = .roster(id, members)
        case FrameType.sessionLeave: self = .leave(id)
        case FrameType.sessionLeaving:
            let step: UInt8 = try reader.readInteger()
            guard step <= 1 else { throw MalformedInput("session frame: an unknown step of leaving") }
            self = .leaving(id, isDone: step == 1)
        case FrameType.sessionDatagrams:
            self = .datagrams(id, port: try reader.readInteger(), tag: try reader.readInteger())
        case FrameType.sessionShare: self = .share(id, Array(try reader.readBytes(Self.proofByteCount)))
        case FrameType.sessionConfirm: self = .confirm(id, proof: Array(try reader.readBytes(Self.proofByteCount)))
        default:
            let fingerprint = try Self.readFingerprint(from: &reader)
            guard
                let founder = SessionFounder(
                    fingerprint: fingerprint, nonce: try reader.readBytes(SessionFounder.nonceByteCount))
            else { throw MalformedInput("session frame: an invalid founder") }
            let count = Int(try reader.readInteger(UInt8.self))
            guard count <= Self.maximumRosterCount else { throw MalformedInput("session frame: too many removed members") }
            var removed: [Fingerprint] = []
            for _ in 0..<count { removed.append(try Self.readFingerprint(from: &reader)) }
            self = .founder(id, founder, removed: removed)
        }
        try reader.finish()
    }

    private static func readFingerprint(from reader: inout ByteReader) throws(MalformedInput) -> Fingerprint {
        guard let fingerprint = Fingerprint(bytes: try reader.readBytes(Fingerprint.byteCount)) else {
            throw MalformedInput("session frame: an invalid fingerprint")
        }
        return fingerprint
    }
}
