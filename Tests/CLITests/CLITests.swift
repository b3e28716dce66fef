import Nearshare
import NearshareService
import Testing

@testable import NearshareCLI

@Suite struct JSONEventsTests {
    @Test("T5, T7: nothing in a line of JSON can steer a terminal or end the line")
    func harmless() {
        let hostile = "a\u{1b}]0;x\u{7}\u{9b}31m\u{202e}\u{2028}\n\u{7f}é😀"
        let line = JSONEvents.escapingControlCharacters("\"\(hostile)\"")
        let isHarmless = line.unicodeScalars.allSatisfy { scalar in
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator: false
            default: true
            }
        }
        #expect(isHarmless)
        #expect(line.hasSuffix("\\u007fé😀\""))
        #expect(line.contains("\\u001b]0;x\\u0007\\u009b31m\\u202e\\u2028"))
    }

    @Test("what lies beyond 16 bits is escaped as a pair")
    func pairs() {
        #expect(JSONEvents.escapingControlCharacters("\u{e0001}") == "\\udb40\\udc01")
    }
}

@Suite struct ProgressScheduleTests {
    @Test func `a line is due for each tenth, at most once a second, and after ten seconds`() {
        func at(_ milliseconds: Int64) -> MonotonicInstant { MonotonicInstant(nanoseconds: milliseconds * 1_000_000) }
        var progress = TransferProgress(id: TransferID(rawValue: 1), direction: .incoming, total: 1_000, totalEntries: 1)
        var schedule = ProgressSchedule(now: at(0))
        func isDue(_ done: UInt64, at milliseconds: Int64) -> Bool {
            progress.done = done
            return schedule.isDue([progress], now: at(milliseconds))
        }
        #expect(!isDue(500, at: 999) && isDue(500, at: 1_000))
        #expect(!isDue(599, at: 5_000) && isDue(600, at: 5_000))
        #expect(!isDue(600, at: 14_999) && isDue(600, at: 15_000))
        progress.total = nil
        #expect(!isDue(9_000, at: 24_999) && isDue(9_000, at: 25_000))
    }
}

@Suite struct ProgressLineTests {
    private func progress(_ phase: TransferProgress.Phase, done: UInt64 = 0, total: UInt64? = 1000) -> TransferProgress {
        var progress = TransferProgress(id: TransferID(rawValue: 1), direction: .outgoing, total: total, totalEntries: 1)
        progress.phase = phase
        progress.done = done
        return progress
    }

    @Test("never wider than the terminal", arguments: [20, 40, 60, 80, 200])
    func width(_ columns: Int) {
        var moving = progress(.moving, done: 333_000_000, total: 1_000_000_000)
        moving.rate = 12_345_678
        moving.timeLeft = .seconds(4000)
        for value in [moving, progress(.waiting), progress(.connecting), progress(.finishing), progress(.comparing)] {
            let line = ProgressLine.text(TransferLabel("a name that is rather long", to: "somepeer"), value, columns: columns)
            #expect(TerminalText.width(of: line) < columns, "\(line)")
        }
    }

    @Test func `a progress line has a percentage where the total is known`() {
        #expect(ProgressLine.text(TransferLabel("a"), progress(.moving, done: 500), columns: 80).contains("50%"))
        let silent = ProgressLine.text(TransferLabel("a"), progress(.moving, done: 500), silence: .seconds(8), columns: 80)
        #expect(silent.contains("nothing moved for 8 s") && !silent.contains("left"))
        #expect(ProgressLine.text(TransferLabel("a"), progress(.moving, done: 0, total: 0), columns: 80).contains("100%"))
        let unknown = ProgressLine.text(TransferLabel("a"), progress(.moving, done: 500, total: nil), columns: 80)
        #expect(unknown.contains("500 B so far") && !unknown.contains("%"))
    }

    @Test func `the silence of a peer is told in seconds once there is one`() {
        func text(_ milliseconds: Int) -> String {
            ProgressLine.text(reconnectingTo: "anna", for: .milliseconds(milliseconds), columns: 80)
        }
        #expect(text(0) == "connection to anna lost, trying again" && text(999) == text(0))
        #expect(text(1_000) == "no answer from anna for 1 s, trying again")
    }

    @Test("the name is cut first; the percentage and the peer stay", arguments: [30, 40, 60, 80, 100])
    func longName(_ columns: Int) {
        let name = "\"A very long file name with spaces and → more of it, to the very end of it all, and so on.pdf\""
        var moving = progress(.moving, done: 333_000_000, total: 1_000_000_000)
        moving.rate = 12_345_678
        moving.timeLeft = .seconds(75)
        let outgoing = ProgressLine.text(TransferLabel(name, to: "anna"), moving, columns: columns)
        #expect(outgoing.hasPrefix("\"A") && outgoing.contains("…") && outgoing.contains("f\" → anna  33%"), "\(outgoing)")
        #expect(columns < 40 || outgoing.contains("1:15 left"), "\(outgoing)")
        #expect(columns < 60 || outgoing.contains("MB/s"), "\(outgoing)")
        #expect(TerminalText.width(of: outgoing) < columns, "\(outgoing)")
        moving.direction = .incoming
        let incoming = ProgressLine.text(TransferLabel(name, from: "anna"), moving, columns: columns)
        #expect(incoming.hasPrefix("anna → \"A") && incoming.contains("f\"  33%"), "\(incoming)")
        let waiting = ProgressLine.text(TransferLabel(name, to: "anna"), progress(.waiting), columns: columns)
        #expect(waiting.contains("anna  waiting"), "\(waiting)")
        // A peer's name may hold an arrow as well.
        let fromArrow = ProgressLine.text(TransferLabel(name, from: "a → b"), moving, columns: columns)
        #expect(fromArrow.hasPrefix("a → b → \"") && fromArrow.contains("  33%"), "\(fromArrow)")
    }

    @Test func `a long name of a peer leaves half of a narrow label to the content`() {
        let label = TransferLabel("holiday-video.mp4 and 1 more", to: "\"Ben the Great of Westphalia\"")
        let text = ProgressLine.text(label, progress(.moving, done: 330, total: 1_000), columns: 40)
        #expect(text == "holid…nd 1 more → \"Ben the Great …  33%", "\(text)")
    }
}
