import Nearshare
import NearshareService
import Testing

@testable import NearshareCLI

@Suite("the commands about peers") struct PeersCommandTests {
    private func fingerprint(_ number: UInt8) throws -> Fingerprint {
        try #require(Fingerprint(bytes: [UInt8](repeating: number, count: 32)))
    }

    private func contact(
        _ number: UInt8, _ name: String, _ software: Contact.Software = .phone, isNear: Bool = true
    ) throws -> Contact {
        Contact(
            id: try fingerprint(number).peerID, name: try DisplayName(name), trustStatus: .new, isNear: isNear,
            software: software, hasKeys: true)
    }

    @Test("a phone in range is verified by a link alone")
    func phone() throws {
        let anna = try contact(1, "anna")
        func selected(_ text: String, among contacts: [Contact]) -> PeerID? {
            PeersVerifyCommand.phone(named: text, among: contacts, in: TrustStore())?.id
        }
        for text in ["anna", "an", anna.id.hex] { #expect(selected(text, among: [anna]) == anna.id, "\(text)") }
        #expect(selected("ben", among: [anna]) == nil)
        let away = try contact(1, "anna", isNear: false)
        #expect(selected("anna", among: [away]) == nil)
        let machine = try contact(1, "anna", .nearshare)
        #expect(selected("anna", among: [machine]) == nil)
        let other = try contact(2, "anna")
        #expect(selected("anna", among: [anna, other]) == nil)
    }

    @Test("K2: a phone with the name of a known peer does not keep that one from being verified")
    func impostor() throws {
        var trust = TrustStore()
        trust.recordEarlierProof(of: try fingerprint(1), named: try DisplayName("anna"), at: WallTime(milliseconds: 1))
        let impostors = [try contact(2, "anna"), try contact(3, "annabel")]
        for impostor in impostors {
            for text in ["anna", "ann"] {
                #expect(PeersVerifyCommand.phone(named: text, among: [impostor], in: trust) == nil, "\(text)")
            }
            #expect(PeersVerifyCommand.phone(named: impostor.id.hex, among: [impostor], in: trust)?.id == impostor.id)
        }
        // The known peer may be a phone itself.
        let known = try contact(1, "anna")
        for text in ["anna", "ann", known.id.hex] {
            #expect(PeersVerifyCommand.phone(named: text, among: [known], in: trust)?.id == known.id, "\(text)")
        }
    }
}
