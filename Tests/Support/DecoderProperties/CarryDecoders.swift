import NearshareBase
import NearshareWire

extension DecoderProperty {
    static let carry = [carryPacket, carriedContent, carriedReach]

    private static let sampleMessage = CarriedMessage(
        kind: .sealed, receiver: .address(CarriedAddress(rawValue: 0x0102_0304_0506_0708)), profile: .sparse,
        created: WallTime(milliseconds: 1_800_000_000_123), senderKey: Array(0..<32),
        lock: [UInt8](repeating: 7, count: CarriedMessage.lockByteCount), body: [1, 2, 3])

    private static let samplePackets: [CarryPacket] = {
        let place = CarryReport.Place(root: CarriedAddress(rawValue: 3), round: 4, distance: 5)
        let ids = (0..<40).map { CarriedID(bytes: [UInt8](repeating: $0, count: CarriedID.byteCount))! }
        var broadcast = sampleMessage
        (broadcast.kind, broadcast.receiver, broadcast.lock) = (.clear, .everybody, nil)
        var acknowledgement = sampleMessage
        (acknowledgement.kind, acknowledgement.lock) = (.acknowledgement, nil)
        acknowledgement.body =
            CarriedAcknowledgement(
                id: ids[0], secret: [UInt8](repeating: 9, count: CarriedAcknowledgement.secretByteCount)
            ).encoded
        let signature = [UInt8](repeating: 5, count: CarriedMessage.signatureByteCount)
        return [sampleMessage, broadcast, acknowledgement].map {
            .copy(CarriedCopy(hops: 9, way: .spread, carriers: [1, .max], message: $0, signature: signature))
        } + [
            .report(CarryReport(place: place, isToParent: true)),
            .report(
                CarryReport(
                    place: place, isToParent: false, isAnswer: true, token: 77,
                    summary: CarrySummary(of: ids, turn: 1, salt: 9), reach: CarryReach(marks: [5, 1, 1 << 26]))),
            .receipt([1, .max]),
        ]
    }()

    private static let carryPacket = Self(name: "carry-packet", seeds: samplePackets.map(\.encoded)) {
        bytes throws(Violation) in
        guard let read = try? CarryPacket(decoding: bytes[...]) else { return false }
        try requireRoundTrip(read, encode: { $0.encoded }, decode: { try CarryPacket(decoding: $0) })
        switch read {
        case .copy(let copy):
            try require(copy.encoded.count <= CarriedCopy.maximumByteCount, "a copy beyond its limit")
            try require(copy.message.body.count <= CarriedMessage.maximumBodyByteCount, "a body beyond its limit")
            _ = try? CarriedAcknowledgement(decoding: copy.message.body)
        case .report(let report):
            // What a filter holds is bounded by its bytes, whatever its parameter says.
            if let summary = report.summary {
                try require(
                    summary.members.values.count <= 8 * summary.filter.bytes.count, "more members than bits in a filter")
            }
            if let reach = report.reach { try checkReach(reach) }
        case .receipt(let ids):
            try require((1...CarryPacket.maximumReceiptCount).contains(ids.count), "\(ids.count) receipts in one")
        }
        return true
    }

    private static let carriedReach = Self(
        name: "carried-reach", seeds: [CarryReach(marks: [5, 1, 1 << 26])!.bytes, [0, 0xff], [26, 0, 0, 0, 0]]
    ) { bytes throws(Violation) in
        guard let reach = try? CarryReach(decoding: bytes[...]) else { return false }
        try checkReach(reach)
        return true
    }

    private static func checkReach(_ reach: CarryReach) throws(Violation) {
        let marks = reach.marks
        try require(marks.count <= 8 * reach.bytes.count, "more marks than bits in a reach")
        try require(zip(marks, marks.dropFirst()).allSatisfy { $0 < $1 }, "marks out of order")
        for mark in [marks.first, marks.last].compactMap({ $0 }) {
            try require(reach.contains(mark), "a mark that is listed, and not found")
        }
        guard let merged = CarryReach(marks: marks) else { return }
        try require(merged.marks == marks, "marks that change when they are merged")
    }

    private static let carriedContent = Self(
        name: "carried-content",
        seeds: [CarriedContent.structured(["text": "été", "raw": .binary([0, 255])])].compactMap { try? $0.encoded() }
    ) { bytes throws(Violation) in
        guard let read = try? CarriedContent(decoding: bytes[...]) else { return false }
        try requireRoundTrip(read, encode: { try $0.encoded() }, decode: { try CarriedContent(decoding: $0) })
        return true
    }
}
