package import Nearshare

/// Changes what the user has decided about known peers. The peer is found under the lock under which it is changed, so that
/// another command cannot move a name to another peer meanwhile. Each function takes a text that selects the peer, see
/// ``NamedKey/find(_:among:)``, and throws ``CommandFailure`` when no peer, or more than one, matches, and for this machine.
package struct KnownPeerEditor: Sendable {
    private let machine: LocalMachine

    package init(_ machine: LocalMachine) { self.machine = machine }

    /// Removes the local name of a peer.
    /// - Returns: also whether it had one.
    package func removeName(of text: String) throws -> (peer: NamedKey, hadName: Bool) {
        try refuseOwn(text)
        let contacts = try machine.contacts.read()
        return try update { trust throws(CommandFailure) in
            guard let found = try trust.peer(named: text) else {
                return (try trust.requireMetPeer(named: text, contacts), false)
            }
            trust.rename(found.fingerprint, to: nil)
            return (NamedKey(found), found.entry.givenName != nil)
        }
    }

    /// Gives a peer a local name, which no other peer can claim: one that is known, or whose key was only announced.
    /// - Returns: the peer with the name that it had before.
    /// - Throws: ``CommandFailure`` also for the name of another known peer, which would then be refused as an impostor, and when
    ///   the address book is full.
    package func rename(_ text: String, to name: DisplayName) throws -> NamedKey {
        try refuseOwn(text)
        let contacts = try machine.contacts.read()
        return try update { trust throws(CommandFailure) in
            var found: NamedKey
            if let known = try trust.peer(named: text) {
                found = NamedKey(known)
            } else {
                found = try trust.requireMetPeer(named: text, contacts)
            }
            if let owner = trust.peer(knownAs: name, otherThan: found.fingerprint) {
                throw CommandFailure(
                    .failure,
                    "\(name.shown) is the name of another known peer, \(owner.peerID); choose another name, or give that peer "
                        + "one first")
            }
            if trust[found.fingerprint] != nil {
                trust.rename(found.fingerprint, to: name)
            } else {
                guard trust.introduce(announced: found.fingerprint, claiming: found.name, as: name, at: SystemClock.wall())
                else { throw .addressBookFull }
            }
            return found
        }
    }

    /// Blocks a peer that is known, or whose key was only announced.
    /// - Returns: also the trust in it before.
    /// - Throws: ``CommandFailure`` also for the name that a renamed peer calls itself, and when the address book is full.
    package func block(_ text: String) throws -> (peer: NamedKey, former: TrustStatus) {
        try refuseOwn(text)
        let contacts = try machine.contacts.read()
        return try update { trust throws(CommandFailure) in
            let key = try trust.requireMetPeer(named: text, contacts)
            try Self.refuseOtherName(text, of: key)
            let former = trust[key.fingerprint].map { TrustStatus.known($0.trust, isFriend: $0.isFriend) } ?? .new
            guard trust.block(key.fingerprint, named: key.name, at: SystemClock.wall()) else { throw .addressBookFull }
            return (key, former)
        }
    }

    /// Unblocks a peer, which is then neither a friend nor verified.
    /// - Returns: also whether it was blocked.
    package func unblock(_ text: String) throws -> (peer: NamedKey, wasBlocked: Bool) {
        try refuseOwn(text)
        return try update { trust throws(CommandFailure) in
            let found = try trust.requirePeer(named: text)
            let wasBlocked = found.entry.trust == .blocked
            if wasBlocked { trust.setBlocked(found.fingerprint, to: false) }
            return (NamedKey(found), wasBlocked)
        }
    }

    /// Revokes that a peer is a friend. The peer remains known.
    package func removeFriend(_ text: String) throws -> NamedKey {
        try refuseOwn(text)
        return try update { trust throws(CommandFailure) in
            let friends = trust.entries.filter(\.value.isFriend).map { NamedKey(($0.key, $0.value)) }
            guard let found = try NamedKey.find(text, among: friends) else {
                throw CommandFailure(
                    .peerNotFound, "\(TerminalText.escaped(text)) is not a friend; `nearshare friends` lists them")
            }
            trust.setFriend(found.fingerprint, to: false)
            return found
        }
    }

    /// Removes a peer, its keys and the answers to its offers: it is new the next time.
    /// - Throws: ``CommandFailure`` also for the name that a renamed peer calls itself.
    package func forget(_ text: String) throws -> NamedKey {
        try refuseOwn(text)
        let key = NamedKey(try machine.trust.read().requirePeer(named: text))
        try Self.refuseOtherName(text, of: key)
        // Three files. The one that finds the peer is last, so that the user can repeat a command that has failed.
        try machine.contacts.update { $0.remove(key.fingerprint) }
        try AnsweredOfferFile(in: machine.state).update { $0.removeAll(of: key.fingerprint) }
        try machine.trust.update { $0.remove(key.fingerprint) }
        return key
    }

    /// Refuses the name that a renamed peer calls itself: the peer has chosen it, and another one, which is in no file, may be meant
    /// (K2). Unblocking does not restore a friend, and forgetting restores nothing.
    private static func refuseOtherName(_ text: String, of key: NamedKey) throws(CommandFailure) {
        guard key.isSelectedByOtherName(text) else { return }
        throw CommandFailure(
            .peerNotFound,
            "\(TerminalText.escaped(text)) selects \(key.name.shown) only by what it calls itself, and may mean another peer; use the "
                + "id \(key.id) if you mean \(key.name.shown)")
    }

    /// Refuses a text that names this machine, and no peer that was met.
    private func refuseOwn(_ text: String) throws {
        guard let message = try OwnPeer(of: machine).message(about: text) else { return }
        let wanted = text.lowercased()
        let known = try machine.trust.read().entries.map { NamedKey(($0.key, $0.value)) }
        let met = try machine.contacts.read().entries.map { NamedKey(fingerprint: $0.key, name: $0.value.name) }
        let isMet = (known + met).contains { [$0.name.claimed.lowercased(), $0.id.hex, $0.fingerprint.hex].contains(wanted) }
        if !isMet { throw CommandFailure(.usage, message) }
    }

    /// Changes the trust store, and does not write it when `body` throws or changes nothing.
    private func update<Result>(_ body: (inout TrustStore) throws(CommandFailure) -> Result) throws -> Result {
        let current = try machine.trust.read()
        var copy = current
        let result = try body(&copy)
        guard copy != current else { return result }
        return try machine.trust.update { trust in
            Swift.Result { () throws(CommandFailure) in try body(&trust) }
        }.get()
    }
}

extension CommandFailure {
    /// The trust store is full of peers that the user has decided about.
    package static var addressBookFull: CommandFailure { CommandFailure(.noSpace, ErrorMessage.addressBookFull) }
}
