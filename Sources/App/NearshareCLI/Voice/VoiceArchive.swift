internal import FoundationEssentials
internal import Glibc
internal import Nearshare
internal import NearshareAudio
internal import NearshareService

/// The voice notes of this user: recorded and received ones.
struct VoiceArchive {
    /// A note with its origin.
    struct Entry {
        var note: VoiceNote
        var when: WallTime
        /// The origin for users: "from anna", "to ben" or "kept".
        var way: String
        var isReceived: Bool
    }

    /// The stored list of sent notes.
    private struct Sent: Codable {
        struct Note: Codable {
            var path: String
            var when: WallTime
            var to: [String]
        }

        var notes: [Note] = []

        static let fileName = "voice.json"
        static let maximum = 500
    }

    private let machine: LocalMachine
    /// Directory of recorded notes.
    let folder: String

    /// Limit on notes read from each source, the newest first: each costs reading the first and last pages of a file.
    private static let maximumListed = 200

    init(_ machine: LocalMachine) {
        self.machine = machine
        // Notes are user data in the XDG base directory specification, neither configuration nor state.
        let base = getenv("XDG_DATA_HOME").map { String(cString: $0) } ?? ""
        let home = getenv("HOME").map { String(cString: $0) } ?? "/"
        folder = (base.hasPrefix("/") ? base : "\(home)/.local/share") + "/nearshare/voice"
    }

    /// Creates a file in the voice directory, named after the time.
    func create(at time: WallTime) throws -> NoteFile {
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        let moment = time.localText.filter { $0 != ":" }.map { $0 == " " ? "-" : String($0) }.joined()
        let seconds = time.milliseconds / 1000 % 60
        let name = "voice-\(moment)\(seconds < 10 ? "0" : "")\(seconds)"
        for number in 1...100 {
            let path = "\(folder)/\(name)\(number == 1 ? "" : "-\(number)").opus"
            if let file = try NoteFile.create(path) { return file }
        }
        throw CommandFailure(.failure, "no unused file name in \(TerminalText.escaped(folder, columns: 4096))")
    }

    func recordSent(_ path: String, to receivers: [String], at time: WallTime) throws {
        try machine.state.update(Sent.fileName, startingWith: Sent()) { sent in
            sent.notes.removeAll { $0.path == path }
            sent.notes.append(Sent.Note(path: path, when: time, to: receivers))
            if sent.notes.count > Sent.maximum { sent.notes.removeFirst(sent.notes.count - Sent.maximum) }
        }
    }

    /// All notes, the newest last. Missing files and other kinds of files are left out.
    func entries() throws -> [Entry] {
        var entries: [Entry] = []
        var seen: Set<String> = []
        let received = try ReceiveHistory(in: machine.state).entries().filter { $0.type == "audio/ogg" && !$0.isFolder }
        for item in received.suffix(Self.maximumListed).reversed() where seen.insert(item.path).inserted {
            guard let note = try? VoiceNote(path: item.path) else { continue }
            entries.append(Entry(note: note, when: item.when, way: "from \(item.peerName.shown)", isReceived: true))
        }
        let sent = try machine.state.read(Sent.self, from: Sent.fileName) ?? Sent()
        for item in sent.notes.suffix(Self.maximumListed).reversed() where seen.insert(item.path).inserted {
            guard let note = try? VoiceNote(path: item.path) else { continue }
            let receivers = item.to.map { TerminalText.escaped($0, columns: 40) }.joined(separator: ", ")
            entries.append(Entry(note: note, when: item.when, way: "to \(receivers)", isReceived: false))
        }
        for path in ownPaths() where seen.insert(path).inserted {
            guard let note = try? VoiceNote(path: path) else { continue }
            let when = note.summary.tags.recorded ?? WallTime(milliseconds: 0)
            entries.append(Entry(note: note, when: when, way: "kept", isReceived: false))
        }
        return entries.sorted { $0.when < $1.when }
    }

    /// Recorded files; their names start with the date, so the last ones are the newest.
    private func ownPaths() -> [String] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return names.filter { $0.hasSuffix(".opus") }.sorted().suffix(Self.maximumListed).map { "\(folder)/\($0)" }
    }

    /// The note that the user names: a file, an id or a prefix of an id.
    func find(_ text: String) throws -> VoiceNote {
        if access(text, F_OK) == 0 { return try VoiceNote(path: text) }
        let shown = TerminalText.escaped(text)
        guard text.utf8.count >= 2, text.utf8.count <= 6, text.allSatisfy(\.isHexDigit) else {
            throw CommandFailure(.failure, "\(shown) is neither a file nor the id of a note; see `nearshare voice list`")
        }
        let found = try entries().filter { $0.note.id.hasPrefix(text.lowercased()) }
        guard let first = found.first else {
            throw CommandFailure(.failure, "note not found: \(shown); `nearshare voice list` lists all")
        }
        guard found.count == 1 else {
            throw CommandFailure(
                .usage, "\(found.count) notes have ids that start with \(shown); give a longer prefix or the file")
        }
        return first.note
    }
}
