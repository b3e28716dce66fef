import Nearshare
import NearshareTerminal
import Testing

@testable import NearshareCLI
@testable import NearshareService

@Suite("lines about running transfers") struct ProgressDisplayTests {
    private let start = MonotonicInstant(nanoseconds: 0)

    private func transfers(_ count: UInt64) -> [(label: TransferLabel, transfer: Transfer)] {
        (0..<count).map { number in
            let progress = TransferProgress(
                id: TransferID(rawValue: number), direction: .outgoing, total: 1_000, totalEntries: 1)
            return (TransferLabel("a", to: "peer \(number)"), Transfer(progress: progress, clock: { [start] in start }))
        }
    }

    private func lines(_ count: UInt64, isReconnecting: Bool = false, columns: Int = 80) -> [String] {
        ProgressDisplay.lines(
            of: transfers(count), reconnecting: isReconnecting ? [.init(label: "anna", since: start)] : [], columns: columns,
            now: start + .seconds(3))
    }

    @Test("eight transfers have a line each, and of more the last line says how many have none")
    func limit() {
        #expect(lines(8).count == 8 && lines(8).allSatisfy { $0.contains("→ peer") }, "\(lines(8))")
        #expect(lines(9).count == 8 && lines(9).last == "… and 2 more", "\(lines(9))")
        #expect(lines(9, columns: 10).allSatisfy { TerminalText.width(of: $0) < 10 })
    }

    @Test("a peer that is connected to again comes first, so that no number of transfers hides it")
    func reconnecting() {
        let shown = lines(20, isReconnecting: true)
        #expect(shown.first == "no answer from anna for 3 s, trying again", "\(shown)")
        #expect(shown.last == "… and 14 more", "\(shown)")
    }
}
