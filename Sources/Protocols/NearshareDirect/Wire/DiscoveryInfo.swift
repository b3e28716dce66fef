internal import NearshareBase

/// A program's own key-value pairs in the TXT record of its service (RFC 6763, section 6). Unauthenticated claims, like all of
/// the record.
package struct DiscoveryInfo: Sendable, Hashable {
    /// Limit on one pair: key, equals sign and value.
    package static let maximumPairByteCount = 255
    /// Limit on all pairs together, so that one radio packet can hold them.
    package static let maximumByteCount = 400
    /// Limit on pairs: the record has at most 16 strings, including nearshare's own.
    package static let maximumPairCount = 12

    /// No pairs.
    package static let none = DiscoveryInfo()

    /// The values by key. No two keys are equal without regard to case.
    package let pairs: [String: String]

    /// The reason why pairs are not valid. The description names the violated rule.
    package struct Invalid: Error, Sendable, Hashable, CustomStringConvertible {
        package enum Reason: Sendable, Hashable {
            /// The key is empty, not printable ASCII, or has an equals sign.
            case key(String)
            /// nearshare uses the key itself.
            case reservedKey(String)
            /// Two keys are equal without regard to case.
            case repeatedKey(String)
            /// A pair exceeds ``DiscoveryInfo/maximumPairByteCount``.
            case pairTooLong(key: String, byteCount: Int)
            /// All pairs together exceed ``DiscoveryInfo/maximumByteCount``.
            case tooLong(byteCount: Int)
            /// More pairs than ``DiscoveryInfo/maximumPairCount``.
            case tooMany(count: Int)
        }

        package let reason: Reason

        package init(_ reason: Reason) {
            self.reason = reason
        }

        /// The violated rule, as a sentence for users.
        package var description: String {
            switch reason {
            case .key(let key):
                "\(TerminalText.quoted(key)) is not a valid key; use printable ASCII characters without an equals sign"
            case .reservedKey(let key): "the key \(key) is reserved, as are v, id, n and m"
            case .repeatedKey(let key): "the key \(TerminalText.quoted(key)) is a duplicate key; keys are not case-sensitive"
            case .pairTooLong(let key, let count):
                "\(TerminalText.quoted(key)) and its value have \(count) bytes; the limit is \(maximumPairByteCount)"
            case .tooLong(let count): "discovery info of \(count) bytes; the limit is \(maximumByteCount)"
            case .tooMany(let count): "discovery info of \(count) pairs; the limit is \(maximumPairCount)"
            }
        }
    }

    private init() {
        pairs = [:]
    }

    /// Validates a program's own pairs.
    package init(_ pairs: [String: String]) throws(Invalid) {
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

    /// Keeps the valid pairs of a peer's record, the first one of each key.
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

    /// The value of a key, which is case-sensitive here; nil for a missing one.
    package subscript(key: String) -> String? { pairs[key] }

    /// The strings of the record, sorted so that equal info makes equal records.
    var strings: [[UInt8]] { pairs.sorted { $0.key < $1.key }.map { Array("\($0.key)=\($0.value)".utf8) } }

    private static func isKey(_ key: some Collection<UInt8>) -> Bool {
        !key.isEmpty && key.allSatisfy { (0x20...0x7e).contains($0) && $0 != UInt8(ascii: "=") }
    }

    private static let reservedKeys: Set<String> = ["v", "id", "n", "m"]
}
