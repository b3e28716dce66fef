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
        case .file where item.detectedType.map(VoiceNote.mediaTypes.contains) ?? false:
            self = (try? VoiceNote(path: item.path)).map { .voiceNote($0) } ?? .notShown
        case .file, .folder: self = .notShown
        }
    }

    private static func text(at path: String) -> String? {
        bytes(at: path, upTo: TextSource.maximumByteCount).map { String(decoding: $0, as: UTF8.self) }
    }

    /// The content of a regular file; nil for any other, and for one that is longer than `limit`.
    static func bytes(at path: String, upTo limit: Int) -> ArraySlice<UInt8>? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_size <= limit else { return nil }
        var bytes = [UInt8](repeating: 0, count: limit)
        let count = Glibc.read(descriptor, &bytes, limit)
        return count >= 0 ? bytes[..<count] : nil
    }
}
