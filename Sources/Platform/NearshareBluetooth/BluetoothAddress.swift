internal import CNearshareBluetooth
internal import NearshareBase
internal import NearshareInterfaces

/// Where a Bluetooth device is reached: six bytes, and whether they were assigned to it or made up by it.
struct BluetoothAddress: Sendable, Hashable, CustomStringConvertible {
    enum Kind: String, Sendable, Hashable {
        case isPublic = "public"
        case random
    }

    let bytes: [UInt8]
    let kind: Kind

    /// - Parameter kind: as BlueZ's `AddressType` gives it.
    init?(_ text: String, kind: String) {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        let bytes = parts.compactMap { $0.count == 2 ? UInt8($0, radix: 16) : nil }
        guard parts.count == 6, bytes.count == 6, let kind = Kind(rawValue: kind) else { return nil }
        self.bytes = bytes
        self.kind = kind
    }

    /// What ``linkAddress(port:)`` has written.
    init?(_ address: LinkAddress) {
        let parts = address.host.split(separator: "/")
        guard address.medium == .bluetooth, parts.count == 2 else { return nil }
        self.init(String(parts[0]), kind: String(parts[1]))
    }

    fileprivate init(bytes: [UInt8], kind: Kind) {
        self.bytes = bytes
        self.kind = kind
    }

    var description: String {
        bytes.map { Hex.encode([$0]).uppercased() }.joined(separator: ":")
    }

    func linkAddress(port: UInt16) -> LinkAddress {
        LinkAddress(host: "\(self)/\(kind.rawValue)", port: port, medium: .bluetooth)
    }
}

extension BluetoothAddress: Comparable {
    /// By their bytes. Of two that both might connect, the lower one does.
    static func < (one: Self, other: Self) -> Bool { one.bytes.lexicographicallyPrecedes(other.bytes) }
}

extension BluetoothAddress {
    /// As the kernel's sockets take it.
    var raw: nearshare_bluetooth_address {
        nearshare_bluetooth_address(
            bytes: (bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]), type: kind == .isPublic ? 1 : 2)
    }

    init(_ raw: nearshare_bluetooth_address) {
        let bytes = raw.bytes
        self.init(
            bytes: [bytes.0, bytes.1, bytes.2, bytes.3, bytes.4, bytes.5], kind: raw.type == 1 ? .isPublic : .random)
    }
}
