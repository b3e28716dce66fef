internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// Renders a received voice note as text.
enum VoiceNoteRenderer {
    /// - Parameters:
    ///   - sender: the authenticated sender; nil where it is not known any more.
    ///   - columns: width of the terminal.
    static func lines(_ note: VoiceNote, from sender: DisplayName?, columns: Int, style: ANSIStyle) -> [String] {
        var title = "voice note"
        if let sender { title += " from \(sender.shown)" }
        // The tag is a claim of the file, which any peer may have recorded (K14).
        if let speaker = note.speaker, note.summary.tags.speaker != sender?.claimed {
            title += " (speaker according to the file: \(speaker))"
        }
        title += ", \(note.duration.asClock); play it with `nearshare voice play \(note.id)`"
        return ([title] + VoiceScreen.summary(note, columns: columns - 2, style: style)).map { "  \($0)" }
    }
}
