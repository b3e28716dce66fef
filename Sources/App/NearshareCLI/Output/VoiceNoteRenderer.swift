internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// Renders a received voice note as text.
enum VoiceNoteRenderer {
    /// - Parameters:
    ///   - sender: the authenticated sender; nil where it is not known any more.
    ///   - columns: width of the terminal.
    static func lines(_ note: VoiceNote, from sender: DisplayName?, columns: Int, style: ANSIStyle) -> [String] {
        let title = "\(title(of: note, from: sender)); play it with `nearshare voice play \(note.id)`"
        let summary = VoiceScreen.summary(note, columns: columns - 2, style: style)
        return (TextLayout.wrapWords(title, columns: columns - 2) + summary).map { "  \($0)" }
    }

    /// The note as one notice of a chat, whose waveform takes one row on screens from 32 columns on.
    static func notice(_ note: VoiceNote, from sender: DisplayName?) -> String {
        let waveform = note.waveform.map { BlockGraphics.chart($0.heights(columns: noticeColumns), rows: 1) } ?? []
        return (["\(title(of: note, from: sender)); \(playHint(note))"] + waveform).joined(separator: "\n")
    }

    /// How to play a note, in a chat and elsewhere.
    static func playHint(_ note: VoiceNote) -> String {
        "/play \(note.id) plays it in the chat, `nearshare voice play \(note.id)` elsewhere"
    }

    private static let noticeColumns = 24

    private static func title(of note: VoiceNote, from sender: DisplayName?) -> String {
        var title = "voice note"
        if let sender { title += " from \(sender.shown)" }
        // The tag is a claim of the file, which any peer may have recorded (K14).
        if let speaker = note.speaker, note.summary.tags.speaker != sender?.claimed {
            title += " (speaker according to the file: \(speaker))"
        }
        return "\(title), \(note.duration.asClock)"
    }
}
