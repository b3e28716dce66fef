package import NearshareBase

/// The content of a bundle for an application: kind u8 · data.
///
///     1 · structured value
///     2 · length of the name u8 · name · structured value
package enum BundleContent: Sendable, Hashable {
    case structured(StructuredValue)
    /// Accompanies a file with this claimed name of at most 255 bytes.
    case besideFile(StructuredValue, name: String)
    /// Content of a later version: its kind and data.
    case other(UInt8, [UInt8])

    /// Limit of the data over the network, in bytes.
    package static let maximumByteCount = 2_048
    /// Limit of the data over Bluetooth, in bytes.
    package static let maximumRadioByteCount = 1_024

    package init(decoding bytes: ArraySlice<UInt8>) throws(MalformedInput) {
        guard let kind = bytes.first else { throw MalformedInput("bundle content: empty") }
        var reader = ByteReader(bytes.dropFirst(), of: "bundle content")
        switch kind {
        case Self.structuredKind: self = .structured(try StructuredValue(decoding: bytes.dropFirst()))
        case Self.besideFileKind:
            let name = try reader.readCounted(by: UInt8.self, upTo: 255, field: "name")
            guard let name = String(validating: name, as: UTF8.self) else {
                throw MalformedInput("bundle content: a name that is not UTF-8")
            }
            self = .besideFile(try StructuredValue(decoding: reader.readRemaining()), name: name)
        default: self = .other(kind, Array(bytes.dropFirst()))
        }
    }

    package func encoded() throws(StructuredValue.Invalid) -> [UInt8] {
        switch self {
        case .structured(let value): [Self.structuredKind] + (try value.encoded())
        case .besideFile(let value, let name):
            [Self.besideFileKind] + [UInt8(clamping: name.utf8.prefix(255).count)] + Array(name.utf8.prefix(255))
                + (try value.encoded())
        case .other(let kind, let data): [kind] + data
        }
    }

    private static let structuredKind: UInt8 = 1
    private static let besideFileKind: UInt8 = 2
}
