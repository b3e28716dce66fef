internal import NearshareBase

extension SessionMember {
    func write(to writer: inout ByteWriter) {
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

    init(from reader: inout ByteReader) throws(MalformedInput) {
        guard let fingerprint = Fingerprint(bytes: try reader.readBytes(Fingerprint.byteCount)) else {
            throw MalformedInput("session frame: an invalid fingerprint")
        }
        let incarnation: UInt32 = try reader.readInteger()
        let revision: UInt32 = try reader.readInteger()
        guard let presence = Presence(rawValue: try reader.readInteger()) else {
            throw MalformedInput("session frame: an unknown presence")
        }
        let name = try reader.readCounted(by: UInt8.self, upTo: DisplayName.maximumByteCount, field: "a name")
        guard let name = try? DisplayName(utf8: name) else { throw MalformedInput("session frame: an invalid display name") }
        let addressCount = Int(try reader.readInteger(UInt8.self))
        guard addressCount <= Self.maximumAddressCount else { throw MalformedInput("session frame: too many addresses") }
        var addresses: [Address] = []
        for _ in 0..<addressCount {
            let host = try reader.readCounted(by: UInt8.self, upTo: Address.maximumHostByteCount, field: "an address")
            guard let text = String(validating: host, as: UTF8.self), Self.isNumeric(host) else {
                throw MalformedInput("session frame: an address that is not numeric")
            }
            addresses.append(Address(host: text, port: try reader.readInteger()))
        }
        let neighbourCount = Int(try reader.readInteger(UInt8.self))
        guard neighbourCount <= SessionFrame.maximumRosterCount else {
            throw MalformedInput("session frame: too many neighbours")
        }
        var neighbours: [PeerID] = []
        for _ in 0..<neighbourCount {
            guard let neighbour = PeerID(bytes: try reader.readBytes(PeerID.byteCount)) else {
                throw MalformedInput("session frame: an invalid peer id")
            }
            neighbours.append(neighbour)
        }
        self.init(
            fingerprint: fingerprint, name: name, incarnation: incarnation, presence: presence, addresses: addresses,
            neighbours: neighbours, revision: revision)
    }

    /// Whether the host has the form of an IPv4 or IPv6 address, so that no peer can trigger a name look-up. A zone belongs to
    /// the machine that wrote it.
    private static func isNumeric(_ host: ArraySlice<UInt8>) -> Bool {
        let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
        return (host.contains(UInt8(ascii: ":")) && !host.contains(UInt8(ascii: "%")))
            || (!host.isEmpty && host.allSatisfy { digits.contains($0) || $0 == UInt8(ascii: ".") })
    }
}
