internal import Glibc
package import Nearshare

/// The part of a delivered item that is shown along with its path.
package enum DeliveredContent: Sendable {
    case text(String)
    case voiceNote(VoiceNote)
    case notShown

    /// Reads the file of the item.
    package init(of item: DeliveredItem) {
        switch item.kind {
        case .text: self = Self.text(at: item.path).map { .text($0) } ?? .notShown
        case .file where item.detectedType == VoiceNote.mediaType:
            self = (try? VoiceNote(path: item.path)).map { .voiceNote($0) } ?? .notShown
        case .file, .folder: self = .notShown
        }
    }

    private static func text(at path: String) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: TextSource.maximumByteCount)
        let count = Glibc.read(descriptor, &bytes, bytes.count)
        guard count >= 0 else { return nil }
        return String(decoding: bytes[..<count], as: UTF8.self)
    }
}
