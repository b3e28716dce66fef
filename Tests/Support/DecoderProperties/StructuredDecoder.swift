import NearshareBase

extension DecoderProperty {
    static let structuredValue = Self(
        name: "structured-value",
        seeds: [
            ["sensor": "attic", "values": [1, -2, .number(1.5), .null, true], "raw": .binary([0, 255])] as StructuredValue,
            "été",
            [[[]]],
        ].compactMap { try? $0.encoded() }
    ) { bytes throws(Violation) in
        guard let read = try? StructuredValue(decoding: bytes[...]) else { return false }
        try requireRoundTrip(read, encode: { try $0.encoded() }, decode: { try StructuredValue(decoding: $0) })
        return true
    }
}
