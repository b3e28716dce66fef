package import NearshareBase
internal import NearshareHTTP

/// The files and texts that a page offers to browsers (`docs/PROTOCOL.md`, section 15.5). Each is one entry of the list, numbered
/// from 1; a folder is an archive.
package struct PageShare: Sendable {
    /// One file or text.
    package struct Item: Sendable, Hashable {
        let kind: OfferedItem.Kind
        let name: ClaimedFileName
        let mediaType: ClaimedMediaType
        /// In bytes; nil for standard input.
        package let size: UInt64?

        package init(_ item: OfferedItem) {
            (kind, name, mediaType, size) = (item.kind, item.name, item.mediaType, item.size)
        }
    }

    /// Limit on items; more of them are sent as one archive.
    package static let maximumItemCount = 100
    /// Limit on content that a page holds in memory. Larger items have a path for an unencrypted download; standard input
    /// that is longer fails.
    package static let maximumInMemoryByteCount: UInt64 = 200_000_000
    /// The size of a chunk of content; only the last one is shorter.
    package static let chunkByteCount = ChunkWindow.chunkByteCount

    package let items: [Item]

    package init(_ items: [Item]) { self.items = items }

    /// The numbers of the items.
    var numbers: Range<UInt32> { 1..<UInt32(clamping: items.count + 1) }

    subscript(number: UInt32) -> Item? { numbers.contains(number) ? items[Int(number) - 1] : nil }

    /// The list that a browser fetches.
    /// - Parameters:
    ///   - received: the items that the browser has.
    ///   - unencryptedPaths: by the numbers of the items that have one.
    func encoded(received: Set<UInt32>, unencryptedPaths: [UInt32: String]) -> [UInt8] {
        var list = ByteWriter()
        list.write(UInt16(clamping: items.count))
        for (number, item) in zip(numbers, items) {
            list.write(item.kind == .text ? UInt8(2) : 0)
            list.write(received.contains(number) ? UInt8(1) : 0)
            // Bounded: names have at most 255 bytes, media types 100 and paths 26.
            list.writeCounted(String(decoding: item.name.bytes, as: UTF8.self).utf8.prefix(255), by: UInt8.self)
            list.writeCounted(item.mediaType.text.utf8, by: UInt8.self)
            list.write(item.size ?? .max)
            list.writeCounted((unencryptedPaths[number] ?? "").utf8, by: UInt8.self)
        }
        return list.bytes
    }
}

/// The paths of unencrypted downloads. Each belongs to one item for one browser, until the item has been received; it works only
/// from the address from which the browser asked for the list.
struct UnencryptedPagePaths: Sendable {
    struct Download: Sendable {
        let offer: PageMachine.OfferID
        let item: UInt32
        /// The numeric address of the browser.
        var host: String
        /// The bytes that were received: disjoint ranges in ascending order.
        private(set) var received: [Range<UInt64>] = []
        var requestCount = 0

        /// Bytes from the start that were received without a gap.
        var receivedByteCount: UInt64 { received.first.map { $0.lowerBound == 0 ? $0.upperBound : 0 } ?? 0 }

        /// Records bytes that the browser has received. Download managers fetch several ranges at once, which
        /// end in any order. Each request adds one range at most, and ``UnencryptedPagePaths/maximumRequestCount`` limits them.
        mutating func record(_ bytes: Range<UInt64>) {
            guard !bytes.isEmpty else { return }
            var merged = bytes
            let others = received.filter { range in
                guard range.lowerBound <= merged.upperBound, merged.lowerBound <= range.upperBound else { return true }
                merged = min(range.lowerBound, merged.lowerBound)..<max(range.upperBound, merged.upperBound)
                return false
            }
            received = (others + [merged]).sorted { $0.lowerBound < $1.lowerBound }
        }
    }

    /// Limit on the requests for one path: a download manager makes some with ranges, and each may read an archive from its start
    /// (N14).
    static let maximumRequestCount = 1000

    private var downloads: [String: Download] = [:]
    private var lastNumber: UInt64 = 0

    /// The path of an item, which is a new one when there is none.
    mutating func path(
        of item: UInt32, in offer: PageMachine.OfferID, for host: String, _ secret: PageSecret
    ) -> String {
        if let known = downloads.first(where: { $0.value.offer == offer && $0.value.item == item })?.key {
            downloads[known]?.host = host
            return known
        }
        lastNumber += 1
        let path = secret.unencryptedPath(number: lastNumber)
        downloads[path] = Download(offer: offer, item: item, host: host)
        return path
    }

    /// Counts a request.
    /// - Throws: the status of a request that is not answered with content.
    mutating func admit(_ path: String, from host: String) throws(HTTPStatus) -> Download {
        // Exhausted, or never issued.
        guard var download = downloads[path], download.requestCount < Self.maximumRequestCount else { throw .gone }
        guard download.host == host else { throw .forbidden }
        download.requestCount += 1
        downloads[path] = download
        return download
    }

    /// Records that a browser has received bytes.
    /// - Returns: the download with them; nil for an unknown path.
    mutating func record(_ bytes: Range<UInt64>, over path: String) -> Download? {
        guard var download = downloads[path] else { return nil }
        download.record(bytes)
        downloads[path] = download
        return download
    }

    /// Removes the paths of an offer, or of one of its items.
    mutating func remove(_ offer: PageMachine.OfferID, item: UInt32? = nil) {
        downloads = downloads.filter { $0.value.offer != offer || item != nil && $0.value.item != item }
    }
}
