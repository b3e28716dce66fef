package import NearshareBase

/// The roles that a peer's machine can have in a Wi-Fi network (IEEE 802.11, 3.1).
package struct HotspotRoles: OptionSet, Sendable, Hashable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The machine can be the access point.
    package static let accessPoint = HotspotRoles(rawValue: 1)
    /// The machine can be a station, which joins a network.
    package static let station = HotspotRoles(rawValue: 2)
}

/// One of the two ends of an agreement on a Wi-Fi network.
package enum HotspotEnd: UInt8, Sendable, Hashable {
    /// The receiver of the transfer.
    case responder = 0
    /// The sender of the transfer.
    case requester = 1
}

/// The reason for which there is no Wi-Fi network for a transfer, or none any more.
package enum HotspotEndReason: UInt8, Error, Sendable, Hashable {
    /// No longer needed.
    case done = 0
    /// The user has said no.
    case declined = 1
    /// The machine can take no part in a network, or its user cannot be asked.
    case unavailable = 2
    /// There is no such transfer, or the machine is part of another network.
    case busy = 3
    /// The network was not started or joined, or has ended.
    case failed = 4
    /// A step took too long.
    case timedOut = 5
    /// The link has ended. Never sent.
    case linkLost = 254
    /// The peer does not reply, because it knows none of these frames. Never sent.
    case unsupported = 255
}

/// The frames by which two peers agree on a Wi-Fi network for a transfer (`docs/PROTOCOL.md`, section 17).
package enum HotspotFrame: Sendable, Hashable {
    /// The sender of a transfer asks its receiver for a network.
    case request(TransferID, HotspotRoles)
    /// The receiver asks its user.
    case asking
    /// The receiver takes part, and accepts connections at this port. The end that is named is the access point.
    case agree(accessPoint: HotspotEnd, port: UInt16)
    /// The access point has been started.
    case network(HotspotNetwork)
    /// The station has joined the network.
    case joined
    /// There is no network, or none any more.
    case end(HotspotEndReason)
}

extension HotspotFrame {
    func write(to writer: inout ByteWriter) {
        switch self {
        case .request(let id, let roles):
            writer.write(FrameType.hotspotRequest)
            writer.write(id.rawValue)
            writer.write(roles.rawValue)
        case .asking: writer.write(FrameType.hotspotAsking)
        case .agree(let accessPoint, let port):
            writer.write(FrameType.hotspotAgree)
            writer.write(accessPoint.rawValue)
            writer.write(port)
        case .network(let network):
            writer.write(FrameType.hotspotNetwork)
            writer.writeCounted(network.ssid.utf8, by: UInt8.self)
            writer.writeCounted(network.passphrase.utf8, by: UInt8.self)
            writer.write(network.band?.rawValue ?? 0)
            writer.write(network.accessPointAddress.bytes)
            writer.write(network.stationAddress.bytes)
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
            let end: UInt8 = try reader.readInteger()
            let port: UInt16 = try reader.readInteger()
            guard let accessPoint = HotspotEnd(rawValue: end), port > 0 else {
                throw MalformedInput("hotspot: an agreement without access point or port")
            }
            self = .agree(accessPoint: accessPoint, port: port)
        case FrameType.hotspotNetwork:
            let ssid = try reader.readCounted(
                by: UInt8.self, upTo: HotspotNetwork.maximumSSIDByteCount, field: "SSID")
            let passphrase = try reader.readCounted(
                by: UInt8.self, upTo: HotspotNetwork.passphraseLength.upperBound, field: "passphrase")
            let band = WiFiBand(rawValue: try reader.readInteger())
            let (accessPoint, station) = (try reader.readBytes(4), try reader.readBytes(4))
            guard let ssid = String(validating: ssid, as: UTF8.self),
                let passphrase = String(validating: passphrase, as: UTF8.self),
                let accessPointAddress = IPAddress(bytes: accessPoint), let stationAddress = IPAddress(bytes: station),
                let network = HotspotNetwork(
                    ssid: ssid, passphrase: passphrase, band: band, accessPointAddress: accessPointAddress,
                    stationAddress: stationAddress)
            else { throw MalformedInput("hotspot: a network that breaks the rules") }
            self = .network(network)
        case FrameType.hotspotJoined: self = .joined
        case FrameType.hotspotEnd:
            let reason = HotspotEndReason(rawValue: try reader.readInteger()) ?? .unavailable
            self = .end(reason == .unsupported || reason == .linkLost ? .unavailable : reason)
        default: return nil
        }
    }
}
