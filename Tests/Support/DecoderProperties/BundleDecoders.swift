import NearshareBase
import NearshareBundles

extension DecoderProperty {
    static let carry = [carryPacket, carriedContent, carriedReach]

    private static let sampleMessage = Bundle(
        kind: .sealed, receiver: .address(EndpointID(rawValue: 0x0102_0304_0506_0708)), profile: .sparse,
        created: WallTime(milliseconds: 1_800_000_000_123), senderKey: Array(0..<32),
        lock: [UInt8](repeating: 7, count: Bundle.lockByteCount), body: [1, 2, 3])

    private static let samplePackets: [BundlePacket] = {
        let place = SpanningTreeReport.Place(root: EndpointID(rawValue: 3), round: 4, distance: 5)
        let ids = (0..<40).map { BundleID(bytes: [UInt8](repeating: $0, count: BundleID.byteCount))! }
        var broadcast = sampleMessage
        (broadcast.kind, broadcast.receiver, broadcast.lock) = (.clear, .everybody, nil)
        var acknowledgement = sampleMessage
        (acknowledgement.kind, acknowledgement.lock) = (.acknowledgement, nil)
        acknowledgement.body =
            BundleAcknowledgement(
                id: ids[0], secret: [UInt8](repeating: 9, count: BundleAcknowledgement.secretByteCount)
            ).encoded
        let signature = [UInt8](repeating: 5, count: Bundle.signatureByteCount)
        return [sampleMessage, broadcast, acknowledgement].map {
            .copy(BundleCopy(hops: 9, way: .spread, carriers: [1, .max], message: $0, signature: signature))
        } + [
            .report(SpanningTreeReport(place: place, isToParent: true)),
            .report(
                SpanningTreeReport(
                    place: place, isToParent: false, isAnswer: true, token: 77,
                    summary: SummaryVector(of: ids, turn: 1, salt: 9), reach: ReachabilityFilter(marks: [5, 1, 1 << 26]))),
            .receipt([1, .max]),
        ]
    }()

    private static let carryPacket = Self(name: "carry-packet", seeds: samplePackets.map(\.encoded)) {
        bytes throws(Violation) in
        guard let read = try? BundlePacket(decoding: bytes[...]) else { return false }
        try requireRoundTrip(read, encode: { $0.encoded }, decode: { try BundlePacket(decoding: $0) })
        switch read {
        case .copy(let copy):
            try require(copy.encoded.count <= BundleCopy.maximumByteCount, "a copy beyond its limit")
            try require(copy.message.body.count <= Bundle.maximumBodyByteCount, "a body beyond its limit")
            _ = try? BundleAcknowledgement(decoding: copy.message.body)
        case .report(let report):
            // What a filter holds is bounded by its bytes, whatever its parameter says.
            if let summary = report.summary {
                try require(
                    summary.members.values.count <= 8 * summary.filter.bytes.count, "more members than bits in a filter")
            }
            if let reach = report.reach { try checkReach(reach) }
        case .receipt(let ids):
            try require((1...BundlePacket.maximumReceiptCount).contains(ids.count), "\(ids.count) receipts in one")
        }
        return true
    }

    private static let carriedReach = Self(
        name: "carried-reach", seeds: [ReachabilityFilter(marks: [5, 1, 1 << 26])!.bytes, [0, 0xff], [26, 0, 0, 0, 0]]
    ) { bytes throws(Violation) in
        guard let reach = try? ReachabilityFilter(decoding: bytes[...]) else { return false }
        try checkReach(reach)
        return true
    }

    private static func checkReach(_ reach: ReachabilityFilter) throws(Violation) {
        let marks = reach.marks
        try require(marks.count <= 8 * reach.bytes.count, "more marks than bits in a reach")
        try require(zip(marks, marks.dropFirst()).allSatisfy { $0 < $1 }, "marks out of order")
        for mark in [marks.first, marks.last].compactMap({ $0 }) {
            try require(reach.contains(mark), "a mark that is listed, and not found")
        }
        guard let merged = ReachabilityFilter(marks: marks) else { return }
        try require(merged.marks == marks, "marks that change when they are merged")
    }

    private static let carriedContent = Self(
        name: "carried-content",
        seeds: [BundleContent.structured(["text": "été", "raw": .binary([0, 255])])].compactMap { try? $0.encoded() }
    ) { bytes throws(Violation) in
        guard let read = try? BundleContent(decoding: bytes[...]) else { return false }
        try requireRoundTrip(read, encode: { try $0.encoded() }, decode: { try BundleContent(decoding: $0) })
        return true
    }
}
