import NearshareBase
import NearshareBundles

extension DecoderProperty {
    static let bundles = [bundlePacket, bundleContent, reachabilityFilter]

    private static let sampleBundle = Bundle(
        kind: .sealed, destination: .endpoint(EndpointID(rawValue: 0x0102_0304_0506_0708)), profile: .sparse,
        creationTime: WallTime(milliseconds: 1_800_000_000_123), senderKey: Array(0..<32),
        hashLock: [UInt8](repeating: 7, count: Bundle.hashLockByteCount), body: [1, 2, 3])

    private static let samplePackets: [BundlePacket] = {
        let position = TreePosition(root: EndpointID(rawValue: 3), epoch: 4, distance: 5)
        let ids = (0..<40).map { BundleID(bytes: [UInt8](repeating: $0, count: BundleID.byteCount))! }
        var broadcast = sampleBundle
        (broadcast.kind, broadcast.destination, broadcast.hashLock) = (.clear, .everyone, nil)
        var acknowledgement = sampleBundle
        (acknowledgement.kind, acknowledgement.hashLock) = (.acknowledgement, nil)
        acknowledgement.body =
            BundleAcknowledgement(
                id: ids[0], secret: [UInt8](repeating: 9, count: BundleAcknowledgement.secretByteCount)
            ).encoded
        let signature = [UInt8](repeating: 5, count: Bundle.signatureByteCount)
        return [sampleBundle, broadcast, acknowledgement].map {
            .copy(BundleCopy(hopCount: 9, forwarding: .epidemic, visitedTags: [1, .max], bundle: $0, signature: signature))
        } + [
            .report(SpanningTreeReport(position: position, isToParent: true)),
            .report(
                SpanningTreeReport(
                    position: position, isToParent: false, isAnswer: true, token: 77,
                    summary: SummaryVector(of: ids, turn: 1, salt: 9), reachability: ReachabilityFilter(tags: [5, 1, 1 << 26]))),
            .receipt([1, .max]),
        ]
    }()

    private static let bundlePacket = Self(name: "bundle-packet", seeds: samplePackets.map(\.encoded)) {
        bytes throws(Violation) in
        guard let read = try? BundlePacket(decoding: bytes[...]) else { return false }
        try requireRoundTrip(read, encode: { $0.encoded }, decode: { try BundlePacket(decoding: $0) })
        switch read {
        case .copy(let copy):
            try require(copy.encoded.count <= BundleCopy.maximumByteCount, "a copy beyond its limit")
            try require(copy.bundle.body.count <= Bundle.maximumBodyByteCount, "a body beyond its limit")
            _ = try? BundleAcknowledgement(decoding: copy.bundle.body)
        case .report(let report):
            // The members of a filter are bounded by its bytes, whatever its parameter.
            if let summary = report.summary {
                try require(
                    summary.members.values.count <= 8 * summary.filter.bytes.count, "more members than bits in a filter")
            }
            if let filter = report.reachability { try check(filter) }
        case .receipt(let ids):
            try require((1...BundlePacket.maximumReceiptCount).contains(ids.count), "\(ids.count) receipts in one")
        }
        return true
    }

    private static let reachabilityFilter = Self(
        name: "reachability-filter", seeds: [ReachabilityFilter(tags: [5, 1, 1 << 26])!.bytes, [0, 0xff], [26, 0, 0, 0, 0]]
    ) { bytes throws(Violation) in
        guard let filter = try? ReachabilityFilter(decoding: bytes[...]) else { return false }
        try check(filter)
        return true
    }

    private static func check(_ filter: ReachabilityFilter) throws(Violation) {
        let tags = filter.tags
        try require(tags.count <= 8 * filter.bytes.count, "more tags than bits in a filter")
        try require(zip(tags, tags.dropFirst()).allSatisfy { $0 < $1 }, "tags out of order")
        for tag in [tags.first, tags.last].compactMap({ $0 }) {
            try require(filter.contains(tag), "a tag that is listed and not found")
        }
        guard let merged = ReachabilityFilter(tags: tags) else { return }
        try require(merged.tags == tags, "tags that change when they are merged")
    }

    private static let bundleContent = Self(
        name: "bundle-content",
        seeds: [BundleContent.structured(["text": "été", "raw": .binary([0, 255])])].compactMap { try? $0.encoded() }
    ) { bytes throws(Violation) in
        guard let read = try? BundleContent(decoding: bytes[...]) else { return false }
        try requireRoundTrip(read, encode: { try $0.encoded() }, decode: { try BundleContent(decoding: $0) })
        return true
    }
}
