package import NearshareBase

/// Names one session, drawn at random by who begins it: 16 bytes.
public struct SessionID: Sendable, Hashable {
    /// Too many to be drawn twice.
    package static let byteCount = 16
    /// Exactly ``byteCount`` of them.
    package let bytes: [UInt8]

    /// - Returns: nil for anything but 16 bytes.
    package init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        self.bytes = Array(bytes)
    }

    /// In 32 lower-case hexadecimal digits.
    public var hex: String { Hex.encode(bytes) }
}

/// One member as the others know it (`docs/PROTOCOL.md`, section 12).
package struct SessionMember: Sendable, Hashable {
    /// Whether a member is in the session.
    package enum Presence: UInt8, Sendable, Hashable {
        /// Is in it.
        case present = 0
        /// Has left, or was found to be gone.
        case gone = 1
    }

    /// Where it may be reached, as a member has seen it: numeric host and port.
    package struct Address: Sendable, Hashable {
        /// More than any address in digits has.
        package static let maximumHostByteCount = 63
        /// In digits, never a name.
        package var host: String
        /// Where it takes links.
        package var port: UInt16

        /// Puts an address together.
        package init(host: String, port: UInt16) {
            self.host = host
            self.port = port
        }
    }

    /// In one entry.
    package static let maximumAddressCount = 8

    /// Of its key.
    package var fingerprint: Fingerprint
    /// As it calls itself.
    package var name: DisplayName
    /// Counts its comings and goings: of two entries for one member the higher counts, and of equals the one that is gone.
    package var incarnation: UInt32
    /// In the session, or gone.
    package var presence: Presence
    /// The latest first.
    package var addresses: [Address]
    /// To whom it has links of its own, over which it may relay. Said by itself only.
    package var neighbours: [PeerID]
    /// Counts what the member has said of itself in this incarnation, such as its neighbours.
    package var revision: UInt32

    /// Puts an entry together.
    package init(
        fingerprint: Fingerprint, name: DisplayName, incarnation: UInt32 = 0, presence: Presence = .present,
        addresses: [Address] = [], neighbours: [PeerID] = [], revision: UInt32 = 0
    ) {
        self.fingerprint = fingerprint
        self.name = name
        self.incarnation = incarnation
        self.presence = presence
        self.addresses = addresses
        self.neighbours = neighbours
        self.revision = revision
    }

    /// The beginning of its fingerprint.
    package var id: PeerID { fingerprint.peerID }
}

/// Why somebody is not let into a session.
package enum SessionRefusal: UInt8, Sendable, Hashable {
    /// A person or a policy there said no.
    case declined = 0
    /// Nobody answered in time.
    case expired = 1
    /// As many are in it as may be.
    case full = 2
    /// Nothing is known of such a session, or its bearer is no member.
    case unknown = 3
    /// Who was invited does not trust the key of who invites.
    case untrusted = 4
}

