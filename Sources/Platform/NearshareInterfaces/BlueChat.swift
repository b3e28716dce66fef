package import NearshareBase

/// The chat of BlueChat's app, over Bluetooth's attributes and in the clear: one value is one text, with nothing around it
/// (github.com/zouchaoqun/BlueChat, BCConstants.m). Anybody in range may read it, and may claim any name.
package enum BlueChat {
    /// The service, as BlueZ writes identifiers.
    package static let service = "920d5470-95d8-4289-8bf3-504058b0bcb1"
    /// Written by centrals, with a response: a text.
    package static let fromCentral = "920d5471-95d8-4289-8bf3-504058b0bcb1"
    /// Indicated by peripherals: a text.
    package static let fromPeripheral = "920d5472-95d8-4289-8bf3-504058b0bcb1"
    /// Indicated by peripherals, which can't end a connection themselves: ``leave`` asks the central to.
    package static let disconnectRequest = "920d5473-95d8-4289-8bf3-504058b0bcb1"

    /// What a peripheral says on ``disconnectRequest``.
    package static let leave: [UInt8] = [1]
    /// Characters of a name on the air.
    package static let maximumNameLength = 16
    /// Of a text: the longest attribute value there is.
    package static let maximumByteCount = 512
    /// What the smallest MTU of Bluetooth's attributes (23) leaves of an indication.
    package static let smallestValue = 20

    /// A name as it is put on the air: BlueChat's app shows this much. In bytes it is kept below what a scan response holds, too.
    package static func name(_ name: DisplayName) -> String {
        var kept = ""
        for character in name.claimed.prefix(maximumNameLength) {
            guard kept.utf8.count + character.utf8.count <= maximumNameByteCount else { break }
            kept.append(character)
        }
        return kept
    }

    /// A scan response holds 31 bytes, two of which say what this is.
    private static let maximumNameByteCount = 29

    /// The text in a value that somebody has sent; nil for what is none.
    package static func text(_ value: [UInt8]) -> String? {
        guard (1...maximumByteCount).contains(value.count) else { return nil }
        return String(validating: value, as: UTF8.self)
    }

    /// The values in which a text goes out, in order, each of which is shown as a text of its own. Cut between characters, or inside
    /// of one that is longer than a value.
    /// - Parameter largest: bytes that a value may have; at least ``smallestValue``.
    package static func values(of text: String, largest: Int) -> [[UInt8]] {
        let limit = min(max(largest, smallestValue), maximumByteCount)
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
