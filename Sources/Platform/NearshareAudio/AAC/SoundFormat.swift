internal import NearshareInterfaces

/// The container of a sound file, by its first bytes: libsndfile reads neither MP4 nor AAC.
enum SoundFormat {
    case ogg
    /// ISO/IEC 14496-12: `.m4a`, `.mp4`, `.3gp`.
    case mp4
    /// AAC without a container (ISO/IEC 13818-7, section 6.2): `.aac`.
    case adts
    case other

    init(of file: NoteFile) throws(AudioError) {
        let bytes = try file.read(8, at: 0)
        if bytes.starts(with: OggPage.capture) {
            self = .ogg
        } else if bytes.dropFirst(4).elementsEqual("ftyp".utf8) {
            self = .mp4
        } else if bytes.count >= 2, bytes[0] == 0xff, bytes[1] & 0xf6 == 0xf0 {
            // MPEG audio of layer 3 has the same 12 bits in front, and another layer.
            self = .adts
        } else {
            self = .other
        }
    }

    /// Whether libfaad2 decodes it.
    var isAAC: Bool {
        switch self {
        case .mp4, .adts: true
        case .ogg, .other: false
        }
    }

    /// The library that decodes AAC, and its Debian package.
    static let aacLibrary = (name: "libfaad2", package: "libfaad2")
}
