package import NearshareBase

/// A bundle on a link: with its signature, and with the fields that every hop changes, which are not authenticated.
///
///     hop count u16 · forwarding mode u8 · tag count u8 · visited tags u32 each · bundle · signature 64
package struct BundleCopy: Sendable, Hashable {
    package enum ForwardingMode: UInt8, Sendable {
        /// From neighbour to neighbour, towards its destination.
        case routed = 0
        /// To every neighbour.
        case epidemic = 1
    }

    /// Limit of an encoded copy.
    package static let maximumByteCount: Int =
        2 + 1 + 1 + 4 * PropagationProfile.Bounds.tracklistLimit.upperBound + Bundle.maximumHeaderByteCount
        + Bundle.maximumBodyByteCount + Bundle.signatureByteCount

    /// Number of times the bundle has been forwarded, this copy's link included.
    package var hopCount: Int
    package var forwarding: ForwardingMode
    /// Tags of the nodes that have stored it most recently (``EndpointID/visitTag(in:)``).
    package var visitedTags: [UInt32]
    package var bundle: Bundle
    /// ``Bundle/signatureByteCount`` bytes.
    package var signature: [UInt8]

    /// Traps when the signature does not have its size.
    package init(hopCount: Int, forwarding: ForwardingMode, visitedTags: [UInt32], bundle: Bundle, signature: [UInt8]) {
        // Safe: a signature of this node; others are decoded by the initializer below.
        precondition(signature.count == Bundle.signatureByteCount)
        self.hopCount = hopCount
        self.forwarding = forwarding
        self.visitedTags = visitedTags
        self.bundle = bundle
        self.signature = signature
    }

    /// - Throws: for anything but one whole copy within its bounds (`docs/PROTOCOL.md`, section 13, Copy).
    package init(decoding bytes: ArraySlice<UInt8>) throws(MalformedInput) {
        guard bytes.count <= Self.maximumByteCount else { throw MalformedInput("bundle copy: too long") }
        var reader = ByteReader(bytes, of: "bundle copy")
        hopCount = Int(try reader.readInteger(UInt16.self))
        guard let forwarding = ForwardingMode(rawValue: try reader.readInteger()) else {
            throw MalformedInput("bundle copy: an unknown forwarding mode")
        }
        self.forwarding = forwarding
        let count = Int(try reader.readInteger(UInt8.self))
        guard count <= PropagationProfile.Bounds.tracklistLimit.upperBound else {
            throw MalformedInput("bundle copy: more than \(PropagationProfile.Bounds.tracklistLimit.upperBound) visited nodes")
        }
        visitedTags = []
        for _ in 0..<count { visitedTags.append(try reader.readInteger()) }
        bundle = try Bundle(reading: &reader)
        signature = Array(try reader.readBytes(Bundle.signatureByteCount))
        try reader.finish()
    }

    /// The bytes that are sent over a link.
    package var encoded: [UInt8] {
        var writer = ByteWriter(reserving: 200 + 4 * visitedTags.count + bundle.body.count)
        writer.write(UInt16(clamping: hopCount))
        writer.write(forwarding.rawValue)
        writer.write(UInt8(clamping: visitedTags.count))
        for tag in visitedTags { writer.write(tag) }
        writer.write(bundle.encoded)
        writer.write(signature)
        return writer.bytes
    }
}
