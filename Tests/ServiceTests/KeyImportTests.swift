import Nearshare
import NearshareBundles
import NearshareTesting
import Testing

@testable import NearshareService

@Suite struct KeyImportTests {
    private let stage = ServiceStage()

    /// The keys that an identity exports under a name.
    private func keys(of identity: LocalIdentity, named name: String) throws -> ExportedKeys {
        try ExportedKeys(decoding: ExportedKeys.export(RouterKeys(identity), name: DisplayName(name)))
    }

    private func identity(_ byte: UInt8) -> LocalIdentity { LocalIdentity(seed: [UInt8](repeating: byte, count: 64)) }

    @Test func `imported keys belong to a new peer by the name that the user gives`() throws {
        let anna = try stage.user("anna")
        let ben = identity(2)
        let imported = try KeyImport(anna.machine).run(keys(of: ben, named: "benjamin"), of: "Ben", from: "f")
        #expect(try imported.owner == NamedKey(fingerprint: ben.fingerprint, name: DisplayName("Ben")))
        #expect(!imported.replacesSigningKey && imported.namesakes.isEmpty)
        let known = try #require(try anna.machine.trust.read()[ben.fingerprint])
        #expect(known.name.claimed == "Ben" && known.claimedName.claimed == "benjamin" && !known.isFriend)
        let entry = try #require(try anna.machine.contacts.read().entry(of: ben.fingerprint))
        #expect(entry.origin == .imported && entry.signingKey == ben.signingKey.publicKey)
        // Again, for the peer that is known now.
        #expect(try !KeyImport(anna.machine).run(keys(of: ben, named: "b"), of: "ben", from: "f").replacesSigningKey)
    }

    @Test func `another signing key of a known peer is reported`() throws {
        let anna = try stage.user("anna")
        let (ben, other) = (identity(2), identity(3))
        try anna.introduce(ben.fingerprint, as: "ben")
        try anna.machine.contacts.update { contacts in
            _ = contacts.storeAnnouncedKeys(
                agreementKey: ben.agreementKey.publicKey, signingKey: other.signingKey.publicKey,
                name: try! DisplayName("ben"), isProven: false, isFriend: { _ in false }, at: SystemClock.wall())
        }
        #expect(try KeyImport(anna.machine).run(keys(of: ben, named: "ben"), of: "ben", from: "f").replacesSigningKey)
    }

    @Test("K2: a peer that the user could call by the new name so far is named")
    func namesakes() throws {
        let anna = try stage.user("anna")
        try anna.introduce(identity(4).fingerprint, as: "benjamin", isFriend: true)
        let imported = try KeyImport(anna.machine).run(keys(of: identity(2), named: "x"), of: "ben", from: "f")
        #expect(imported.namesakes.map(\.fingerprint) == [identity(4).fingerprint])
    }

    @Test("K2: keys of another peer, and those of this machine, are rejected, and change nothing")
    func refused() throws {
        let anna = try stage.user("anna")
        try anna.introduce(identity(4).fingerprint, as: "ben")
        let before = try anna.machine.trust.read()
        let other = #expect(throws: CommandFailure.self) {
            try KeyImport(anna.machine).run(keys(of: identity(2), named: "x"), of: "ben", from: "f")
        }
        #expect(other?.status == .notTrusted)
        let own = #expect(throws: CommandFailure.self) {
            try KeyImport(anna.machine).run(keys(of: anna.identity, named: "me"), of: "me", from: "f")
        }
        #expect(own?.message.contains("the keys of this machine") == true)
        #expect(try anna.machine.trust.read() == before)
        #expect(try anna.machine.contacts.read().entries.isEmpty)
    }
}
