package import NearshareBase

/// What nearshare peers say about a file besides sending it (`docs/PROTOCOL.md`, section 10): so that nothing is sent that was
/// not accepted, and both ends know how it ended. bitchat itself has none of this.
package enum MeshFileControl: Sendable, Hashable {
    /// SHA-256 of the encoded ``MeshFile``: one file, the same at both ends. 32 bytes.
    package struct FileID: Sendable, Hashable {
        /// Of a SHA-256 digest.
        package static let byteCount = 32
        /// The SHA-256 of the encoded file.
        package let bytes: [UInt8]

        /// - Returns: nil for anything but 32 bytes.
        package init?(bytes: some Collection<UInt8>) {
            guard bytes.count == Self.byteCount else { return nil }
            self.bytes = Array(bytes)
        }

        /// In 64 lower-case hexadecimal digits.
        package var hex: String { Hex.encode(bytes) }
    }

    /// What is said about a file before it is sent.
    package struct Offer: Sendable, Hashable {
        /// Of the file.
        package var id: FileID
        /// Of the content, in bytes.
        package var size: UInt32
        /// How many fragments it will take, so that the receiver can show how far it is.
        package var fragmentCount: UInt16
        /// Names the fragments to come.
        package var fragmentID: MeshFragment.ID
        /// At most 255 bytes, of any value.
        package var name: ClaimedFileName
        /// At most 127 bytes.
        package var mediaType: String

        /// Puts an offer together.
        package init(
            id: FileID, size: UInt32, fragmentCount: UInt16, fragmentID: MeshFragment.ID, name: ClaimedFileName,
            mediaType: String
        ) {
            self.id = id
            self.size = size
            self.fragmentCount = fragmentCount
            self.fragmentID = fragmentID
            self.name = name
            self.mediaType = mediaType
        }
    }

    /// Why a file is not taken.
    package enum Refusal: UInt8, Sendable {
        /// The person there said no.
        case declined = 1
        /// The receiver has more pending than it takes at once.
        case busy = 2
        /// Over a limit of the receiver's, or no room for it.
        case tooLarge = 3
        /// Nobody answered in time.
        case expired = 4
    }

    /// In one message; more are asked for in the next.
    package static let maximumMissingCount = 128

    /// Sent again, it asks how far the receiver is, who answers with what applies: accepted, refused, missing, stored.
    case offer(Offer)
    /// The fragments may come.
    case accept(FileID)
    /// They may not.
    case refuse(FileID, Refusal)
    /// These fragments have not come. At most ``maximumMissingCount`` indices; the receiver asks again for the rest.
    case missing(FileID, [UInt16])
    /// It is whole and in the inbox.
    case stored(FileID)
    /// Either side ends it.
    case cancel(FileID)

    /// The file that it is about.
    package var file: FileID {
        switch self {
        case .offer(let offer): offer.id
        case .accept(let id), .refuse(let id, _), .missing(let id, _), .stored(let id), .cancel(let id): id
        }
    }

    /// Reads one; what follows the body is skipped.
    package init(decoding body: ArraySlice<UInt8>) throws(MalformedInput) {
        var reader = ByteReader(body, of: "file control")
        let kind: UInt8 = try reader.readInteger()
        let id = FileID(bytes: try reader.readBytes(FileID.byteCount))!
        switch kind {
        case Kind.offer:
            let size: UInt32 = try reader.readInteger()
            let count: UInt16 = try reader.readInteger()
            let fragmentID = MeshFragment.ID(bytes: try reader.readBytes(MeshFragment.ID.byteCount))!
            let name = ClaimedFileName(bytes: try reader.readCounted(by: UInt8.self, upTo: 255, field: "the name"))!
            let type = try reader.readCounted(by: UInt8.self, upTo: 127, field: "the type")
            guard let type = String(validating: type, as: UTF8.self), size <= MeshFile.maximumContentByteCount,
                (1...MeshFragment.maximumCount).contains(Int(count))
            else { throw MalformedInput("file control: an offer out of bounds") }
            self = .offer(
                Offer(id: id, size: size, fragmentCount: count, fragmentID: fragmentID, name: name, mediaType: type))
        case Kind.accept: self = .accept(id)
        case Kind.refuse:
            guard let reason = Refusal(rawValue: try reader.readInteger()) else {
                throw MalformedInput("file control: an unknown reason")
            }
            self = .refuse(id, reason)
        case Kind.missing:
            let count = Int(try reader.readInteger(UInt8.self))
            guard count <= Self.maximumMissingCount else { throw MalformedInput("file control: too many fragments at once") }
            var indices: [UInt16] = []
            for _ in 0..<count { indices.append(try reader.readInteger()) }
            self = .missing(id, indices)
        case Kind.stored: self = .stored(id)
        case Kind.cancel: self = .cancel(id)
        default: throw MalformedInput("file control: an unknown kind")
        }
        // What later versions add is skipped.
        _ = reader.readRemaining()
    }

    /// As what stands in the payload, behind its type.
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
        case .refuse(let id, let reason): writer.write([Kind.refuse] + id.bytes + [reason.rawValue])
        case .missing(let id, let indices):
            writer.write([Kind.missing] + id.bytes + [UInt8(indices.count)])
            for index in indices { writer.write(index) }
        case .stored(let id): writer.write([Kind.stored] + id.bytes)
        case .cancel(let id): writer.write([Kind.cancel] + id.bytes)
        }
        return writer.bytes
    }

    private enum Kind {
        static let offer: UInt8 = 1
        static let accept: UInt8 = 2
        static let refuse: UInt8 = 3
        static let stored: UInt8 = 4
        static let cancel: UInt8 = 5
        static let missing: UInt8 = 6
    }
}
