package import NearshareBase

/// The delivery mode of a message.
package enum MessageMode: String, Sendable, Hashable, CaseIterable {
    /// Only while the receiver is in range.
    case direct
    /// Stored and forwarded by other nodes.
    case mesh
    /// Direct if the receiver is in range, otherwise by mesh.
    case full
    /// By mesh, to everyone.
    case broadcast
}

/// The properties of a message that ``validatedEncoding(needsRadio:)`` checks.
package struct MessageRequest: Sendable, Hashable {
    package var content: BundleContent
    package var mode: MessageMode
    package var hasReceiver: Bool
    package var isEncrypted: Bool
    /// Forwarding nodes learn neither the sender nor the receiver.
    package var isPrivate: Bool
    /// Size of the file that is sent with it, in bytes.
    package var fileByteCount: Int?

    package init(
        _ content: BundleContent, mode: MessageMode, hasReceiver: Bool, isEncrypted: Bool, isPrivate: Bool = false,
        fileByteCount: Int? = nil
    ) {
        self.content = content
        self.mode = mode
        self.hasReceiver = hasReceiver
        self.isEncrypted = isEncrypted
        self.isPrivate = isPrivate
        self.fileByteCount = fileByteCount
    }
}

/// A violation of the rules of messages, found before anything is sent.
package enum MessageError: Error, Sendable, Hashable, CustomStringConvertible {
    case broadcastCannotBeEncrypted
    case broadcastHasNoReceiver
    case receiverIsMissing(MessageMode)
    case fileNeedsDirectMode(MessageMode)
    /// Sizes in bytes.
    case fileTooLarge(Int, limit: Int)
    /// Sizes of the encoded content, in bytes.
    case contentTooLarge(Int, limit: Int, isRadio: Bool)
    /// Sizes of the text, in bytes.
    case textTooLarge(Int, limit: Int, isRadio: Bool)
    case notJSON(StructuredValue.Invalid)
    case receiverNotInRange
    /// No key of the receiver is known, so nothing can be sealed.
    case receiverKeyUnknown
    /// The receiver is in range, but does not support messages: a phone, or nearshare without a node.
    case receiverTakesNone
    case privacyNeedsEncryption

    package var description: String {
        switch self {
        case .broadcastCannotBeEncrypted:
            "a broadcast cannot be encrypted; send it unencrypted, or to one receiver"
        case .broadcastHasNoReceiver: "a broadcast has no receiver; omit the receiver, or choose another mode"
        case .receiverIsMissing(let mode): "a message in mode \(mode.rawValue) needs a receiver; name one, or broadcast it"
        case .fileNeedsDirectMode(let mode):
            "a file can be sent with a message in direct mode only, not in mode \(mode.rawValue); send it when the receiver is in range"
        case .fileTooLarge(let count, let limit):
            "the file has \(count) bytes, and the limit of a message's file is \(limit)"
        case .contentTooLarge(let count, let limit, let isRadio):
            "the encoded message has \(Self.excess(count, over: limit, isRadio))"
        case .textTooLarge(let count, let limit, let isRadio): "the text has \(Self.excess(count, over: limit, isRadio))"
        case .notJSON(let reason): reason.description
        case .receiverNotInRange: "the receiver is not in range; come closer, or send it by mesh"
        case .receiverKeyUnknown: "the keys to encrypt messages for the receiver are missing"
        case .receiverTakesNone:
            "the receiver does not support messages of the store-and-forward mesh"
        case .privacyNeedsEncryption: "a private message must be encrypted; send it encrypted, or broadcast it"
        }
    }

    private static func excess(_ count: Int, over limit: Int, _ isRadio: Bool) -> String {
        "\(count) bytes, and the limit is \(limit) \(isRadio ? "over Bluetooth" : "over the local network"); shorten it, or split it"
    }
}

extension MessageRequest {
    /// Limit of a file, which is sent as fragments, in bytes.
    package static let fileLimit = MeshFileLimit.byteCount
    /// Recommended limit of a file over Bluetooth, in bytes.
    package static let recommendedRadioFileByteCount = 120_000

    /// Encodes the content, and checks everything that does not depend on the peers in range.
    /// - Parameter needsRadio: the receiver, or every neighbour, is behind a Bluetooth hop.
    /// - Returns: the encoded content.
    package func validatedEncoding(needsRadio: Bool) throws(MessageError) -> [UInt8] {
        if mode == .broadcast {
            guard !hasReceiver else { throw .broadcastHasNoReceiver }
            guard !isEncrypted else { throw .broadcastCannotBeEncrypted }
        } else {
            guard hasReceiver else { throw .receiverIsMissing(mode) }
            guard isEncrypted || !isPrivate else { throw .privacyNeedsEncryption }
        }
        if let count = fileByteCount {
            guard mode == .direct else { throw .fileNeedsDirectMode(mode) }
            guard count <= Self.fileLimit else { throw .fileTooLarge(count, limit: Self.fileLimit) }
        }
        let encoded: [UInt8]
        do {
            encoded = try content.encoded()
        } catch {
            throw .notJSON(error)
        }
        let limit = needsRadio ? BundleContent.maximumRadioByteCount : BundleContent.maximumByteCount
        // The byte for the kind of content does not count.
        let byteCount = encoded.count - 1
        guard byteCount <= limit else {
            // The user sees the text alone, and not what is encoded around it.
            if case .structured(.object(let members)) = content, members.count == 1, case .string(let text)? = members["text"] {
                let textCount = text.utf8.count
                throw .textTooLarge(textCount, limit: limit - (byteCount - textCount), isRadio: needsRadio)
            }
            throw .contentTooLarge(byteCount, limit: limit, isRadio: needsRadio)
        }
        return encoded
    }
}
