package import Nearshare

/// The initiator's half of verifying a peer's key: both users compare the short code. ``VerificationResponder`` is the other
/// half.
///
/// A mismatch is recorded before it is reported, and the key is recorded as verified only after both users have confirmed.
package struct VerificationOperation: Sendable {
    private let trust: TrustFile
    private let reporter: any Reporter
    private let refusalTime: Duration

    /// - Parameter refusalTime: the user is asked after this time, in which the peer of a user who cannot be asked ends the
    ///   connection.
    package init(trust: TrustFile, reporter: any Reporter, refusalTime: Duration = .milliseconds(500)) {
        self.trust = trust
        self.reporter = reporter
        self.refusalTime = refusalTime
    }

    /// - Parameter ask: asks the local user whether the code is the same at the peer. Cancelled when the peer answers no, or
    ///   the connection ends.
    /// - Throws: ``CommandFailure`` with ``ExitStatus/notTrusted`` when one of the users denies; ``NodeError`` when the
    /// connection ends.
    package func run(
        over connection: Connection, ask: @escaping @Sendable (ShortAuthenticationDigits, DisplayName) async -> Bool
    ) async throws {
        let code = try await connection.authenticationDigits
        let name = try await connection.peerName
        try await connection.requestVerification()
        switch try await answer(on: connection, name, { await ask(code, name) }) {
        case true?:
            connection.answerVerification(matches: true)
            reporter.report(.notice(Self.waitText(for: name)))
        case false?:
            connection.answerVerification(matches: false)
            try trust.update { $0.recordMismatch(with: connection.proven) }
            throw CommandFailure(.notTrusted, "not verified: the codes were not the same")
        case nil: break
        }
        guard try await peerConfirmation(on: connection, name) else {
            try trust.update { $0.recordMismatch(with: connection.proven) }
            throw CommandFailure(.notTrusted, "not verified: \(Self.denialText(of: name))")
        }
        try trust.update { $0.recordVerification(of: connection.proven, named: name, at: SystemClock.wall()) }
        reporter.report(.notice(Self.successText(for: name, connection.proven.id, in: try? trust.read())))
    }

    /// The local user's answer; nil when the peer has answered no in the meantime.
    /// - Throws: ``NodeError`` when the connection ends first.
    private func answer(
        on connection: Connection, _ name: DisplayName, _ ask: @escaping @Sendable () async -> Bool
    ) async throws -> Bool? {
        try await firstResult(
            of: {
                try await Task.sleep(for: refusalTime)
                return await ask()
            },
            {
                // A confirmation by the peer leaves the question open; the end of the connection closes it.
                guard try await peerConfirmation(on: connection, name) else { return nil }
                throw Self.failure(try await connection.ending, of: name)
            })
    }

    /// The answer of the other user.
    /// - Throws: ``NodeError`` when the connection ended before.
    private func peerConfirmation(on connection: Connection, _ name: DisplayName) async throws -> Bool {
        do {
            return try await connection.peerConfirmation
        } catch let error as NodeError {
            throw Self.failure(error, of: name)
        }
    }

    /// The end of a connection, in words for a comparison: it has nothing to resume.
    private static func failure(_ error: NodeError, of name: DisplayName) -> NodeError {
        if case .refused(let text) = error { return .refused("nothing was compared: \(text)") }
        guard error.isTransient else { return error }
        return .connectionLost("nothing was compared: the connection to \(name.shown) has ended; try again")
    }

    static func waitText(for name: DisplayName) -> String { "waiting for \(name.shown) to confirm it as well…" }
    static func successText(for name: DisplayName) -> String { "\(name.shown) is verified" }
    /// The same, with how to tell the peer from another known one that has its name; nil for an unreadable store.
    package static func successText(for name: DisplayName, _ id: PeerID, in trust: TrustStore?) -> String {
        guard let other = trust?.peersListed(as: name.claimed).filter({ $0 != id }).min() else { return successText(for: name) }
        return "\(name.tagged(id)) is verified; another peer that you know, \(other), has this name as well: use the id \(id)"
    }
    static func denialText(of name: DisplayName) -> String { "\(name.shown) says that the codes are not the same" }
}
