package import NearshareBase

/// The files, or the text, that a LocalSend device offers: the body of `prepare-upload`.
package struct LocalSendOffer: Sendable, Hashable {
    /// One file.
    package struct File: Sendable, Hashable {
        /// The sender's identifier.
        let id: String
        /// The header with which its content is stored.
        package let header: EntryHeader
        let mediaType: ClaimedMediaType
        /// SHA-256 of the content; nil where the sender does not know it.
        package let digest: [UInt8]?

        var size: UInt64 { header.size ?? 0 }
    }

    /// Limit on the body.
    package static let maximumByteCount = 1 << 20
    /// Limit on files: a picker of photos gives several hundred.
    static let maximumFileCount = 1000
    /// Limit on the folders that contain them.
    static let maximumFolderCount = 4096
    /// Limit on the components of a path.
    static let maximumDepth = 32
    static let maximumTotalSize: UInt64 = 1 << 48
    static let maximumIDByteCount = 256

    /// The sender as it describes itself.
    package let device: LocalSendDevice
    /// The files in the order of the sender; one for a text.
    package let files: [File]
    /// The text that is sent instead of a file; nil for files.
    package let text: [UInt8]?
    /// The offer as every protocol makes it.
    package let offer: Offer
    /// All entries of the offer, each folder before what it contains; empty for a text.
    package let contents: [EntryHeader]
    /// The numbers among ``contents`` of the files, in their order.
    private let entryNumbers: [Int]

    package init(decoding bytes: [UInt8]) throws(MalformedInput) {
        guard bytes.count <= Self.maximumByteCount else { throw MalformedInput("LocalSend offer: too large") }
        let body = try JSONElement(decoding: bytes)
        guard let info = body["info"], let members = body["files"]?.members else {
            throw MalformedInput("LocalSend offer: no info or files")
        }
        device = try LocalSendDevice(info)
        guard (1...Self.maximumFileCount).contains(members.count) else {
            throw MalformedInput("LocalSend offer: the number of files")
        }
        if members.count == 1, let text = Self.text(of: members[0].value) {
            self.text = text
            let file = try File(text: text, member: members[0])
            files = [file]
            offer = Offer(
                items: [
                    OfferedItem(
                        kind: .text, name: file.header.path[0], size: UInt64(text.count), entryCount: 1,
                        mediaType: .text)
                ], itemCount: 1, entryCount: 1, totalSize: UInt64(text.count))
            (contents, entryNumbers) = ([], [])
        } else {
            text = nil
            var layout = OfferLayout()
            var files: [File] = []
            for member in members { files.append(try layout.add(member)) }
            self.files = files
            guard !layout.hasFileAsFolder(files) else {
                throw MalformedInput("LocalSend offer: a file contains another one")
            }
            offer = layout.offer
            (contents, entryNumbers) = EntryTree.entries(of: files)
        }
    }

    /// Whether a file belongs to a selection of ``contents``.
    package func isSelected(_ number: Int, in selection: EntrySelection) -> Bool {
        entryNumbers.indices.contains(number) && selection.contains(UInt64(entryNumbers[number]))
    }

    /// Identifies the offered files, or the text: the same for the same ones in the same order.
    package var identity: [UInt8] {
        files.reduce(into: Array("LocalSend".utf8) + (text ?? [])) { bytes, file in
            let path = file.header.path.flatMap { [UInt8(clamping: $0.bytes.count)] + $0.bytes }
            let time = file.header.modified ?? 0
            for number in [UInt64(file.header.path.count), file.size, UInt64(bitPattern: time)] {
                withUnsafeBytes(of: number.bigEndian) { bytes += $0 }
            }
            bytes += path + [UInt8(clamping: file.digest?.count ?? 0)] + (file.digest ?? [])
        }
    }

    /// A text message has its text in `preview`.
    private static func text(of file: JSONElement) -> [UInt8]? {
        guard let type = file["fileType"]?.word, type == "text" || type.hasPrefix("text/plain"),
            let preview = file["preview"]?.string, !preview.isEmpty
        else { return nil }
        return Array(preview.utf8)
    }
}

extension LocalSendOffer.File {
    fileprivate init(text: [UInt8], member: JSONElement.Member) throws(MalformedInput) {
        guard member.name.utf8.count <= LocalSendOffer.maximumIDByteCount, let name = ClaimedFileName("message.txt") else {
            throw MalformedInput("LocalSend offer: an identifier")
        }
        id = member.name
        header = EntryHeader(
            item: 0, kind: .file, path: [name], size: UInt64(text.count), modified: nil, permissions: nil)
        (mediaType, digest) = (.text, nil)
    }

