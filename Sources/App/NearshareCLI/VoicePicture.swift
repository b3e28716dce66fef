internal import Nearshare
internal import NearshareAudio

/// Colours where the terminal wants them, else nothing.
struct ANSIStyle: Sendable {
    let isOn: Bool

    func red(_ text: String) -> String { paint(text, "31") }
    func green(_ text: String) -> String { paint(text, "32") }
    func yellow(_ text: String) -> String { paint(text, "33") }
    func dim(_ text: String) -> String { paint(text, "2") }
    func bold(_ text: String) -> String { paint(text, "1") }

    private func paint(_ text: String, _ code: String) -> String {
        isOn && !text.isEmpty ? "\u{1b}[\(code)m\(text)\u{1b}[0m" : text
    }
}

/// Sound drawn with block characters.
enum VoicePicture {
    /// Columns of bars, row by row from above, in eighths of a row.
    /// - Parameter heights: one for each column, 0 to 1.
    static func wave(_ heights: [Double], rows: Int) -> [String] {
        (0..<rows).reversed().map { row in
            heights.reduce(into: "") { line, height in
                // Silence is a line, so that it is seen where a note begins and ends.
                let eighths = max(1, Int((min(1, max(0, height)) * Double(rows * 8)).rounded()))
                line += blocks[min(8, max(0, eighths - row * 8))]
            }
        }
    }

    /// A level bar: green where all is well, yellow near the top, red where sound is about to be distorted.
    static func bar(_ level: Double, width: Int, ink: ANSIStyle) -> String {
        let eighths = Int((min(1, max(0, level)) * Double(width * 8)).rounded())
        let cells = (0..<width).map { column -> String in
            let part = min(8, max(0, eighths - column * 8))
            return part == 0 ? "░" : sideBlocks[part - 1]
        }
        let yellow = width * 7 / 10
        let red = width * 9 / 10
        let filled = (eighths + 7) / 8
        return ink.green(cells[..<min(filled, yellow)].joined())
            + (filled > yellow ? ink.yellow(cells[yellow..<min(filled, red)].joined()) : "")
            + (filled > red ? ink.red(cells[red..<filled].joined()) : "") + ink.dim(cells[filled...].joined())
    }

    /// Where one is in a note.
    static func position(_ share: Double, width: Int, ink: ANSIStyle) -> String {
        let place = min(width - 1, max(0, Int(share * Double(width))))
        return ink.green(String(repeating: "━", count: place) + "●")
            + ink.dim(String(repeating: "─", count: width - 1 - place))
    }

    private static let blocks = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"]
    private static let sideBlocks = ["▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"]
}

/// What the recorder and the player show, line by line, made for a width.
enum VoiceScreen {
    /// Pictures that are wider say nothing more.
    static let widest = 72

    static func recorder(_ now: Recording.Snapshot, columns: Int, ink: ANSIStyle) -> [String] {
        // The last column stays free: a line that fills it is wrapped by some terminals.
        let width = min(columns - 1, widest)
        guard width >= 16 else { return [cut(now.elapsed.asClock, width)] }
        let isPaused = now.state == .paused
        let isWaiting = now.state == .idle
        let mark = isPaused ? ink.yellow("‖") : ink.red("●")
        // Somebody who speaks into a microphone that is off has to see it before they have finished.
        let isDeaf = !isPaused && !now.hasSound && now.elapsed >= .seconds(3)
        let word = isPaused ? "paused" : isWaiting ? "waiting for sound" : isDeaf ? "nothing heard yet" : "recording"
        let clock = now.elapsed.asClock
        let left = now.secondsLeft.map { "\(Duration.seconds($0).asClock) left" } ?? now.byteCount.asByteCount
        var title = "\(mark) \(ink.bold(clock))"
        var used = 2 + clock.count
        if used + word.count + left.count + 4 <= width {
            title += "  \(isDeaf ? ink.yellow(word) : word)"
            used += 2 + word.count
        }
        if used + left.count + 2 <= width {
            let isShort = now.secondsLeft.map { $0 < 30 } ?? false
            title += String(repeating: " ", count: width - used - left.count) + (isShort ? ink.red(left) : ink.dim(left))
        }
        let recent = now.recentLevels.suffix(width)
        let heights = [Double](repeating: 0, count: width - recent.count) + recent
        let waves = VoicePicture.wave(heights, rows: 2).map { isPaused ? ink.dim($0) : ink.green($0) }
        let tail = now.isClipping ? " too loud" : ""
        let bar = VoicePicture.bar(now.level, width: width - tail.count, ink: ink) + ink.red(tail)
        let keys = hint(
            ["Space \(isPaused ? "goes on" : "pauses")", "Enter or Ctrl-C ends"], ["Space", "Enter"], width: width)
        return [title] + waves + [bar, ink.dim(keys)]
    }

    static func player(
        _ now: Playback.Snapshot, _ note: VoiceFacts, title: String, columns: Int, ink: ANSIStyle
    ) -> [String] {
        let width = min(columns - 1, widest)
        guard width >= 16 else { return [cut(now.position.asClock, width)] }
        let share = min(1, now.position.inSeconds / max(0.001, note.duration.inSeconds))
        let times = "\(now.position.asClock) / \(note.duration.asClock)"
        let mark = now.isPaused ? ink.yellow("‖") : ink.green("▶")
        let room = width - times.count - 4
        let shownTitle = room >= 4 ? cut(title, room) : ""
        let gap = width - 2 - TerminalText.width(of: shownTitle) - times.count
        var lines = ["\(mark) \(shownTitle)\(String(repeating: " ", count: max(0, gap)))\(ink.bold(times))"]
        if let waveform = note.waveform {
            let heard = Int(share * Double(width))
            lines += VoicePicture.wave(waveform.heights(columns: width), rows: 2).map { row in
                ink.green(String(row.prefix(heard))) + ink.dim(String(row.dropFirst(heard)))
            }
        }
        lines.append(VoicePicture.position(share, width: width, ink: ink))
        let keys = hint(
            ["Space \(now.isPaused ? "goes on" : "pauses")", "← → 5 s", "q ends"], ["Space", "← →", "q"], width: width)
        return lines + [ink.dim(keys)]
    }

    /// A note in a few lines, for those who have not heard it yet.
    static func summary(_ note: VoiceFacts, columns: Int, ink: ANSIStyle) -> [String] {
        guard let waveform = note.waveform else { return [] }
        return VoicePicture.wave(waveform.heights(columns: min(columns - 1, widest)), rows: 2).map(ink.green)
    }

    private static func hint(_ long: [String], _ short: [String], width: Int) -> String {
        let text = long.joined(separator: " · ")
        return text.count <= width ? text : cut(short.joined(separator: " · "), width)
    }

    /// - Parameter text: fit to be shown.
    private static func cut(_ text: String, _ width: Int) -> String {
        guard TerminalText.width(of: text) > width else { return text }
        var kept = ""
        for character in text {
            guard TerminalText.width(of: kept) + TerminalText.width(of: String(character)) < width else { break }
            kept.append(character)
        }
        return width > 0 ? kept + "…" : ""
    }
}
