internal import CNearshareBluetooth
internal import NearshareBase
internal import NearshareInterfaces

/// A Bluetooth device address: six bytes, assigned to the device (public) or chosen by it (random).
struct BluetoothAddress: Sendable, Hashable, CustomStringConvertible {
    enum Kind: String, Sendable, Hashable {
        case `public` = "public"
        case random
    }

    /// Six bytes, in the order in which they are written.
    let bytes: [UInt8]
    let kind: Kind

    /// - Parameters:
    ///   - text: six hexadecimal bytes between colons.
    ///   - kind: as in BlueZ's `AddressType`.
    init?(_ text: String, kind: String) {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        let bytes = parts.compactMap { $0.count == 2 ? Hex.decode(String($0))?.first : nil }
        guard parts.count == 6, bytes.count == 6, let kind = Kind(rawValue: kind) else { return nil }
        self.bytes = bytes
        self.kind = kind
    }

    /// Reads the result of ``linkAddress(port:)``.
    init?(_ address: LinkAddress) {
        let parts = address.host.pathComponents
        guard address.medium == .bluetooth, parts.count == 2 else { return nil }
        self.init(parts[0], kind: parts[1])
    }

    fileprivate init(bytes: [UInt8], kind: Kind) {
        self.bytes = bytes
        self.kind = kind
    }

    var description: String {
        bytes.map { Hex.encode([$0]).uppercased() }.joined(separator: ":")
    }

    /// - Parameter port: the PSM of a channel; 0 for none.
    func linkAddress(port: UInt16) -> LinkAddress {
        LinkAddress(host: "\(self)/\(kind.rawValue)", port: port, medium: .bluetooth)
    }
}

extension BluetoothAddress: Comparable {
    /// Compares the bytes first. Of two devices that may connect to each other, the one with the lower address does.
    static func < (one: Self, other: Self) -> Bool {
        one.bytes == other.bytes ? one.kind.rawValue < other.kind.rawValue : one.bytes.lexicographicallyPrecedes(other.bytes)
    }
}

extension BluetoothAddress {
    /// The address as the kernel's sockets take it.
    var raw: nearshare_bluetooth_address {
        nearshare_bluetooth_address(
            bytes: (bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]), type: kind == .`public` ? 1 : 2)
    }

    init(_ raw: nearshare_bluetooth_address) {
        let bytes = raw.bytes
        self.init(
            bytes: [bytes.0, bytes.1, bytes.2, bytes.3, bytes.4, bytes.5], kind: raw.type == 1 ? .`public` : .random)
    }
}
