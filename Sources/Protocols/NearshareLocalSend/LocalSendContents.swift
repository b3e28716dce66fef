package import NearshareBase
package import NearshareHTTP

/// The files, or the text, that this node offers to a LocalSend device: the body of `prepare-upload`, and its answer.
package struct LocalSendContents: Sendable {
    /// One file.
    package struct File: Sendable, Hashable {
        /// The number of its entry in the order of the source, from 0.
        package let entry: Int
        package let header: EntryHeader
        package let size: UInt64
        let mediaType: ClaimedMediaType
        /// SHA-256 of the content; nil where it is not known.
        let digest: [UInt8]?

        /// The path at the receiver.
        package var name: String { header.path.map { String(decoding: $0.bytes, as: UTF8.self) }.joined(separator: "/") }
    }

    /// The reason why content cannot be offered, for users.
    package struct NotPossible: Error, Sendable, Hashable, CustomStringConvertible {
        package let description: String
    }

    /// The answer to an offer.
    package enum Answer: Sendable, Hashable {
        /// - Parameter tokens: those of the accepted files, by their numbers; not empty.
        case accepted(session: String, tokens: [Int: String])
        /// The receiver has shown the text, and needs no file.
        case textShown
        /// The receiver wants none of the files.
        case nothingWanted
        case pinRequired
        case rejected(Rejection)
    }

    /// A response with an error.
    package struct Rejection: Error, Sendable, Hashable {
        package let status: UInt16
        /// The message of the receiver, which is not escaped; nil for none.
        package let message: String?
    }

    /// Limit on files: their tokens are held in memory.
    package static let maximumFileCount = 10_000
    /// Limit on a text that goes along with the offer; a longer one is a file.
    package static let maximumTextByteCount = 65_536
    /// Limit on an identifier of the receiver.
    private static let maximumIDByteCount = 256

    /// The files in the order of the source.
    package private(set) var files: [File] = []
    /// The text that the receiver shows; nil for files.
    package let text: String?
    private var entryCount = 0
    private var linkCount = 0
    private var emptyFolders: Set<[ClaimedFileName]> = []

    /// - Parameter text: what the receiver shows instead of a file; nil for files.
    package init(text: String? = nil) {
        self.text = text
    }

    /// The number of links and empty folders, which the protocol has no form for.
    package var leftOutCount: Int { linkCount + emptyFolders.count }

    package var totalSize: UInt64 { files.reduce(0) { $0.addingClamped($1.size) } }

    /// Adds the next entry of the source.
    /// - Parameter digest: SHA-256 of the content; nil where it is not known.
    package mutating func add(
        _ header: EntryHeader, mediaType: ClaimedMediaType, digest: [UInt8]? = nil
    ) throws(NotPossible) {
        defer { entryCount += 1 }
        switch header.kind {
        case .folder: emptyFolders.insert(header.path)
        case .link: linkCount += 1
        case .file:
            guard let size = header.size else {
                throw NotPossible(description: "LocalSend needs to know the size beforehand; save it as a file, and send that")
            }
            guard files.count < Self.maximumFileCount else {
                throw NotPossible(
                    description: "more than \(Self.maximumFileCount) files are too many for LocalSend; send an archive of them")
            }
            for count in 1..<max(header.path.count, 1) { emptyFolders.remove(Array(header.path.prefix(count))) }
            files.append(File(entry: entryCount, header: header, size: size, mediaType: mediaType, digest: digest))
        }
    }

    // MARK: Offering

    /// The body of `prepare-upload`.
    package func body(from device: LocalSendDevice) -> [UInt8] {
        let members = files.enumerated().map { JSONElement.Member(name: "\($0)", value: describe($1, number: $0)) }
        return Array(JSONElement.members(["info": device.registrationElement, "files": .object(members)]).text.utf8)
    }

    private func describe(_ file: File, number: Int) -> JSONElement {
        var members = [
            JSONElement.Member(name: "id", value: .string("\(number)")),
            JSONElement.Member(name: "fileName", value: .string(file.name)),
            JSONElement.Member(name: "size", value: .integer(file.size)),
            JSONElement.Member(name: "fileType", value: .string(file.mediaType.text)),
        ]
        if let digest = file.digest {
            members.append(JSONElement.Member(name: "sha256", value: .string(Hex.encode(digest))))
        }
        if let text { members.append(JSONElement.Member(name: "preview", value: .string(text))) }
        if let modified = file.header.modified.flatMap({ RFC3339.text(nanoseconds: $0) }) {
            members.append(
                JSONElement.Member(name: "metadata", value: .members(["modified": .string(modified)])))
        }
        return .object(members)
    }

    /// Limit on the response to `prepare-upload`.
    package var maximumResponseByteCount: Int { LocalSendDevice.maximumByteCount + files.count * 2 * Self.maximumIDByteCount }

    /// Reads the response to `prepare-upload`.
    package func answer(_ response: ReceivedHTTPResponse) throws(MalformedInput) -> Answer {
        switch response.status {
        case 200: break
        case 204: return answerWithoutFiles
        case 401: return .pinRequired
        default: return .rejected(Rejection(response))
        }
        let body = try JSONElement(decoding: response.body)
        guard let session = body["sessionId"]?.string, Self.isID(session), let members = body["files"]?.members else {
            throw MalformedInput("LocalSend answer: no session or files")
        }
        var tokens: [Int: String] = [:]
        for member in members {
            guard let number = Int(member.name), files.indices.contains(number), "\(number)" == member.name,
                let token = member.value.string, Self.isID(token)
            else { throw MalformedInput("LocalSend answer: a file that was not offered") }
            tokens[number] = token
        }
        return tokens.isEmpty ? answerWithoutFiles : .accepted(session: session, tokens: tokens)
    }

    private var answerWithoutFiles: Answer { text == nil ? .nothingWanted : .textShown }

    private static func isID(_ text: String) -> Bool { (1...maximumIDByteCount).contains(text.utf8.count) }
}

extension LocalSendContents.Rejection {
    /// Limit on the message of a receiver.
    private static let maximumMessageByteCount = 200

    package init(_ response: ReceivedHTTPResponse) {
        let message = (try? JSONElement(decoding: response.body))?["message"]?.string
        self.init(
            status: response.status, message: message.flatMap { $0.utf8.count <= Self.maximumMessageByteCount ? $0 : nil })
    }
}
