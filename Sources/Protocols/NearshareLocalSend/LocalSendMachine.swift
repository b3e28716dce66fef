internal import NearshareBase
package import NearshareHTTP

/// The receiver's side of the LocalSend protocol, version 2.1: the sessions of all senders.
///
///     prepare-upload ──► waiting ──accepted──► uploading ──every file stored──► ended
package struct LocalSendMachine: Sendable {
    /// The sender of a request: its files come from the same address, and with the same certificate.
    package struct Client: Sendable, Hashable {
        package let host: String
        /// SHA-256 of its certificate; nil where it has shown none.
        package let fingerprint: [UInt8]?

        package init(host: String, fingerprint: [UInt8]?) {
            (self.host, self.fingerprint) = (host, fingerprint)
        }

        /// Whether both have the same address, or have shown the same certificate.
        func isSameDevice(as other: Client) -> Bool {
            host == other.host || fingerprint.map { $0 == other.fingerprint } ?? false
        }
    }

    /// A session, in this process.
    package struct SessionID: Sendable, Hashable {
        package let text: String
    }

    private enum FileState: Sendable, Hashable {
        /// - Parameter failureCount: uploads so far that have failed.
        case pending(failureCount: Int)
        case uploading(failureCount: Int)
        case stored
        /// The sender may send the file again as long as other files are awaited.
        case failed(failureCount: Int)
        /// The user has not selected it.
        case unselected
    }

    /// The reason why an upload has failed.
    package enum UploadFailure: Sendable, Hashable {
        /// The content differs from its checksum: the sender is told, and sends it again.
        case mismatch
        /// The connection has ended, or there was more or less content than was offered.
        case broken
    }

    private struct Session: Sendable {
        let client: Client
        /// Whether the user has accepted something from the device before.
        let isKnown: Bool
        let files: [LocalSendOffer.File]
        /// By the bytes of the identifiers: two that look the same may differ.
        let numbers: [[UInt8]: Int]
        /// The tokens by the numbers of the files; empty until the user has accepted.
        var tokens: [String] = []
        var states: [FileState]

        var isWaiting: Bool { tokens.isEmpty }

        /// Whether no file is awaited any more.
        var isOver: Bool {
            states.allSatisfy {
                switch $0 {
                case .stored, .failed, .unselected: true
                case .pending, .uploading: false
                }
            }
        }
    }

    /// Limit on sessions.
    static let maximumSessionCount = 32
    /// Limit on sessions of devices that the user has accepted nothing from: others find room beside them (R4).
    static let maximumUnknownSessionCount = 24
    /// Limit on sessions of one address, and on those of one certificate.
    static let maximumSessionCountPerDevice = 4
    /// Limit on wrong PINs of one address, until the node stops.
    static let maximumWrongPINCount = 3
    /// Limit on wrong PINs of an IPv6 /64: one host can use all of its addresses, and other hosts have addresses there too.
    static let maximumWrongPINCountPerNetwork = 12
    /// Limit on the addresses and networks whose wrong PINs are counted; others are rejected then, whatever PIN they give.
    static let maximumGuesserCount = 256
    /// Limit on uploads of one file that fail.
    static let maximumAttemptCount = 3
    /// Bytes of randomness in an identifier or token.
    package static let randomByteCount = 16

    private let device: LocalSendDevice
    private let pin: String?
    private var sessions: [SessionID: Session] = [:]
    private var wrongPINs: [String: Int] = [:]

    /// - Parameter pin: required from senders; nil for none.
    package init(device: LocalSendDevice, pin: String?) {
        self.device = device
        self.pin = pin
    }

    /// The response to `info` and `register`.
    package var info: HTTPResponse { Self.response(.ok, device.info) }

    // MARK: Offers

    /// Checks a PIN.
    /// - Parameters:
    ///   - host: the address of the sender.
    ///   - network: its IPv6 /64; nil for another address.
    /// - Throws: ``HTTPStatus/unauthorized`` or ``HTTPStatus/tooManyRequests``.
    package mutating func check(pin given: String?, from host: String, in network: String? = nil) throws(HTTPStatus) {
        guard let pin else { return }
        // Before the PIN is compared: the answer to a right one would make the limits those of the wrong ones only.
        guard wrongPINs[host] != nil || wrongPINs.count < Self.maximumGuesserCount,
            wrongPINs[host, default: 0] < Self.maximumWrongPINCount,
            network.map({ wrongPINs[$0, default: 0] < Self.maximumWrongPINCountPerNetwork }) ?? true
        else { throw .tooManyRequests }
        if given == pin {
            wrongPINs[host] = nil
            return
        }
        // A request without a PIN asks whether there is one.
        guard given != nil else { throw .unauthorized }
        wrongPINs[host, default: 0] += 1
        if let network { wrongPINs[network, default: 0] += 1 }
        throw .unauthorized
    }

    /// The number of addresses and networks with too many wrong PINs, this address included; nil while it is not among them.
    package func rejectedSourceCount(with host: String) -> Int? {
        guard wrongPINs[host, default: 0] >= Self.maximumWrongPINCount else { return nil }
        return wrongPINs.values.count { $0 >= Self.maximumWrongPINCount }
    }

    /// Begins a session that waits for the user's answer.
    /// - Parameters:
    ///   - isKnown: whether the user has accepted something from the device before.
    ///   - random: ``randomByteCount`` bytes.
    /// - Throws: ``HTTPStatus/conflict`` when there are too many.
    package mutating func begin(
        _ offer: LocalSendOffer, from client: Client, isKnown: Bool = false, random: [UInt8]
    ) throws(HTTPStatus) -> SessionID {
        guard sessions.count < Self.maximumSessionCount,
            isKnown || sessions.values.count(where: { !$0.isKnown }) < Self.maximumUnknownSessionCount,
            sessions.values.count(where: { $0.client.isSameDevice(as: client) }) < Self.maximumSessionCountPerDevice,
            !sessions.values.contains(where: { $0.client == client && $0.isWaiting })
        else { throw .conflict }
        let id = SessionID(text: Self.uuid(random))
        let numbers = Dictionary(offer.files.enumerated().map { (Array($1.id.utf8), $0) }) { first, _ in first }
        sessions[id] = Session(
            client: client, isKnown: isKnown, files: offer.files, numbers: numbers,
            states: Array(repeating: .pending(failureCount: 0), count: offer.files.count))
        return id
    }

    /// Whether the session waits for the user's answer.
    package func isWaiting(_ id: SessionID) -> Bool { sessions[id]?.isWaiting ?? false }

    /// Accepts the files of a session, or some of them.
    /// - Parameters:
    ///   - isSelected: whether the user has selected the file with a number.
    ///   - random: returns a number of random bytes.
    /// - Returns: the response to `prepare-upload`; nil for a session that has ended, and when no file is selected.
    package mutating func accept(
        _ id: SessionID, where isSelected: (Int) -> Bool = { _ in true }, random: (Int) -> [UInt8]
    ) -> HTTPResponse? {
        guard let session = sessions[id], session.isWaiting else { return nil }
        let selected = session.files.indices.filter(isSelected)
        guard !selected.isEmpty else { return nil }
        let tokens = session.files.map { _ in Self.uuid(random(Self.randomByteCount)) }
        sessions[id]?.tokens = tokens
        for number in Set(session.files.indices).subtracting(selected) { sessions[id]?.states[number] = .unselected }
        let members = selected.map { JSONElement.Member(name: session.files[$0].id, value: .string(tokens[$0])) }
        return Self.response(.ok, .members(["sessionId": .string(id.text), "files": .object(members)]))
    }

    /// Ends a session. No effect on one that has ended.
    package mutating func end(_ id: SessionID) { sessions[id] = nil }

    // MARK: Files

    /// Begins to receive a file.
    /// - Returns: the session and the number of the file in its offer.
    /// - Throws: ``HTTPStatus/forbidden`` for another sender, a wrong token, and a file that is not expected.
    package mutating func beginUpload(
        session text: String, file: String, token: String, from client: Client
    ) throws(HTTPStatus) -> (SessionID, number: Int) {
        let id = SessionID(text: text)
        guard let session = sessions[id], session.client == client, !session.isWaiting,
            let number = session.numbers[Array(file.utf8)], session.tokens[number] == token
        else { throw .forbidden }
        switch session.states[number] {
        case .pending(let count), .failed(let count):
            guard count < Self.maximumAttemptCount else { throw .forbidden }
            sessions[id]?.states[number] = .uploading(failureCount: count)
        case .uploading, .stored, .unselected: throw .forbidden
        }
        return (id, number)
    }

    /// Records that a file is stored.
    /// - Returns: whether no other one is awaited.
    package mutating func endUpload(_ id: SessionID, number: Int) -> Bool {
        sessions[id]?.states[number] = .stored
        return sessions[id]?.isOver ?? false
    }

    /// Records that an upload has failed, which ends its file alone.
    /// - Returns: whether no file is awaited any more.
    package mutating func failUpload(_ id: SessionID, number: Int, _ failure: UploadFailure) -> Bool {
        guard case .uploading(let count)? = sessions[id]?.states[number] else { return false }
        let isAwaited = failure == .mismatch && count + 1 < Self.maximumAttemptCount
        sessions[id]?.states[number] =
            isAwaited ? .pending(failureCount: count + 1) : .failed(failureCount: count + 1)
        return sessions[id]?.isOver ?? false
    }

    /// The numbers of the accepted files, and of those among them that are not stored.
    package func accepted(_ id: SessionID) -> (all: [Int], missing: [Int]) {
        guard let session = sessions[id] else { return ([], []) }
        let all = session.states.indices.filter { session.states[$0] != .unselected }
        return (all, all.filter { session.states[$0] != .stored })
    }

    /// The session that a sender cancels.
    /// - Parameter text: its identifier; nil for the one that waits for the user's answer.
    /// - Throws: ``HTTPStatus/forbidden`` for a session of another sender.
    package func cancelled(_ text: String?, by client: Client) throws(HTTPStatus) -> SessionID? {
        guard let text else { return sessions.first { $0.value.client == client && $0.value.isWaiting }?.key }
        let id = SessionID(text: text)
        guard let session = sessions[id] else { return nil }
        guard session.client == client else { throw .forbidden }
        return id
    }

    // MARK: Responses

    /// A response that says why a request has failed.
    package static func failure(_ status: HTTPStatus, _ message: String) -> HTTPResponse {
        response(status, .members(["message": .string(message)]))
    }

    private static func response(_ status: HTTPStatus, _ body: JSONElement) -> HTTPResponse {
        var response = HTTPResponse(status, body: Array(body.text.utf8))
        response.contentType = "application/json"
        return response
    }

    /// A UUID of version 4 (RFC 9562).
    /// - Parameter random: ``randomByteCount`` bytes.
    private static func uuid(_ random: [UInt8]) -> String {
        var bytes = random
        bytes[6] = bytes[6] & 0x0f | 0x40
        bytes[8] = bytes[8] & 0x3f | 0x80
        let digits = Array(Hex.encode(bytes))
        let bounds = [0, 8, 12, 16, 20, 32]
        return zip(bounds, bounds.dropFirst()).map { String(digits[$0..<$1]) }.joined(separator: "-")
    }
}