    /// - Parameters:
    ///   - item: the number of the item that it belongs to.
    fileprivate init(
        _ member: JSONElement.Member, item: UInt32, path: [ClaimedFileName], size: UInt64
    ) throws(MalformedInput) {
        id = member.name
        let value = member.value
        mediaType = value["fileType"]?.word.flatMap { ClaimedMediaType($0) } ?? .unknown
        switch value["sha256"] {
        case nil, .null?: digest = nil
        case .string(let text)?:
            guard let bytes = Hex.decode(text), bytes.count == 32 else { throw MalformedInput("LocalSend offer: a checksum") }
            digest = bytes
        default: throw MalformedInput("LocalSend offer: a checksum")
        }
        header = EntryHeader(
            item: item, kind: .file, path: path, size: size,
            modified: value["metadata"]?["modified"]?.string.flatMap { RFC3339.nanoseconds($0) }, permissions: nil)
    }
}

/// The items and folders of an offer while its files are read.
private struct OfferLayout {
    private var items: [OfferedItem] = []
    /// The numbers of the items that are folders, by their names.
    private var folderItems: [ClaimedFileName: Int] = [:]
    private var folders: Set<[ClaimedFileName]> = []
    /// The path of the file before.
    private var previousPath: [ClaimedFileName] = []
    private var fileCount: UInt64 = 0
    private var totalSize: UInt64 = 0

    var offer: Offer {
        Offer(
            items: Array(items.prefix(Offer.maximumDescribedItems)), itemCount: UInt32(clamping: items.count),
            entryCount: fileCount + UInt64(folders.count), totalSize: totalSize)
    }

    /// Whether a name in a folder is that of a file and of a folder.
    func hasFileAsFolder(_ files: [LocalSendOffer.File]) -> Bool {
        files.contains { $0.header.path.count > 1 && folders.contains($0.header.path) }
    }

    mutating func add(_ member: JSONElement.Member) throws(MalformedInput) -> LocalSendOffer.File {
        guard (1...LocalSendOffer.maximumIDByteCount).contains(member.name.utf8.count) else {
            throw MalformedInput("LocalSend offer: an identifier")
        }
        guard let size = member.value["size"]?.integer else { throw MalformedInput("LocalSend offer: a size") }
        let (sum, overflow) = totalSize.addingReportingOverflow(size)
        guard !overflow, sum <= LocalSendOffer.maximumTotalSize else { throw MalformedInput("LocalSend offer: too large") }
        totalSize = sum
        fileCount += 1
        var path = try Self.path(member.value["fileName"]?.string)
        // Files of one folder share the memory of its names (F10).
        for (index, (own, previous)) in zip(path, previousPath).enumerated() where own == previous { path[index] = previous }
        previousPath = path
        if path.count == 1 {
            let file = try LocalSendOffer.File(member, item: UInt32(clamping: items.count), path: path, size: size)
            items.append(
                OfferedItem(kind: .file, name: path[0], size: size, entryCount: 1, mediaType: file.mediaType))
            return file
        }
        let item = folderItems[path[0]] ?? items.count
        if item == items.count {
            folderItems[path[0]] = item
            items.append(
                OfferedItem(kind: .folder, name: path[0], size: 0, entryCount: 0, mediaType: .folder))
        }
        for count in 1..<path.count where folders.insert(Array(path.prefix(count))).inserted {
            items[item].entryCount += 1
        }
        guard folders.count <= LocalSendOffer.maximumFolderCount else {
            throw MalformedInput("LocalSend offer: too many folders")
        }
        items[item].entryCount += 1
        items[item].size = (items[item].size ?? 0) + size
        return try LocalSendOffer.File(member, item: UInt32(clamping: item), path: path, size: size)
    }

    /// The components of a name. Those that lead elsewhere are dropped; the others are made safe where they are stored.
    private static func path(_ name: String?) throws(MalformedInput) -> [ClaimedFileName] {
        guard let name, !name.isEmpty else { throw MalformedInput("LocalSend offer: no file name") }
        var path: [ClaimedFileName] = []
        // By bytes, as it may be long.
        for part in name.utf8.split(separator: UInt8(ascii: "/"))
        where !part.elementsEqual(".".utf8) && !part.elementsEqual("..".utf8) {
            guard let component = ClaimedFileName(bytes: Array(part)), path.count < LocalSendOffer.maximumDepth else {
                throw MalformedInput("LocalSend offer: a file name is too long")
            }
            path.append(component)
        }
        if path.isEmpty, let component = ClaimedFileName("unnamed") { path.append(component) }
        guard path.reduce(0, { $0 + $1.bytes.count }) <= EntryHeader.maximumPathByteCount else {
            throw MalformedInput("LocalSend offer: a file name is too long")
        }
        return path
    }
}
