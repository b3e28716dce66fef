package import NearshareBase

/// The wire format of the BlueChat app: unencrypted GATT values, each of them one text without a header
/// (github.com/zouchaoqun/BlueChat, BCConstants.m). Any device in range can read the texts and claim any name.
package enum BlueChat {
    /// The service's UUID, as BlueZ writes it.
    package static let service = "920d5470-95d8-4289-8bf3-504058b0bcb1"
    /// Characteristic that centrals write texts to, with a response.
    package static let fromCentral = "920d5471-95d8-4289-8bf3-504058b0bcb1"
    /// Characteristic on which peripherals indicate texts.
    package static let fromPeripheral = "920d5472-95d8-4289-8bf3-504058b0bcb1"
    /// Characteristic on which a peripheral indicates ``leave``: it cannot close a connection itself and asks the central to.
    package static let disconnectRequest = "920d5473-95d8-4289-8bf3-504058b0bcb1"

    /// The value of ``disconnectRequest``.
    package static let leave: [UInt8] = [1]
    /// Limit on the characters of an advertised name.
    package static let maximumNameCharacterCount = 16
    /// Limit on the bytes of a text: the longest attribute value.
    package static let maximumTextByteCount = 512
    /// The payload of an indication at the smallest ATT MTU (23).
    package static let minimumValueByteCount = 20

    /// The advertised form of a name: as long as the BlueChat app shows, and no longer than a scan response holds.
    package static func name(_ name: DisplayName) -> String {
        var kept = ""
        for character in name.claimed.prefix(maximumNameCharacterCount) {
            guard kept.utf8.count + character.utf8.count <= maximumNameByteCount else { break }
            kept.append(character)
        }
        if kept.isEmpty {
            // The first character alone is longer: what fits of its scalars.
            for scalar in name.claimed.unicodeScalars {
                guard kept.utf8.count + UTF8.width(scalar) <= maximumNameByteCount else { break }
                kept.unicodeScalars.append(scalar)
            }
        }
        return kept
    }

    /// A scan response holds 31 bytes; length and type take two.
    private static let maximumNameByteCount = 29

    /// The text in a received value; nil when it is empty, too long or not UTF-8.
    package static func text(_ value: [UInt8]) -> String? {
        guard (1...maximumTextByteCount).contains(value.count) else { return nil }
        return String(validating: value, as: UTF8.self)
    }

    /// The values that carry a text, in order; the receiver shows each as a text of its own. The text is cut between characters;
    /// a character that is longer than a value is cut between its scalars.
    /// - Parameter largest: limit on the bytes of a value, at least ``minimumValueByteCount``.
    package static func values(of text: String, largest: Int) -> [[UInt8]] {
        let limit = min(max(largest, minimumValueByteCount), maximumTextByteCount)
        var values: [[UInt8]] = []
        var value: [UInt8] = []
        func append(_ bytes: [UInt8]) {
            if value.count + bytes.count > limit {
                values.append(value)
                value = []
            }
            value += bytes
        }
        for character in text {
            let bytes = Array(character.utf8)
            guard bytes.count > limit else {
                append(bytes)
                continue
            }
            for scalar in character.unicodeScalars { append(Array(String(scalar).utf8)) }
        }
        if !value.isEmpty { values.append(value) }
        return values
    }
}
