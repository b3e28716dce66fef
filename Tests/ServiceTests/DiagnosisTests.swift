import Nearshare
import NearshareService
import Testing

@Suite("What the doctor finds out from peers")
struct DiagnosisTests {
    private func finding(_ difference: Duration?, failure: String? = nil) throws -> MachineDiagnosis.Finding {
        let answer = MachineDiagnosis.PeerAnswer(
            name: try DisplayName("anna"), id: PeerID(bytes: [UInt8](repeating: 1, count: 8))!, clockDifference: difference,
            failure: failure)
        return try #require(MachineDiagnosis.findings([answer]).first)
    }

    @Test("A peer that answers is fine, also with a clock that is a little off", arguments: [0, 120, -120])
    func fine(_ seconds: Int) throws {
        #expect(try finding(.seconds(seconds)).severity == .fine)
    }

    @Test("A clock that is off by more than phones tolerate is a warning", arguments: [121, -121, 86_400])
    func clock(_ seconds: Int) throws {
        let finding = try finding(.seconds(seconds))
        #expect(finding.severity == .warning && finding.subject == "clock" && finding.advice != nil)
    }

    @Test("A peer that does not answer is a warning that says why")
    func failure() throws {
        let finding = try finding(nil, failure: "timed out")
        #expect(finding.severity == .warning && finding.text.contains("timed out"))
    }

    @Test("No peer is worth a note, and the worst finding counts")
    func none() {
        let findings = MachineDiagnosis.findings([])
        #expect(findings.map(\.severity) == [.note])
        #expect([DiagnosticSeverity.note, .problem, .fine].max() == .problem)
    }
}
