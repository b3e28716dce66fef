internal import FoundationEssentials
internal import NearshareBase

/// The description of a complete transfer, stored in the file `finished`: enough to deliver it after a restart.
struct FinishedTransfer: Codable, Sendable {
    struct Item: Codable, Sendable {
        var kind: UInt8
        var claimedName: [UInt8]
        var claimedType: String
        /// Content in bytes, equal to the offered size; nil where that was unknown.
        var size: UInt64?

        /// Whether it is standard input to which the sender has given no name.
        var isUnnamedStream: Bool { size == nil && claimedName == Array(StreamSource.defaultName.utf8) }
    }

    /// The described items of the offer, in their order.
    var items: [Item]
    /// nil in records of earlier versions, which keep both.
    var existing: ExistingFilePolicy?
    /// Whether files may be hard links to files of the inbox.
    var mayContainHardLinks: Bool?

    private enum CodingKeys: String, CodingKey {
        case items, existing
        case mayContainHardLinks = "sharesFiles"
    }

    static let maximumByteCount = 1 << 20

    init(_ offer: Offer, existing: ExistingFilePolicy, mayContainHardLinks: Bool) {
        self.existing = existing
        self.mayContainHardLinks = mayContainHardLinks
        items = offer.items.map {
            Item(kind: $0.kind.rawValue, claimedName: $0.name.bytes, claimedType: $0.mediaType.text, size: $0.size)
        }
    }

    init?(decoding bytes: [UInt8]) {
        guard let value = try? JSONDecoder().decode(FinishedTransfer.self, from: Data(bytes)) else { return nil }
        self = value
    }

    var encoded: [UInt8] { Array((try? JSONEncoder().encode(self)) ?? Data()) }
}
