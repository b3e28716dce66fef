internal import NearshareBase
internal import NearshareCrypto

/// The short authentication string of a link, and the users' comparison of it (`docs/PROTOCOL.md`, section 8).
///
/// A link has at most one comparison, requested by either side, or by both at once, and answered by both (K3): another guess
/// needs another link, which the users see.
struct Verification: Sendable {
    private struct Comparison {
        var isRequestedRemotely: Bool
        var isAnsweredLocally = false
        var isAnsweredRemotely = false
    }

    private var exchange: ShortAuthenticationString
    private var comparison: Comparison?
    /// nil until both nonces are revealed.
    private(set) var digits: ShortAuthenticationDigits?

    init(_ exchange: ShortAuthenticationString) {
        self.exchange = exchange
    }

    /// The commitment to send in the hello frame.
    var commitment: [UInt8] { exchange.commitment }

    // MARK: Frames

    /// Stores the peer's commitment, and reveals this side's nonce.
    mutating func receive(commitment: [UInt8]) throws(MalformedInput) -> [DirectReaction] {
        do {
            try exchange.receive(commitment: commitment)
        } catch {
            throw MalformedInput("hello: \(error)")
        }
        return [.send(.reveal(nonce: exchange.nonce))]
    }

    /// Checks the peer's nonce. Failure ends the connection with a reason of its own.
    mutating func receive(reveal nonce: [UInt8]) throws(ShortAuthenticationString.Failure) -> [DirectReaction] {
        let digits = try exchange.receive(reveal: nonce)
        self.digits = digits
        return [.authenticationStringReady(digits)]
    }

    mutating func receiveRequest() throws(MalformedInput) -> [DirectReaction] {
        guard digits != nil, comparison?.isRequestedRemotely != true else {
            throw MalformedInput("a comparison out of order")
        }
        guard comparison == nil else {
            // Race: both ends have asked, so both users compare already.
            comparison?.isRequestedRemotely = true
            return []
        }
        comparison = Comparison(isRequestedRemotely: true)
        return [.verificationRequested]
    }

    mutating func receiveAnswer(matches: Bool) throws(MalformedInput) -> [DirectReaction] {
        guard comparison?.isAnsweredRemotely == false else { throw MalformedInput("an answer without a comparison") }
        comparison?.isAnsweredRemotely = true
        return [.verificationAnswered(matches: matches)]
    }

    // MARK: The local user

    mutating func request() -> [DirectReaction] {
        guard digits != nil, comparison == nil else { return [] }
        comparison = Comparison(isRequestedRemotely: false)
        return [.send(.compare)]
    }

    mutating func answer(matches: Bool) -> [DirectReaction] {
        guard comparison?.isAnsweredLocally == false else { return [] }
        comparison?.isAnsweredLocally = true
        return [.send(.compared(isSame: matches))]
    }
}
