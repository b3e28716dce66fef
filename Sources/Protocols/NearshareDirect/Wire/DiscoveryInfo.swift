internal import NearshareBase

/// Key-value pairs that a program advertises beside the name, in the service's TXT record. They are claims, as all of
/// it (RFC 6763, section 6).
public struct DiscoveryInfo: Sendable, Hashable {
    /// A key, its equals sign and its value together.
    package static let maximumPairByteCount = 255
    /// All pairs together, so that one packet of a radio holds them.
    package static let maximumByteCount = 400
    /// The record has 16 strings, some of which are ours.
    package static let maximumPairCount = 12

    /// Nothing but the name.
    public static let none = DiscoveryInfo()

    /// By key. Keys differ in more than case.
    public let pairs: [String: String]

    /// Why pairs are not valid discovery info. The description names the violated rule.
    public struct Invalid: Error, Sendable, Hashable, CustomStringConvertible {
        package enum Reason: Sendable, Hashable {
            /// Not printable ASCII, empty, or with an equals sign.
            case key(String)
            /// A key that nearshare itself writes into the record.
            case reservedKey(String)
            /// Two keys that differ only in case.
            case repeatedKey(String)
            /// More than ``DiscoveryInfo/maximumPairByteCount``.
            case pairTooLong(key: String, byteCount: Int)
            /// More than ``DiscoveryInfo/maximumByteCount``.
            case tooLong(byteCount: Int)
            /// More than ``DiscoveryInfo/maximumPairCount``.
            case tooMany(count: Int)
        }

        package let reason: Reason

        package init(_ reason: Reason) {
            self.reason = reason
        }

        /// The violated rule, as a sentence for users.
        public var description: String {
            switch reason {
            case .key(let key):
                "\(TerminalText.escaped(key)) is no key: it needs at least one printable ASCII character, and no equals sign"
            case .reservedKey(let key): "the key \(key) is taken; those of nearshare itself are v, id, n and m"
            case .repeatedKey(let key): "the key \(TerminalText.escaped(key)) stands there twice; case does not count"
            case .pairTooLong(let key, let count):
                "\(TerminalText.escaped(key)) and its value have \(count) bytes, at most \(maximumPairByteCount) fit"
            case .tooLong(let count): "discovery info has at most \(maximumByteCount) bytes in all, this has \(count)"
            case .tooMany(let count): "discovery info has at most \(maximumPairCount) pairs, this has \(count)"
            }
        }
    }

    private init() {
        pairs = [:]
    }

    /// Checks the limits on keys, values and total size.
    public init(_ pairs: [String: String]) throws(Invalid) {
        guard pairs.count <= Self.maximumPairCount else { throw Invalid(.tooMany(count: pairs.count)) }
        var seen: Set<String> = []
        var total = 0
        for (key, value) in pairs.sorted(by: { $0.key < $1.key }) {
            guard Self.isKey(key.utf8) else { throw Invalid(.key(key)) }
            guard !Self.reservedKeys.contains(key.lowercased()) else { throw Invalid(.reservedKey(key)) }
            guard seen.insert(key.lowercased()).inserted else { throw Invalid(.repeatedKey(key)) }
            let count = key.utf8.count + 1 + value.utf8.count
            guard count <= Self.maximumPairByteCount else { throw Invalid(.pairTooLong(key: key, byteCount: count)) }
            total += count
        }
        guard total <= Self.maximumByteCount else { throw Invalid(.tooLong(byteCount: total)) }
        self.pairs = pairs
    }

    /// What of a stranger's record is valid, the first of a key; what is not is left out.
    init(claimed: [(key: String, value: String)]) {
        var kept = DiscoveryInfo.none
        for (key, value) in claimed where kept.pairs.keys.allSatisfy({ $0.lowercased() != key.lowercased() }) {
            var pairs = kept.pairs
            pairs[key] = value
            guard let longer = try? DiscoveryInfo(pairs) else { continue }
            kept = longer
        }
        self = kept
    }

    /// The value of a key, written as it was given; nil where there is none.
    package subscript(key: String) -> String? { pairs[key] }

    /// By key, so that the same info always makes the same record.
    var strings: [[UInt8]] { pairs.sorted { $0.key < $1.key }.map { Array("\($0.key)=\($0.value)".utf8) } }

    private static func isKey(_ key: some Collection<UInt8>) -> Bool {
        !key.isEmpty && key.allSatisfy { (0x20...0x7e).contains($0) && $0 != UInt8(ascii: "=") }
    }

    private static let reservedKeys: Set<String> = ["v", "id", "n", "m"]
}
