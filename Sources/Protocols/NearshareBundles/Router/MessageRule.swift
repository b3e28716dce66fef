package import NearshareBase

/// How a message goes to somebody.
package enum MessageMode: String, Sendable, Hashable, CaseIterable {
    /// Only while the receiver is in range.
    case direct
    /// Held and carried by others.
    case mesh
    /// Direct if the receiver is in range, else by mesh.
    case full
    /// By mesh, to everybody.
    case broadcast
}

/// What is to be sent, as far as its rules go.
package struct MessageRequest: Sendable, Hashable {
    package var content: BundleContent
    package var mode: MessageMode
    package var hasReceiver: Bool
    package var isEncrypted: Bool
    /// Carriers are to learn neither who sent it nor whom it is for.
    package var isPrivate: Bool
    /// Of the file beside it, in bytes.
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

/// The rule that a message breaks. Checked before anything is sent.
package enum MessageRule: Error, Sendable, Hashable, CustomStringConvertible {
    case broadcastCannotBeEncrypted
    case broadcastHasNoReceiver
    case receiverIsMissing(MessageMode)
    case fileNeedsDirectMode(MessageMode)
    /// In bytes.
    case fileTooLarge(Int, limit: Int)
    case contentTooLarge(Int, limit: Int, isRadio: Bool)
    case notJSON(StructuredValue.Invalid)
    case receiverNotInRange
    /// Nobody has told us a key to seal for.
    case receiverKeyUnknown
    /// In range, but what runs there carries no messages: a phone, or nearshare without a node.
    case receiverTakesNone
    case privacyNeedsEncryption

    package var description: String {
        switch self {
        case .broadcastCannotBeEncrypted:
            "a broadcast can't be encrypted, for everybody is to read it; send it unencrypted, or to one receiver"
        case .broadcastHasNoReceiver: "a broadcast goes to everybody; leave out the receiver, or choose another mode"
        case .receiverIsMissing(let mode): "a message in mode \(mode.rawValue) needs a receiver; name one, or broadcast it"
        case .fileNeedsDirectMode(let mode):
            "a file goes beside a message in direct mode only, not by \(mode.rawValue); send the file when they are in range"
        case .fileTooLarge(let count, let limit):
            "the file has \(count) bytes, and \(limit) are the most; send it with `nearshare send`"
        case .contentTooLarge(let count, let limit, let isRadio):
            "the message has \(count) bytes, and \(limit) are the most "
                + (isRadio ? "where a Bluetooth hop is needed" : "over the local network") + "; shorten it, or split it"
        case .notJSON(let reason): reason.description
        case .receiverNotInRange: "the receiver is not in range; come closer, or send it by mesh"
        case .receiverKeyUnknown:
            "the receiver's key is not known; meet them once, import the key they exported, or send it unencrypted"
        case .receiverTakesNone:
            "what runs there takes no messages; let `nearshare mesh run` run there, or write to them with `nearshare chat`"
        case .privacyNeedsEncryption: "hiding who a message is for needs encryption; send it encrypted, or broadcast it"
        }
    }

    /// Files go over links of frames; on Bluetooth less is better.
    package static let fileLimit = 5_242_880
    package static let recommendedRadioFileByteCount = 120_000

    /// Checks all that can be told without knowing who is near.
    /// - Parameter needsRadio: the receiver, or everybody who is near, is behind a Bluetooth hop.
    /// - Returns: the content as it is sent.
    package static func check(_ request: MessageRequest, needsRadio: Bool) throws(MessageRule) -> [UInt8] {
        switch (request.mode, request.hasReceiver) {
        case (.broadcast, true): throw .broadcastHasNoReceiver
        case (.direct, false), (.mesh, false), (.full, false): throw .receiverIsMissing(request.mode)
        default: break
        }
        if request.mode == .broadcast, request.isEncrypted { throw .broadcastCannotBeEncrypted }
        if request.isPrivate, request.mode != .broadcast, !request.isEncrypted { throw .privacyNeedsEncryption }
        if let count = request.fileByteCount {
            guard request.mode == .direct else { throw .fileNeedsDirectMode(request.mode) }
            guard count <= fileLimit else { throw .fileTooLarge(count, limit: fileLimit) }
        }
        let encoded: [UInt8]
        do {
            encoded = try request.content.encoded()
        } catch {
            throw .notJSON(error)
        }
        let limit = needsRadio ? BundleContent.maximumRadioByteCount : BundleContent.maximumByteCount
        // The byte that says what it is isn't the sender's.
        guard encoded.count - 1 <= limit else { throw .contentTooLarge(encoded.count - 1, limit: limit, isRadio: needsRadio) }
        return encoded
    }
}
