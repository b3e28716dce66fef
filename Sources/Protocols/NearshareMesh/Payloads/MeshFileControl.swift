package import NearshareBase
internal import NearshareCrypto

/// Messages about a file between nearshare peers (`docs/PROTOCOL.md`, section 10): a file is only sent after it was accepted,
/// and both ends learn the outcome. bitchat has no equivalent.
package enum MeshFileControl: Sendable, Hashable {
    /// SHA-256 of the encoded ``MeshFile``: the same at both ends.
    package struct FileID: Sendable, Hashable {
        package static let byteCount = 32
        /// ``byteCount`` bytes.
        package let bytes: [UInt8]

        /// - Parameter digest: of an encoded file.
        init(digest: [UInt8]) {
            // Safe: digests of SHA-256, or bytes read with this size.
            precondition(digest.count == Self.byteCount)
            bytes = digest
        }

        /// - Returns: nil for anything but 32 bytes.
        package init?(bytes: some Collection<UInt8>) {
            guard bytes.count == Self.byteCount else { return nil }
            self.bytes = Array(bytes)
        }

        /// The id in 64 lower-case hexadecimal digits.
        package var hex: String { Hex.encode(bytes) }
    }

    /// The reason why a file is declined.
    package enum DeclineReason: UInt8, Sendable {
        /// The user declined.
        case declined = 1
        /// The receiver has too much pending.
        case busy = 2
        /// Over a limit of the receiver, or its storage is full.
        case tooLarge = 3
        /// The offer was not answered in time.
        case expired = 4
        /// The receiver accepts files from friends only.
        case notAllowed = 5
        /// The receiver accepts nothing from this sender. Unknown to earlier versions, for which it is ``declined``.
        case acceptsNothing = 6
    }

    /// Limit on indices in one message; the receiver asks for more in the next.
    package static let maximumMissingCount = 128

    /// Offers a file. A repeated offer asks for the receiver's state, which is answered by accept, decline, missing or stored.
    case offer(MeshFileOffer)
    /// Accepts the file: its fragments may be sent.
    case accept(FileID)
    /// Declines the file.
    case decline(FileID, DeclineReason)
    /// Requests fragments that were not received, at most ``maximumMissingCount``; the receiver requests the rest later.
    case missing(FileID, [UInt16])
    /// Confirms that the file is complete and in the inbox.
    case stored(FileID)
    /// Cancels the file, from either end.
    /// - Parameter isExpired: because the offer was not answered in time.
    case cancel(FileID, isExpired: Bool = false)

    /// The file that the message is about.
    package var file: FileID {
        switch self {
        case .offer(let offer): offer.id
        case .accept(let id), .decline(let id, _), .missing(let id, _), .stored(let id), .cancel(let id, _): id
        }
    }

    /// Decodes the body; bytes that follow it are ignored.
    package init(decoding body: ArraySlice<UInt8>) throws(MalformedInput) {
        var reader = ByteReader(body, of: "file control")
        let kind: UInt8 = try reader.readInteger()
        let id = FileID(digest: Array(try reader.readBytes(FileID.byteCount)))
        switch kind {
        case Kind.offer:
            let size: UInt32 = try reader.readInteger()
            let count: UInt16 = try reader.readInteger()
            let fragmentID = MeshFragment.ID(rawValue: try reader.readInteger())
            let name = ClaimedFileName(bytes: try reader.readCounted(by: UInt8.self, upTo: 255, field: "the name"))
            let type = try reader.readCounted(by: UInt8.self, upTo: 127, field: "the type")
            guard let name, let type = String(validating: type, as: UTF8.self), size <= MeshFile.maximumContentByteCount,
                (1...MeshFragment.maximumCount).contains(Int(count))
            else { throw MalformedInput("file control: an offer out of bounds") }
            self = .offer(
                MeshFileOffer(id: id, size: size, fragmentCount: count, fragmentID: fragmentID, name: name, mediaType: type))
        case Kind.accept: self = .accept(id)
        case Kind.decline:
            // Later versions may have more reasons.
            self = .decline(id, DeclineReason(rawValue: try reader.readInteger()) ?? .declined)
        case Kind.missing:
            let count = Int(try reader.readInteger(UInt8.self))
            guard count <= Self.maximumMissingCount else { throw MalformedInput("file control: too many fragments at once") }
            var indices: [UInt16] = []
            for _ in 0..<count { indices.append(try reader.readInteger()) }
            self = .missing(id, indices)
        case Kind.stored: self = .stored(id)
        case Kind.cancel:
            // Without a reason, a user has cancelled.
            self = .cancel(id, isExpired: reader.readRemaining().first == Self.expiredReason)
        default: throw MalformedInput("file control: an unknown kind")
        }
        // Later versions may append fields.
        _ = reader.readRemaining()
    }

    /// The body, which follows the kind in the payload.
    package var encoded: [UInt8] {
        var writer = ByteWriter()
        switch self {
        case .offer(let offer):
            writer.write(Kind.offer)
            writer.write(offer.id.bytes)
            writer.write(offer.size)
            writer.write(offer.fragmentCount)
            writer.write(offer.fragmentID.bytes)
            writer.writeCounted(offer.name.bytes, by: UInt8.self)
            writer.writeCounted(offer.mediaType.utf8, by: UInt8.self)
        case .accept(let id): writer.write([Kind.accept] + id.bytes)
        case .decline(let id, let reason): writer.write([Kind.decline] + id.bytes + [reason.rawValue])
        case .missing(let id, let indices):
            writer.write([Kind.missing] + id.bytes + [UInt8(clamping: indices.count)])
            for index in indices { writer.write(index) }
        case .stored(let id): writer.write([Kind.stored] + id.bytes)
        case .cancel(let id, let isExpired): writer.write([Kind.cancel] + id.bytes + (isExpired ? [Self.expiredReason] : []))
        }
        return writer.bytes
    }

    private static let expiredReason: UInt8 = 1

    private enum Kind {
        static let offer: UInt8 = 1
        static let accept: UInt8 = 2
        static let decline: UInt8 = 3
        static let stored: UInt8 = 4
        static let cancel: UInt8 = 5
        static let missing: UInt8 = 6
    }
}

extension MeshFileControl.FileID {
    /// The id of an encoded file, which identifies its transfer at both ends (bitchat specification, section 7.1).
    package init(ofEncoded file: ArraySlice<UInt8>) {
        var hasher = SHA256Hasher()
        file.withUnsafeBytes { hasher.update($0) }
        self.init(digest: hasher.finalize())
    }
}
