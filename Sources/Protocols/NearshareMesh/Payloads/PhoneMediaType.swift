/// A media type that bitchat on iOS accepts (bitchat specification, section 7.4). It refuses files of other types, unless
/// Apple's type database happens to know them, and content that does not begin like its type.
package enum PhoneMediaType: String, Sendable, Hashable, CaseIterable {
    case jpeg = "image/jpeg"
    case png = "image/png"
    case gif = "image/gif"
    case webP = "image/webp"
    case mp4Audio = "audio/mp4"
    case m4a = "audio/m4a"
    case aac = "audio/aac"
    case mpegAudio = "audio/mpeg"
    case mp3 = "audio/mp3"
    case wav = "audio/wav"
    case xWav = "audio/x-wav"
    case ogg = "audio/ogg"
    case pdf = "application/pdf"
    case anything = "application/octet-stream"

    /// The folder in which a phone stores a file.
    package enum Category: String, Sendable, Hashable {
        case image
        case audio
        case file
    }

    /// - Parameter claimed: the type in upper or lower case.
    /// - Returns: nil for a type that phones may refuse.
    package init?(_ claimed: String) { self.init(rawValue: claimed.lowercased()) }

    /// The type under which a phone accepts a file: the claimed one where it is known and fits the content, else
    /// `application/octet-stream`.
    package init(admissibleFor claimed: String?, content: ArraySlice<UInt8>) {
        let type = claimed.flatMap { PhoneMediaType($0) } ?? .anything
        self = type.matches(content) ? type : .anything
    }

    /// The kind that the phone apps show it as.
    package var category: Category {
        switch self {
        case .jpeg, .png, .gif, .webP: .image
        case .mp4Audio, .m4a, .aac, .mpegAudio, .mp3, .wav, .xWav, .ogg: .audio
        case .pdf, .anything: .file
        }
    }

    /// The extension for a file whose name has none.
    package var fileExtension: String {
        switch self {
        case .jpeg: "jpg"
        case .png: "png"
        case .gif: "gif"
        case .webP: "webp"
        case .mp4Audio, .m4a, .aac: "m4a"
        case .mpegAudio, .mp3: "mp3"
        case .wav, .xWav: "wav"
        case .ogg: "ogg"
        case .pdf: "pdf"
        case .anything: "bin"
        }
    }

    /// Whether content is accepted for this type, by its first bytes. Empty content never is.
    package func matches(_ content: ArraySlice<UInt8>) -> Bool {
        guard !content.isEmpty else { return false }
        switch self {
        case .jpeg: return content.starts(with: [0xff, 0xd8, 0xff])
        case .png: return content.starts(with: [0x89] + Array("PNG\r\n".utf8) + [0x1a, 0x0a])
        case .gif: return content.starts(with: "GIF87a".utf8) || content.starts(with: "GIF89a".utf8)
        case .webP: return Self.isContainer(content, of: "WEBP")
        // The output of recorders differs too much to be recognised by its first bytes.
        case .mp4Audio, .m4a, .aac: return content.count > 100
        case .mpegAudio, .mp3: return content.starts(with: "ID3".utf8) || Self.isFrameSync(content.prefix(2))
        case .wav, .xWav: return Self.isContainer(content, of: "WAVE")
        case .ogg: return content.starts(with: "OggS".utf8)
        case .pdf: return content.starts(with: "%PDF".utf8)
        case .anything: return true
        }
    }

    private static func isContainer(_ content: ArraySlice<UInt8>, of form: String) -> Bool {
        content.starts(with: "RIFF".utf8) && content.dropFirst(8).starts(with: form.utf8)
    }

    /// Whether the bytes begin with the 11 set bits of an MPEG frame header.
    private static func isFrameSync(_ bytes: ArraySlice<UInt8>) -> Bool {
        bytes.count == 2 && bytes.first == 0xff && bytes.last.map { $0 & 0xe0 == 0xe0 } ?? false
    }
}
