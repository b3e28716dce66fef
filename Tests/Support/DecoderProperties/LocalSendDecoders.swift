import NearshareBase
import NearshareHTTP
import NearshareLocalSend

extension DecoderProperty {
    static let localSend = [localSendDevice, localSendOffer, httpBody, httpResponse]

    private static let deviceText =
        #"{"alias":"Nice Orange","version":"2.1","deviceModel":"Pixel","deviceType":"mobile","fingerprint":"0A1B","#
        + #""port":53317,"protocol":"https","download":false,"announce":true}"#

    private static let localSendDevice = Self(name: "localsend-device", seeds: [Array(deviceText.utf8)]) {
        bytes throws(Violation) in
        guard let device = try? LocalSendDevice(decoding: bytes) else { return false }
        try require(bytes.count <= LocalSendDevice.maximumByteCount, "a device beyond its limit")
        try require(device.port > 0, "a port that nothing can have")
        try require(!device.fingerprint.isEmpty, "no fingerprint")
        // This node can read again what it writes.
        guard let again = try? LocalSendDevice(decoding: device.announcement) else {
            // Escapes make it longer.
            return try requireLong(device.announcement)
        }
        try require(again.name == device.name && again.port == device.port, "\(device) comes back as \(again)")
        return true
    }

    private static func requireLong(_ bytes: [UInt8]) throws(Violation) -> Bool {
        try require(bytes.count > LocalSendDevice.maximumByteCount, "an announcement that cannot be read")
        return true
    }

    private static let localSendOffer = Self(
        name: "localsend-offer",
        seeds: [
            #"{"info":\#(deviceText),"files":{"a":{"id":"a","fileName":"t/é/a.txt","size":3,"fileType":"text/plain","#
                + #""sha256":null,"metadata":{"modified":"2026-11-23T16:50:00.123Z"}},"b":{"fileName":"b","size":0}}}"#,
            #"{"info":\#(deviceText),"files":{"a":{"fileName":"x","size":3,"fileType":"text/plain","preview":"\ud83d\ude00\n"}}}"#,
        ].map { Array($0.utf8) }
    ) { bytes throws(Violation) in
        guard let content = try? LocalSendOffer(decoding: bytes) else { return false }
        let offer = content.offer
        let total = content.files.reduce(0) { $0 + ($1.header.size ?? 0) }
        try require(total == offer.totalSize, "the sizes do not add up")
        try require(content.files.allSatisfy { $0.header.item < offer.itemCount }, "a file of no item")
        try require(content.files.allSatisfy { !$0.header.path.isEmpty }, "a file without a name")
        try require(offer.items.count == min(Int(offer.itemCount), Offer.maximumDescribedItems), "items are missing")
        try require(offer.entryCount >= UInt64(content.files.count), "entries are missing")
        guard content.text == nil, let all = EntrySelection(ranges: [0...offer.entryCount - 1]) else { return true }
        try require(UInt64(content.contents.count) == offer.entryCount, "the list is not that of the offer")
        // All of it is a part as well, and contains each file.
        let part = OfferPart(all, of: offer, listed: content.contents)
        try require(part?.offer == offer, "the whole offer is no part of it")
        try require(content.files.indices.allSatisfy { content.isSelected($0, in: all) }, "a file is not listed")
        return true
    }

    /// Bodies are the same however their bytes are divided.
    private static let httpBody = Self(
        name: "http-body",
        seeds: ["3\r\nabc\r\n0\r\n\r\n", "A;x=y\r\n0123456789\r\n00\r\nTrailer: x\r\n\r\nrest"].map { Array($0.utf8) }
    ) { bytes throws(Violation) in
        let whole = body(in: bytes, pieceByteCount: max(1, bytes.count))
        let single = body(in: bytes, pieceByteCount: 1)
        try require(whole.content == single.content && whole.isComplete == single.isComplete, "another body in pieces")
        try require(whole.content.count <= bytes.count, "more content than bytes")
        return whole.isComplete
    }

    private static func body(in bytes: [UInt8], pieceByteCount: Int) -> (content: [UInt8], isComplete: Bool) {
        var decoder = HTTPBodyDecoder(.chunked)
        var found: [UInt8] = []
        for start in stride(from: 0, to: bytes.count, by: pieceByteCount) {
            var piece = bytes[start..<min(start + pieceByteCount, bytes.count)]
            while !piece.isEmpty, !decoder.isComplete {
                let decoded = piece.withUnsafeBytes { raw in try? decoder.decode(raw) }
                guard let decoded else { return (found, false) }
                found +=
                    piece[(piece.startIndex + decoded.content.lowerBound)..<(piece.startIndex + decoded.content.upperBound)]
                piece = piece.dropFirst(decoded.usedCount)
            }
        }
        return (found, decoder.isComplete)
    }

    /// Responses are the same however their bytes are divided, and keep their limits.
    private static let httpResponse = Self(
        name: "http-response",
        seeds: [
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n0\r\n\r\n",
            "HTTP/1.0 200 OK\r\n\r\nabc",
        ].map { Array($0.utf8) }
    ) { bytes throws(Violation) in
        let whole = responses(in: bytes, pieceByteCount: max(1, bytes.count))
        let single = responses(in: bytes, pieceByteCount: 1)
        try require(whole == single, "other responses in pieces")
        for response in whole {
            try require((200...599).contains(response.status), "a status that is none")
            try require(response.body.count <= maximumResponseByteCount, "a body beyond its limit")
        }
        return !whole.isEmpty
    }

    private static let maximumResponseByteCount = 100

    /// The responses before the first malformed one.
    private static func responses(in bytes: [UInt8], pieceByteCount: Int) -> [ReceivedHTTPResponse] {
        var reader = HTTPResponseReader(limit: maximumResponseByteCount)
        var found: [ReceivedHTTPResponse] = []
        for start in stride(from: 0, to: bytes.count, by: pieceByteCount) {
            bytes[start..<min(start + pieceByteCount, bytes.count)].withUnsafeBytes { reader.append($0) }
            do throws(MalformedHTTPResponse) {
                while let next = try reader.next() { found.append(next) }
            } catch {
                return found
            }
        }
        if let last = reader.end() { found.append(last) }
        return found
    }
}