/// What members of a session say to each other besides messages, streams and resources.
package enum SessionFrame: Sendable, Hashable {
    /// For the program at the other side.
    package static let maximumContextByteCount = 1024
    /// Of HKDF with SHA-256.
    package static let proofByteCount = 32
    /// Members that a roster describes, those who are gone included.
    package static let maximumRosterCount = 64
    /// Longer is cut to this by who is invited.
    package static let maximumPatience = 600

    /// Invites into the session; or, between members, opens the session on a new link.
    /// - Parameters:
    ///   - proof: of a secret that both know, 0 or ``proofByteCount`` bytes.
    ///   - context: for the program there, as this one wrote it.
    case invite(SessionID, timeout: UInt16, proof: [UInt8], context: [UInt8])
    /// The invitation is taken, or the link belongs to the session.
    case accept(SessionID)
    /// It is not.
    case refuse(SessionID, SessionRefusal)
    /// The invitation is taken back.
    case withdraw(SessionID)
    /// All that its sender knows of the members.
    case roster(SessionID, [SessionMember])
    /// Its sender leaves.
    case leave(SessionID)
    /// Where its sender takes datagrams, at the host that this link leads to: a UDP port, and what stands in front of each.
    case datagrams(SessionID, port: UInt16, tag: UInt64)

    /// As bytes of a record.
    package var encoded: [UInt8] {
        var writer = ByteWriter(reserving: 64)
        switch self {
        case .invite(let id, let timeout, let proof, let context):
            writer.write([FrameType.sessionInvite] + id.bytes)
            writer.write(timeout)
            writer.writeCounted(proof, by: UInt8.self)
            writer.writeCounted(context, by: UInt16.self)
        case .accept(let id): writer.write([FrameType.sessionAccept] + id.bytes)
        case .refuse(let id, let reason): writer.write([FrameType.sessionRefuse] + id.bytes + [reason.rawValue])
        case .withdraw(let id): writer.write([FrameType.sessionWithdraw] + id.bytes)
        case .roster(let id, let members):
            writer.write([FrameType.sessionRoster] + id.bytes + [UInt8(members.count)])
            for member in members { member.write(to: &writer) }
        case .leave(let id): writer.write([FrameType.sessionLeave] + id.bytes)
        case .datagrams(let id, let port, let tag):
            writer.write([FrameType.sessionDatagrams] + id.bytes)
            writer.write(port)
            writer.write(tag)
        }
        return writer.bytes
    }

    /// - Returns: nil for a frame of another kind.
    package init?(decoding frame: ArraySlice<UInt8>) throws(MalformedInput) {
        guard let type = frame.first, (FrameType.sessionInvite...FrameType.sessionDatagrams).contains(type) else { return nil }
        var reader = ByteReader(frame.dropFirst(), of: "session frame")
        let id = SessionID(bytes: try reader.readBytes(SessionID.byteCount))!
        switch type {
        case FrameType.sessionInvite:
            let timeout: UInt16 = try reader.readInteger()
            let proof = try reader.readCounted(by: UInt8.self, upTo: Self.proofByteCount, field: "the proof")
            let context = try reader.readCounted(
                by: UInt16.self, upTo: Self.maximumContextByteCount, field: "the context")
            self = .invite(
                id, timeout: max(1, min(timeout, UInt16(Self.maximumPatience))), proof: Array(proof), context: Array(context))
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
                throw MalformedInput("session frame: a member stands in it twice")
            }
            self = .roster(id, members)
        case FrameType.sessionLeave: self = .leave(id)
        default: self = .datagrams(id, port: try reader.readInteger(), tag: try reader.readInteger())
        }
        try reader.finish()
    }
}

extension SessionMember {
    fileprivate func write(to writer: inout ByteWriter) {
        writer.write(fingerprint.bytes)
        writer.write(incarnation)
        writer.write(revision)
        writer.write(presence.rawValue)
        writer.writeCounted(name.claimed.utf8, by: UInt8.self)
        writer.write(UInt8(addresses.count))
        for address in addresses {
            writer.writeCounted(address.host.utf8, by: UInt8.self)
            writer.write(address.port)
        }
        writer.write(UInt8(neighbours.count))
        for neighbour in neighbours { writer.write(neighbour.bytes) }
    }

    fileprivate init(from reader: inout ByteReader) throws(MalformedInput) {
        let fingerprint = Fingerprint(bytes: try reader.readBytes(Fingerprint.byteCount))!
        let incarnation: UInt32 = try reader.readInteger()
        let revision: UInt32 = try reader.readInteger()
        guard let presence = Presence(rawValue: try reader.readInteger()) else {
            throw MalformedInput("session frame: an unknown presence")
        }
        let name = try reader.readCounted(by: UInt8.self, upTo: DisplayName.maximumByteCount, field: "a name")
        guard let name = try? DisplayName(utf8: name) else { throw MalformedInput("session frame: a name that is none") }
        let addressCount = Int(try reader.readInteger(UInt8.self))
        guard addressCount <= Self.maximumAddressCount else { throw MalformedInput("session frame: too many addresses") }
        var addresses: [Address] = []
        for _ in 0..<addressCount {
            let host = try reader.readCounted(by: UInt8.self, upTo: Address.maximumHostByteCount, field: "an address")
            guard let text = String(validating: host, as: UTF8.self), Self.isNumeric(host) else {
                throw MalformedInput("session frame: an address that is none")
            }
            addresses.append(Address(host: text, port: try reader.readInteger()))
        }
        let neighbourCount = Int(try reader.readInteger(UInt8.self))
        guard neighbourCount <= SessionFrame.maximumRosterCount else {
            throw MalformedInput("session frame: too many neighbours")
        }
        var neighbours: [PeerID] = []
        for _ in 0..<neighbourCount { neighbours.append(PeerID(bytes: try reader.readBytes(PeerID.byteCount))!) }
        self.init(
            fingerprint: fingerprint, name: name, incarnation: incarnation, presence: presence, addresses: addresses,
            neighbours: neighbours, revision: revision)
    }

    /// Of the form of an IPv4 or IPv6 address, so that nobody has us look up names.
    private static func isNumeric(_ host: ArraySlice<UInt8>) -> Bool {
        let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
        return host.contains(UInt8(ascii: ":"))
            || (!host.isEmpty && host.allSatisfy { digits.contains($0) || $0 == UInt8(ascii: ".") })
    }
}
