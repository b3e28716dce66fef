internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// Output of a received voice note.
enum VoiceArrival {
    /// - Returns: nil when the item is not a voice note.
    static func note(in item: DeliveredItem) -> VoiceNote? {
        guard item.kind == .file, item.detectedType == VoiceNote.mediaType else { return nil }
        return try? VoiceNote(path: item.path)
    }

    static func lines(_ note: VoiceNote) -> [String] {
        let speaker = note.speaker.map { " from \($0)" } ?? ""
        let title = "  voice note\(speaker), \(note.duration.asClock); play it with `nearshare voice play \(note.id)`"
        let style = ANSIStyle(isEnabled: TerminalProperties.hasColor(STDOUT_FILENO))
        let columns = TerminalProperties.isTerminal(STDOUT_FILENO) ? TerminalProperties.size(of: STDOUT_FILENO).columns : 80
        return [title] + VoiceScreen.summary(note, columns: columns - 2, style: style).map { "  \($0)" }
    }
}
