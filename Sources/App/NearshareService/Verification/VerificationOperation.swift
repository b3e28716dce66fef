package import Nearshare

/// The initiator's half of verifying a peer's key: both users compare the short code. ``VerificationResponder`` is the other
/// half.
///
/// A mismatch is recorded before it is reported, and the key is recorded as verified only after both users have confirmed.
package struct VerificationOperation: Sendable {
    /// The time for each step. Peers are untrusted: none may keep the command waiting without an end.
    package struct Timeouts: Sendable {
        /// After this time a line says what is waited for.
        package var silence = Duration.seconds(1)
        /// For the peer's part of the short code.
        package var code = Duration.seconds(10)
        /// Before the user is asked: the peer of a user who cannot be asked ends the connection within it.
        package var refusal = Duration.milliseconds(500)
        /// For the other user, once this one has answered.
        package var confirmation = Duration.seconds(300)

        package init() {}
    }

    private let machine: LocalMachine
    private let reporter: any Reporter
    private let timeouts: Timeouts

    package init(machine: LocalMachine, reporter: any Reporter, timeouts: Timeouts = Timeouts()) {
        self.machine = machine
        self.reporter = reporter
        self.timeouts = timeouts
    }

    /// - Parameter ask: asks the local user whether the code is the same at the peer, and returns nil for no answer. Cancelled when
    ///   the peer answers no, or the connection ends.
    /// - Throws: ``CommandFailure`` with ``ExitStatus/notTrusted`` when one of the users denies; ``NodeError`` when the
    /// connection ends, or the peer does not answer in time.
    package func run(
        over connection: Connection, ask: @escaping @Sendable (ShortAuthenticationDigits, DisplayName) async -> Bool?
    ) async throws {
        let claimedName = try await connection.peerName
        let name = machine.name(of: connection.proven.fingerprint, claiming: claimedName)
        // Before the codes are compared: those of an impostor are the same at both ends, too (K2).
        if let owner = (try? machine.trust.read())?.otherOwner(of: claimedName, claimedBy: connection.proven.fingerprint) {
            reporter.report(.warning(NameClash.sentence(about: name, connection.proven.id, ownedBy: owner)))
        }
        if try await withTimeout(timeouts.silence, { try await connection.authenticationDigits }) == nil {
            reporter.report(.notice("waiting for \(name.shown)'s part of the short code…"))
        }
        guard let code = try await withTimeout(timeouts.code, { try await connection.authenticationDigits }) else {
            throw NodeError.timedOut(
                "nothing was compared: \(name.shown) sends no part of the short code; is `nearshare receive` running there?")
        }
        try await connection.requestVerification()
        switch try await answer(on: connection, name, { await ask(code, name) }) {
        case true?:
            connection.answerVerification(matches: true)
            reporter.report(.notice(Self.waitText(for: name)))
        case false?:
            connection.answerVerification(matches: false)
            try machine.trust.update { $0.recordMismatch(with: connection.proven) }
            throw CommandFailure(.notTrusted, "not verified: the codes were not the same")
        case nil: break
        }
        guard
            let isConfirmed = try await withTimeout(
                timeouts.confirmation, { try await peerConfirmation(on: connection, name) })
        else {
            throw NodeError.timedOut("not verified: \(name.shown) has not confirmed the code in time; try again together")
        }
        guard isConfirmed else {
            try machine.trust.update { $0.recordMismatch(with: connection.proven) }
            throw CommandFailure(.notTrusted, "not verified: \(Self.denialText(of: name))")
        }
        let isVerified = try machine.trust.update {
            $0.recordVerification(of: connection.proven, named: claimedName, at: SystemClock.wall())
        }
        guard isVerified else { throw try failureToRecord(connection.proven.fingerprint, name) }
        reporter.report(.notice(Self.successText(for: name, connection.proven.id, in: try? machine.trust.read())))
    }

    /// The reason why the store has not recorded a verification.
    private func failureToRecord(_ fingerprint: Fingerprint, _ name: DisplayName) throws -> any Error {
        guard try machine.trust.read()[fingerprint]?.trust == .blocked else { return CommandFailure.addressBookFull }
        return ControlFailure.blocked(name, fingerprint.peerID)
    }

    /// The local user's answer; nil when the peer has answered no in the meantime.
    /// - Throws: ``NodeError`` when the connection ends first; ``CommandFailure`` when the user does not answer.
    private func answer(
        on connection: Connection, _ name: DisplayName, _ ask: @escaping @Sendable () async -> Bool?
    ) async throws -> Bool? {
        try await firstResult(
            of: {
                try await Task.sleep(for: timeouts.refusal)
                // A "no" would mean that the codes differ.
                guard let isSame = await ask() else { throw Self.unanswered }
                return isSame
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

    /// The failure of a comparison whose question the user has not answered: the terminal has closed.
    static let unanswered = CommandFailure(.interrupted, "nothing was compared: the question was not answered")

    static func waitText(for name: DisplayName) -> String { "waiting for \(name.shown) to confirm it as well…" }
    static func successText(for name: DisplayName) -> String { "\(name.shown) is verified" }
    /// The same, with how to tell the peer from another known one that has its name; nil for an unreadable store.
    package static func successText(for name: DisplayName, _ id: PeerID, in trust: TrustStore?) -> String {
        guard let other = trust?.peersListed(as: name.claimed).filter({ $0 != id }).min() else { return successText(for: name) }
        return "\(name.tagged(id)) is verified; another peer that you know, \(other), has this name as well: use the id \(id)"
    }
    static func denialText(of name: DisplayName) -> String { "\(name.shown) says that the codes are not the same" }
}
