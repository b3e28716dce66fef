public import NearshareBase
internal import NearshareInterfaces
internal import NearshareStorage

extension LocalMachine {
    /// Stores in the address book of the machine's identity whether the user has seen the same short code as the owner of a key. After
    /// a yes the key is verified, also for nodes that run already and after a restart: ``TrustPolicy/askAtFirstMeeting`` asks no more
    /// about it, and ``TrustPolicy/verifiedKeys`` trusts it. A no removes the key, so that it is new again, unless it is blocked;
    /// memberships and links stay.
    ///
    ///     question.answer(isSame: isSame)
    ///     try machine.recordComparison(with: check.peer.fingerprint, named: check.peer.name, isSame: isSame)
    ///
    /// - Parameters:
    ///   - key: of the ``IdentityCheck`` or invitation whose code was compared.
    ///   - name: the name that the peer claims.
    /// - Throws: ``StorageError`` when the address book cannot be written, is full, or has the key as blocked.
    public func recordComparison(with key: Fingerprint, named name: DisplayName, isSame: Bool) throws(StorageError) {
        let trust = try self.trust.update { store -> TrustLevel? in
            if isSame {
                _ = store.recordVerification(of: key, named: name, at: SystemClock.wall())
            } else if store[key]?.trust != .blocked {
                store.remove(key)
            }
            return store[key]?.trust
        }
        guard isSame, trust != .verified else { return }
        throw trust == .blocked
            ? StorageError(.rejected, "\(name) is blocked")
            : StorageError(.overLimit, "the address book is full of peers that the user has decided about")
    }
}
