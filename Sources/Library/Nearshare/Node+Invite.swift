public import NearshareBase
public import NearshareEngine
public import NearshareInterfaces

extension Node {
    /// Finds a peer by name, and invites it into a session.
    /// - Parameters:
    ///   - name: the peer's name, the beginning of its name, or its identifier.
    ///   - session: the session to join.
    ///   - service: the type that the peer advertises.
    ///   - searchTimeout: bound on the search, by default 5 seconds.
    ///   - context: bytes for the invited program, none by default: at most 1024.
    ///   - secret: at least one byte, proven to the peer without being sent; see `InvitationPolicy.secret(_:)`. nil for none.
    ///   - timeout: bound on all after the search: connecting, and the other user's answer; 1 to 600 seconds, by default 30.
    /// - Returns: the member that joined.
    /// - Throws: ``NodeError`` when no peer or several match, or without discovery; `CancellationError` when the task is cancelled
    ///   during the search; ``SessionError`` as `Session.invite(_:context:secret:timeout:)`. Invalid arguments and an ended session are reported before the search.
    public func invite(
        _ name: String, into session: Session, for service: ServiceType = .nearshare,
        searchTimeout: Duration = .seconds(5), context: [UInt8] = [], secret: [UInt8]? = nil, timeout: Duration = .seconds(30)
    ) async throws -> PeerID {
        try session.checkInvitation(context: context, secret: secret, timeout: timeout)
        let peer = try await find(name, for: service, timeout: searchTimeout)
        return try await session.invite(peer.destination, context: context, secret: secret, timeout: timeout)
    }
}
