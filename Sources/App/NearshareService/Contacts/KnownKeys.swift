package import Nearshare

/// The known public keys, with the local names of their owners.
package struct KnownKeys: Sendable {
    /// The owner of known keys.
    package struct Contact: Sendable {
        package let fingerprint: Fingerprint
        package let name: DisplayName
        package let entry: ContactBook.Entry
        package let isFriend: Bool
        /// Whether the name is that of another known peer (K2).
        package let isNameTaken: Bool
    }

    /// Sorted by name.
    package let contacts: [Contact]

    package init(_ machine: LocalMachine) throws(StorageError) {
        let trust = try machine.trust.read()
        contacts = try machine.contacts.read().entries
            .map { fingerprint, entry in
                let name = trust[fingerprint]?.name ?? entry.name
                let isNameTaken =
                    if case .nameClash = trust.trustStatus(of: fingerprint, claiming: name) { true } else { false }
                return Contact(
                    fingerprint: fingerprint, name: name, entry: entry, isFriend: trust[fingerprint]?.isFriend == true,
                    isNameTaken: isNameTaken)
            }
            .sorted { ($0.name.claimed.lowercased(), $0.fingerprint.hex) < ($1.name.claimed.lowercased(), $1.fingerprint.hex) }
    }

    /// Removes a peer's keys.
    /// - Parameter text: a name, an unambiguous prefix of one, or an id.
    /// - Returns: the peer.
    /// - Throws: ``CommandFailure`` also when several peers match, or none.
    package static func remove(_ text: String, from machine: LocalMachine) throws -> NamedKey {
        let keys = try KnownKeys(machine).contacts.map { NamedKey(fingerprint: $0.fingerprint, name: $0.name) }
        guard let found = try NamedKey.find(text, among: keys) else {
            throw CommandFailure(
                .peerNotFound, "there are no keys of \(TerminalText.escaped(text)); `nearshare keys` lists them")
        }
        try machine.contacts.update { $0.remove(found.fingerprint) }
        return found
    }
}
