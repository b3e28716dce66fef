package import Nearshare
package import NearshareBundles

/// Imports the exported keys of a peer: checks whose they are, and puts their owner into the trust store and the keys into the
/// address book.
package struct KeyImport: Sendable {
    package struct Outcome: Sendable {
        /// The owner by its local name.
        package let owner: NamedKey
        /// Whether the owner had another signing key.
        package let replacesSigningKey: Bool
        /// Other peers that the user could select by the text that means the owner from now on.
        package let namesakes: [NamedKey]
    }

    private let machine: LocalMachine

    package init(_ machine: LocalMachine) { self.machine = machine }

    /// - Parameters:
    ///   - owner: the peer whose keys they are, as the user names it: the name of a known peer, a new name, or an id.
    ///   - source: the file of the keys, escaped.
    /// - Throws: ``CommandFailure`` for the keys of this machine or of another peer, and when there is no room.
    package func run(_ keys: ExportedKeys, of owner: String, from source: String) throws -> Outcome {
        let (agreementKey, signingKey) = (keys.publicKeys.agreementKey, keys.publicKeys.signingKey)
        let fingerprint = Fingerprint(of: agreementKey)
        if machine.state.hasIdentity, try machine.state.identity().fingerprint == fingerprint {
            throw CommandFailure(.failure, "\(source) holds the keys of this machine; import it on another machine")
        }
        let namesakes = try machine.trust.read().trustedPeers(named: owner).filter { $0.fingerprint != fingerprint }
        let name = try introduce(keys, fingerprint, as: owner, from: source)
        let trust = try machine.trust.read()
        let now = SystemClock.wall()
        let (before, isStored) = try machine.contacts.update { contacts in
            let before = contacts.entry(of: fingerprint)
            let isStored = contacts.recordImport(
                agreementKey: agreementKey, signingKey: signingKey, name: name,
                isFriend: { trust[$0]?.isFriend == true }, at: now)
            return (before, isStored)
        }
        guard isStored else {
            throw CommandFailure(
                .noSpace,
                "\(ContactBook.capacity) keys of friends or imported keys are stored; remove one with `nearshare keys forget`"
            )
        }
        return Outcome(
            owner: NamedKey(fingerprint: fingerprint, name: name),
            replacesSigningKey: before.map { $0.signingKey != signingKey } ?? false, namesakes: namesakes)
    }

    /// Checks that the keys belong to the named owner, and adds the owner to the trust store.
    /// - Returns: the owner's local name.
    private func introduce(
        _ keys: ExportedKeys, _ fingerprint: Fingerprint, as owner: String, from source: String
    ) throws -> DisplayName {
        let trust = try machine.trust.read()
        let resolved: KeysOwner
        do throws(KeysOwner.Mismatch) {
            resolved = try KeysOwner(named: owner, of: fingerprint, claiming: keys.name, in: trust)
        } catch {
            throw CommandFailure(.notTrusted, error.sentence(about: source))
        }
        switch resolved {
        case .known(let entry): return entry.name
        case .new(let name):
            let now = SystemClock.wall()
            let isStored = try machine.trust.update { $0.introduce(fingerprint, claiming: keys.name, as: name, at: now) }
            guard isStored else { throw CommandFailure.addressBookFull }
            return name
        }
    }
}
