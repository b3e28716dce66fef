package import Nearshare

/// Finds the peer that the user wants to make a friend: among the known ones, in the mesh of the running node, or nearby.
package struct FriendResolver: Sendable {
    package enum Match: Sendable {
        /// A peer whose key is proven.
        case authenticated(FriendCandidate)
        /// A peer that the running node has in the mesh. Its key is not proven to this process.
        case inMesh(Contact)
    }

    private let machine: LocalMachine

    package init(_ machine: LocalMachine) {
        self.machine = machine
    }

    /// Looks nearby for a peer that is not known, and connects to it, so that it proves its key.
    /// - Parameter reporter: is told that the peer is looked for.
    package func find(
        _ text: String, over connector: PeerConnector, interruption: any InterruptionHandler, reporter: any Reporter
    ) async throws -> Match {
        try await find(text) {
            reporter.report(.searching(text))
            return try await connector.connect(to: text, interruption: interruption) { [machine] connection in
                try await FriendCandidate(authenticatedOver: connection, on: machine)
            }
        }
    }

    /// - Parameter authenticate: finds the peer nearby and authenticates it.
    /// - Throws: ``CommandFailure`` for several peers, for this machine, and for a peer that is known but not in range; the errors
    ///   of `authenticate`.
    package func find(_ text: String, authenticate: () async throws -> FriendCandidate) async throws -> Match {
        if let known = try FriendCandidate(known: text, on: machine) {
            return try await find(text, preferring: known, authenticate: authenticate)
        }
        if let message = try OwnPeer(of: machine).message(about: text) { throw CommandFailure(.usage, message) }
        // An id names one key, which may be looked for in the mesh first.
        if PeerID(hex: text) != nil, let contact = try await contactInRange(text) { return .inMesh(contact) }
        do {
            return .authenticated(try await authenticate())
        } catch NodeError.notFound(let missing, let nearby) {
            if let contact = try await contactInRange(text) { return .inMesh(contact) }
            let keys = try machine.contacts.read().entries.map { NamedKey(fingerprint: $0.key, name: $0.value.name) }
            guard let key = try NamedKey.find(text, among: keys) else { throw NodeError.notFound(missing, nearby: nearby) }
            throw CommandFailure(
                .peerNotFound,
                "\(key.name.identified(by: key.id)) is known, but not nearby, so its key cannot be proven; try again when "
                    + "`nearshare receive` runs there, or while `nearshare mesh run` runs on both machines")
        }
    }

    /// The known peer that a text selects. By the beginning of its name, or the name that it calls itself beside its local one, only
    /// where no other peer in range has it (K2).
    private func find(
        _ text: String, preferring known: FriendCandidate, authenticate: () async throws -> FriendCandidate
    ) async throws -> Match {
        // Nothing changes for a friend.
        guard known.mayMeanAnotherPeer, !known.isFriend else { return .authenticated(known) }
        let key = NamedKey(fingerprint: known.fingerprint, name: known.name)
        do {
            let found = try await authenticate()
            guard found.fingerprint == known.fingerprint else {
                let other = NamedKey(fingerprint: found.fingerprint, name: found.name)
                throw CommandFailure(.peerNotFound, NameSelection.ambiguity(of: text, [key, other]))
            }
            return .authenticated(found)
        } catch let error as NodeError {
            switch error {
            case .ambiguous, .identityMismatch, .blocked: throw error
            // It need not be nearby. Another peer would be ambiguous.
            default: break
            }
        } catch is NetworkNotice.SearchFailure {
            // Without a network no other peer is nearby.
        }
        guard let contact = try await contactInRange(text), contact.id != key.id else { return .authenticated(known) }
        throw CommandFailure(.peerNotFound, NodeError.ambiguity(of: text, rows: [key.idRow, contact.idRow]))
    }

    /// The peer that the running node has in the mesh; nil where there is none, or no node runs.
    private func contactInRange(_ text: String) async throws -> Contact? {
        let contacts = try await withRunningNode(of: machine) { try await $0.contacts() } ?? []
        switch NameSelection(of: text, among: contacts.filter { $0.isNear && $0.software != .blueChat }) {
        case .none: return nil
        case .one(let contact, _): return contact
        case .several(let several): throw CommandFailure(.peerNotFound, NameSelection.ambiguity(of: text, several))
        }
    }
}
