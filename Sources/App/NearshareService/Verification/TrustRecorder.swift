internal import Nearshare

/// Updates the trust store after the user or a transfer has decided something about a peer. A failure is reported and otherwise
/// ignored: received files must not be lost because of it.
struct TrustRecorder: Sendable {
    let machine: LocalMachine
    let reporter: any Reporter
    /// Notified when the user blocks a peer.
    private let blocked = AsyncCondition()

    init(machine: LocalMachine, reporter: any Reporter) {
        (self.machine, self.reporter) = (machine, reporter)
    }

    /// Pins the peer's key, or the certificate of a LocalSend device. A peer that claims another one's name is not recorded, nor is a
    /// peer with neither a key nor a certificate.
    /// - Parameters:
    ///   - isChosen: false where a rule has accepted the peer's content, and not the user.
    ///   - mayWrite: called before the file is replaced.
    func pinKey(of peer: Peer, isChosen: Bool, ifAllowed mayWrite: () -> Bool) {
        if case .nameClash = peer.trustStatus { return }
        guard let proven = peer.proven else {
            if let device = peer.foreign, device.kind == .localSend, let certificate = device.certificate, mayWrite() {
                update {
                    $0.recordDevice(device.fingerprint, certificate: certificate, named: peer.name, at: SystemClock.wall())
                }
            }
            return
        }
        do {
            try machine.trust.recordContact(
                with: proven, named: peer.name, version: peer.version, isChosen: isChosen, at: SystemClock.wall(),
                ifAllowed: mayWrite)
        } catch {
            reporter.report(.warning("\(error)"))
        }
    }

    /// Records that both users have confirmed the short code.
    /// - Returns: whether the key is verified now. False for a blocked peer, with a full address book, and where the file could not be
    ///   written.
    func recordVerification(of peer: Peer) -> Bool {
        guard let proven = peer.proven else { return false }
        let isVerified = try? machine.trust.update {
            $0.recordVerification(of: proven, named: peer.name, at: SystemClock.wall())
        }
        return isVerified == true
    }

    /// Records that the short codes differed.
    func recordMismatch(with peer: Peer) {
        guard let proven = peer.proven else { return }
        update { $0.recordMismatch(with: proven) }
    }

    /// The warning about a peer that has spoken a newer version of the protocol before; nil for any other (K12).
    /// - Parameters:
    ///   - version: the version on the current link; nil for a peer in the mesh.
    ///   - name: the peer's name, escaped for a terminal.
    func downgradeWarning(of peer: AuthenticatedPeer, to version: UInt8?, name: String) -> String? {
        guard let version, let newest = (try? machine.trust.read())?.downgrade(of: peer, to: version) else { return nil }
        return "\(name) used version \(newest) of the protocol before, and uses version \(version) now, which does not protect "
            + "recordings from quantum computers; if an older nearshare was installed there, update it, and suspect an attack if not"
    }

    /// Makes the peer a friend, and reports how to undo it.
    /// - Returns: whether it is now a friend.
    func befriend(_ peer: Peer, shownAs name: String) -> Bool {
        guard let proven = peer.proven else { return false }
        let isStored = try? machine.trust.update { trust in
            trust.recordContact(with: proven, named: peer.name, version: peer.version, at: SystemClock.wall())
            return trust.setFriend(proven.fingerprint, to: true)
        }
        guard isStored == true else {
            reporter.report(
                .warning(
                    "\(name) could not be made a friend, so only this offer is accepted: the address book is full or not writable; "
                        + "`nearshare peers forget` makes room"))
            return false
        }
        reporter.report(
            .notice(
                "\(name) is now a friend: offers are accepted without a question until this command ends, and later by "
                    + "--accept friends; `nearshare friends remove \(peer.id.hex)` undoes it"))
        return true
    }

    /// The question before a friend or verified peer is blocked; nil for any other.
    func blockWarning(of peer: Peer) -> String? {
        guard let known = (try? machine.trust.read())?[peer.fingerprint] else { return nil }
        let name = machine.shown(peer).name.quoted(of: peer.id)
        switch (known.isFriend, known.trust) {
        case (true, .verified): return "\(name) is a verified friend: answer b again to block it"
        case (true, _): return "\(name) is a friend: answer b again to block it"
        case (false, .verified): return "\(name) is verified: answer b again to block it"
        case (false, _): return nil
        }
    }

    /// Waits until `isBlocked` is true, which is evaluated after each block in this process: a block by another command wakes no
    /// waiting task. Returns as well when the task is cancelled.
    func waitForBlock(_ isBlocked: @Sendable () -> Bool) async { await blocked.wait(until: isBlocked) }

    /// Ends the open questions about peers that the user has blocked.
    func notifyBlocked() { blocked.notifyAll() }

    /// Whether the user has blocked the peer, also since its link was opened.
    func isBlocked(_ peer: Peer) -> Bool { trustStatus(of: peer).isBlocked }

    /// The trust in a peer, read anew: `peer.trustStatus` is that of the time at which its link was opened.
    func trustStatus(of peer: Peer) -> TrustStatus {
        guard let proven = peer.proven else { return peer.trustStatus }
        return (try? machine.trust.read().trustStatus(of: proven, claiming: peer.name)) ?? peer.trustStatus
    }

    /// Blocks the peer, ends the other questions about it, and reports how to undo it.
    func block(_ peer: Peer) {
        defer { notifyBlocked() }
        guard let proven = peer.proven else {
            return reporter.report(.notice("\(peer.name.shown) has no key that could be blocked; its offer is declined"))
        }
        let name = peer.name.identified(by: peer.id)
        let former = trustStatus(of: peer)
        let isBlocked = try? machine.trust.update { trust in
            trust.recordContact(with: proven, named: peer.name, at: SystemClock.wall())
            return trust.setBlocked(proven.fingerprint, to: true)
        }
        guard isBlocked == true else {
            return reporter.report(
                .warning(
                    "\(name) could not be blocked, so only this request is declined: the address book is full or not writable; "
                        + "`nearshare peers forget` makes room"))
        }
        reporter.report(
            .notice(
                "\(name) is \(former.blockedText); "
                    + "`nearshare peers unblock \(peer.id.hex)` unblocks it"))
    }

    private func update(_ body: (inout TrustStore) -> Void) {
        do {
            try machine.trust.update(body)
        } catch {
            reporter.report(.warning("\(error)"))
        }
    }
}
