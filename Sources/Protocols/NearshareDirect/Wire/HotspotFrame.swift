package import NearshareBase

/// The parts that a peer's machine can take in a Wi-Fi network.
package struct HotspotRoles: OptionSet, Sendable, Hashable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// It can make a network.
    package static let makes = HotspotRoles(rawValue: 1)
    /// It can join one.
    package static let joins = HotspotRoles(rawValue: 2)
}

/// The reason for which there is no Wi-Fi network for a transfer, or none any more.
package enum HotspotRefusal: UInt8, Error, Sendable, Hashable {
    /// No longer needed.
    case done = 0
    /// The user has said no.
    case declined = 1
    /// The machine can take no part in one, or its user cannot be asked.
    case unavailable = 2
    /// There is no such transfer, or the machine is part of another network.
    case busy = 3
    /// The network was not made or joined, or has ended.
    case failed = 4
    /// A step took too long.
    case timedOut = 5
    /// The link has ended. Never sent.
    case linkLost = 254
    /// The peer does not reply, because it knows no such frames. Never sent.
    case unsupported = 255
}

/// The frames by which two peers agree on a Wi-Fi network for a transfer (`docs/PROTOCOL.md`, section 17).
package enum HotspotFrame: Sendable, Hashable {
    /// The sender of a transfer asks its receiver for a network.
    case request(TransferID, HotspotRoles)
    /// The receiver asks its user.
    case asking
    /// The receiver takes part, and accepts connections at this port.
    case agree(requesterMakes: Bool, port: UInt16)
    /// The network has been made.
    case network(HotspotNetwork)
    /// It has been joined.
    case joined
    /// There is no network, or none any more.
    case end(HotspotRefusal)
}

extension HotspotFrame {
    func write(to writer: inout ByteWriter) {
        switch self {
        case .request(let id, let roles):
            writer.write(FrameType.hotspotRequest)
            writer.write(id.rawValue)
            writer.write(roles.rawValue)
        case .asking: writer.write(FrameType.hotspotAsking)
        case .agree(let requesterMakes, let port):
            writer.write(FrameType.hotspotAgree)
            writer.write(UInt8(requesterMakes ? 1 : 0))
            writer.write(port)
        case .network(let network):
            writer.write(FrameType.hotspotNetwork)
            writer.writeCounted(network.name.utf8, by: UInt8.self)
            writer.writeCounted(network.passphrase.utf8, by: UInt8.self)
            writer.write(network.band.rawValue)
            writer.write(network.makerAddress.bytes)
            writer.write(network.joinerAddress.bytes)
        case .joined: writer.write(FrameType.hotspotJoined)
        case .end(let reason):
            writer.write(FrameType.hotspotEnd)
            writer.write(reason.rawValue)
        }
    }

    /// Reads what follows the type.
    /// - Returns: nil for another type.
    init?(type: UInt8, from reader: inout ByteReader) throws(MalformedInput) {
        switch type {
        case FrameType.hotspotRequest:
            self = .request(TransferID(rawValue: try reader.readInteger()), HotspotRoles(rawValue: try reader.readInteger()))
        case FrameType.hotspotAsking: self = .asking
        case FrameType.hotspotAgree:
            let maker: UInt8 = try reader.readInteger()
            let port: UInt16 = try reader.readInteger()
            guard maker <= 1, port > 0 else { throw MalformedInput("hotspot: an agreement without maker or port") }
            self = .agree(requesterMakes: maker == 1, port: port)
        case FrameType.hotspotNetwork:
            let name = try reader.readCounted(
                by: UInt8.self, upTo: HotspotNetwork.maximumNameByteCount, field: "network name")
            let passphrase = try reader.readCounted(
                by: UInt8.self, upTo: HotspotNetwork.passphraseLength.upperBound, field: "passphrase")
            let band = HotspotNetwork.Band(rawValue: try reader.readInteger()) ?? .unknown
            let (maker, joiner) = (try reader.readBytes(4), try reader.readBytes(4))
            guard let name = String(validating: name, as: UTF8.self),
                let passphrase = String(validating: passphrase, as: UTF8.self),
                let makerAddress = IPAddress(bytes: maker), let joinerAddress = IPAddress(bytes: joiner),
                let network = HotspotNetwork(
                    name: name, passphrase: passphrase, band: band, makerAddress: makerAddress, joinerAddress: joinerAddress)
            else { throw MalformedInput("hotspot: a network that breaks the rules") }
            self = .network(network)
        case FrameType.hotspotJoined: self = .joined
        case FrameType.hotspotEnd:
            let reason = HotspotRefusal(rawValue: try reader.readInteger()) ?? .unavailable
            self = .end(reason == .unsupported || reason == .linkLost ? .unavailable : reason)
        default: return nil
        }
    }
}
