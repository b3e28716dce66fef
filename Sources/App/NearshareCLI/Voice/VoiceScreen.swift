internal import Nearshare
internal import NearshareAudio
internal import NearshareService
internal import NearshareTerminal

/// The status lines of the recorder and the player, laid out for a width.
enum VoiceScreen {
    /// Maximum width of the waveform.
    static let widest = 72

    static func recorder(_ now: Recording.Snapshot, columns: Int, style: ANSIStyle) -> [String] {
        // The last column stays free: some terminals wrap a full line.
        let width = min(columns - 1, widest)
        guard width >= 16 else { return [TextLayout.truncated(now.elapsed.asClock, to: width)] }
        let isPaused = now.phase == .paused
        let isWaiting = now.phase == .idle
        let mark = isPaused ? style.yellow("‖") : style.red("●")
        // A microphone that is switched off has to be noticed during the recording.
        let isSilent = !isPaused && !now.hasSound && now.elapsed >= .seconds(3)
        let word = isPaused ? "paused" : isWaiting ? "waiting for sound" : isSilent ? "nothing heard yet" : "recording"
        let clock = now.elapsed.asClock
        let left = now.secondsLeft.map { "\(Duration.seconds($0).asClock) left" } ?? now.byteCount.formattedByteCount
        var title = "\(mark) \(style.bold(clock))"
        var used = 2 + clock.count
        if used + word.count + left.count + 4 <= width {
            title += "  \(isSilent ? style.yellow(word) : word)"
            used += 2 + word.count
        }
        if used + left.count + 2 <= width {
            let isShort = now.secondsLeft.map { $0 < 30 } ?? false
            title += String(repeating: " ", count: width - used - left.count) + (isShort ? style.red(left) : style.dim(left))
        }
        let recent = now.recentLevels.suffix(width)
        let heights = [Double](repeating: 0, count: width - recent.count) + recent
        let waves = BlockGraphics.chart(heights, rows: 2).map { isPaused ? style.dim($0) : style.green($0) }
        let tail = now.isClipping ? " too loud" : ""
        let bar = BlockGraphics.levelMeter(now.level, width: width - tail.count, style: style) + style.red(tail)
        let keys = hint(
            ["Space \(isPaused ? "resumes" : "pauses")", "Enter or Ctrl-C ends"], ["Space", "Enter"], width: width)
        return [title] + waves + [bar, style.dim(keys)]
    }

    static func player(
        _ now: Playback.Snapshot, _ note: VoiceNote, title: String, columns: Int, style: ANSIStyle
    ) -> [String] {
        let width = min(columns - 1, widest)
        guard width >= 16 else { return [TextLayout.truncated(now.position.asClock, to: width)] }
        let share = min(1, now.position.inSeconds / max(0.001, note.duration.inSeconds))
        let times = "\(now.position.asClock) / \(note.duration.asClock)"
        let mark = now.isPaused ? style.yellow("‖") : style.green("▶")
        let availableColumns = width - times.count - 4
        let shownTitle = availableColumns >= 4 ? TextLayout.truncated(title, to: availableColumns) : ""
        let gap = width - 2 - TerminalText.width(of: shownTitle) - times.count
        var lines = ["\(mark) \(shownTitle)\(String(repeating: " ", count: max(0, gap)))\(style.bold(times))"]
        if let waveform = note.waveform {
            let heard = Int(share * Double(width))
            lines += BlockGraphics.chart(waveform.heights(columns: width), rows: 2).map { row in
                style.green(String(row.prefix(heard))) + style.dim(String(row.dropFirst(heard)))
            }
        }
        lines.append(BlockGraphics.slider(share, width: width, style: style))
        let keys = hint(
            ["Space \(now.isPaused ? "resumes" : "pauses")", "← → 5 s", "q ends"], ["Space", "← →", "q"], width: width)
        return lines + [style.dim(keys)]
    }

    /// The waveform of a note in two lines.
    static func summary(_ note: VoiceNote, columns: Int, style: ANSIStyle) -> [String] {
        guard let waveform = note.waveform else { return [] }
        return BlockGraphics.chart(waveform.heights(columns: min(columns - 1, widest)), rows: 2).map(style.green)
    }

    private static func hint(_ long: [String], _ short: [String], width: Int) -> String {
        let text = long.joined(separator: " · ")
        return text.count <= width ? text : TextLayout.truncated(short.joined(separator: " · "), to: width)
    }
}
