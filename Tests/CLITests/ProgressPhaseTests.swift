import FoundationEssentials
import Nearshare
import NearshareBundles
import NearshareService
import NearshareTerminal
import Testing

@testable import NearshareCLI

@Suite("progress of a transfer") struct ProgressPhaseTests {
    private func line(_ change: (inout TransferProgress) -> Void, columns: Int = 100) -> String {
        var progress = TransferProgress(id: TransferID(rawValue: 1), direction: .outgoing, total: 1000, totalEntries: 1)
        progress.phase = .moving
        change(&progress)
        return ProgressLine.text(TransferLabel("a.jpg", to: "anna"), progress, columns: columns)
    }

    @Test func `each phase has its words`() {
        #expect(line { $0.phase = .connecting }.hasSuffix("connecting…"))
        #expect(line { $0.phase = .waiting }.hasSuffix("waiting for an answer…"))
        #expect(line { $0.phase = .comparing }.contains("comparing"))
        #expect(line { $0.phase = .finishing }.contains("finishing"))
    }

    @Test("R7: any rate can be shown", arguments: [-1, 0, 1e300, .infinity, .nan] as [Double])
    func anyRate(_ rate: Double) {
        #expect(line { $0.rate = rate }.contains("B/s"))
    }

    @Test func `facts appear when they are known`() {
        let full = line {
            $0.done = 250
            $0.totalEntries = 4
            $0.finishedEntries = 1
            $0.rate = 100
            $0.timeLeft = .seconds(8)
        }
        for fact in ["25%", "1 of 4", "250 B of 1.0 KB", "100 B/s", "0:08 left"] { #expect(full.contains(fact), "\(full)") }
        let plain = line { $0.done = 250 }
        #expect(!plain.contains("left") && !plain.contains("/s"))
    }

    @Test("a narrow terminal drops the bar first, then cuts the line", arguments: [10, 30, 40])
    func narrow(_ columns: Int) {
        let text = line({ $0.done = 250 }, columns: columns)
        #expect(TerminalText.width(of: text) < columns)
        #expect(!text.contains("█"))
    }
}
