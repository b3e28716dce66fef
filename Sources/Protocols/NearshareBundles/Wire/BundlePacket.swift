package import NearshareBase

/// The payload of a mesh packet of type `bundle`: kind u8 · body.
package enum BundlePacket: Sendable, Hashable {
    case copy(BundleCopy)
    /// State of the sending node: its position in the tree, its reachable endpoints, its bundles.
    case report(SpanningTreeReport)
    /// Bundles that have been stored (the first 8 bytes of their IDs), and tokens of reports. At most ``maximumReceiptCount``.
    case receipt([UInt64])

    /// Limit of the numbers in one receipt.
    package static let maximumReceiptCount = 64
    /// Limit of an encoded packet: a report with the longest summary vector and the longest reachability filter.
    package static let maximumByteCount = 64 + GolombFilter.maximumByteCount + ReachabilityFilter.maximumByteCount

    /// - Throws: for anything but one whole packet of a known kind (section 13).
    package init(decoding payload: ArraySlice<UInt8>) throws(MalformedInput) {
        var reader = ByteReader(payload, of: "bundle packet")
        let kind: UInt8 = try reader.readInteger()
        switch kind {
        case Kind.copy: self = .copy(try BundleCopy(decoding: reader.readRemaining()))
        case Kind.report: self = .report(try SpanningTreeReport(decoding: reader.readRemaining()))
        case Kind.receipt:
            let count = Int(try reader.readInteger(UInt8.self))
            guard (1...Self.maximumReceiptCount).contains(count) else {
                throw MalformedInput("bundle packet: a receipt with \(count) numbers")
            }
            var numbers: [UInt64] = []
            for _ in 0..<count { numbers.append(try reader.readInteger()) }
            try reader.finish()
            self = .receipt(numbers)
        default: throw MalformedInput("bundle packet: an unknown kind")
        }
    }

    /// The bytes that are sent over a link.
    package var encoded: [UInt8] {
        switch self {
        case .copy(let copy): return [Kind.copy] + copy.encoded
        case .report(let report): return [Kind.report] + report.encoded
        case .receipt(let numbers):
            // Safe: the forwarder sends receipts as soon as there are so many.
            precondition((1...Self.maximumReceiptCount).contains(numbers.count))
            var writer = ByteWriter(reserving: 2 + 8 * numbers.count)
            writer.write(Kind.receipt)
            writer.write(UInt8(clamping: numbers.count))
            for number in numbers { writer.write(number) }
            return writer.bytes
        }
    }

    private enum Kind {
        static let copy: UInt8 = 1
        static let report: UInt8 = 2
        static let receipt: UInt8 = 3
    }
}
