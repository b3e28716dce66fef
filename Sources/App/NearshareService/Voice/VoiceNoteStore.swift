internal import FoundationEssentials
internal import Glibc
package import Nearshare
package import NearshareAudio

/// The voice notes that this user has recorded, sent and received.
package struct VoiceNoteStore: Sendable {
    /// How a note came to this machine, and what was done with it.
    package enum Origin: Sendable, Hashable {
        case received(from: DisplayName)
        /// Sent to peers, as the user named them.
        case sent(to: [String])
        case recorded
    }

    /// A note with its origin.
    package struct Entry: Sendable {
        package var note: VoiceNote
        /// The time when the note was received, sent or recorded.
        package var time: WallTime
        package var origin: Origin
    }

    /// The stored list of sent notes.
    private struct SentNotes: Codable {
        struct Entry: Codable {
            var path: String
            var when: WallTime
            var to: [String]
        }

        var notes: [Entry] = []

        static let fileName = "voice.json"
        static let maximumCount = 500
    }

    private let machine: LocalMachine
    /// The directory of recorded notes.
    private let directory: String

    /// Limit on notes read from each source, the newest first: reading a note costs the first and last Ogg pages of its file.
    private static let maximumListedCount = 200
    /// Limit on notes that are recorded within one second.
    private static let maximumCountPerSecond = 100

    package init(_ machine: LocalMachine) {
        self.machine = machine
        directory = "\(machine.directories.data)/voice"
    }

    /// Creates a file in the directory of recorded notes, named after the time of the recording.
    package func createFile(recordedAt time: WallTime) throws -> NoteFile {
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        let name = LocalTime.format(time, "voice-%Y-%m-%d-%H%M%S")
        for number in 1...Self.maximumCountPerSecond {
            let path = "\(directory)/\(name)\(number == 1 ? "" : "-\(number)").opus"
            if let file = try NoteFile.create(path) { return file }
        }
        throw CommandFailure(
            .failure,
            "could not name the note: \(Self.maximumCountPerSecond) notes of this second exist in "
                + TerminalText.escaped(directory, columns: 4096))
    }

    /// Records that a note was sent.
    /// - Parameter receivers: as the user named them.
    package func recordSent(_ path: String, to receivers: [String], at time: WallTime) throws {
        // Stored as an absolute path: the list may be read from another working directory. Symbolic links stay, as in the paths
        // of the voice directory.
        let path = try AbsolutePath.absolute(path)
        try machine.state.update(SentNotes.fileName, startingWith: SentNotes()) { sent in
            sent.notes.removeAll { $0.path == path }
            sent.notes.append(SentNotes.Entry(path: path, when: time, to: receivers))
            if sent.notes.count > SentNotes.maximumCount { sent.notes.removeFirst(sent.notes.count - SentNotes.maximumCount) }
        }
    }

    /// The latest notes of each origin, the newest last. Missing files and files of other types are left out.
    package func entries() throws -> [Entry] {
        let received = try ReceiveHistory(in: machine.state).entries().filter { item in
            !item.isFolder && item.type.map(VoiceNote.mediaTypes.contains) ?? false
        }
        let sent = try machine.state.read(SentNotes.self, from: SentNotes.fileName) ?? SentNotes()
        var entries: [Entry] = []
        var paths: Set<String> = []
        func add(_ path: String, _ time: WallTime?, _ origin: Origin) {
            guard paths.insert(path).inserted, let note = try? VoiceNote(path: path) else { return }
            let time = time ?? note.summary.tags.recorded ?? WallTime(milliseconds: 0)
            entries.append(Entry(note: note, time: time, origin: origin))
        }
        for item in received.suffix(Self.maximumListedCount).reversed() {
            add(item.path, item.when, .received(from: item.peerName))
        }
        for item in sent.notes.suffix(Self.maximumListedCount).reversed() { add(item.path, item.when, .sent(to: item.to)) }
        for path in recordedPaths() { add(path, nil, .recorded) }
        return entries.sorted { $0.time < $1.time }
    }

    /// The recorded notes last modified. Not ordered by name: names begin with local time, which repeats an hour in autumn.
    private func recordedPaths() -> [String] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        let files = names.filter { $0.hasSuffix(".opus") }.map { name in
            var status = stat()
            let exists = stat("\(directory)/\(name)", &status) == 0
            return (name: name, seconds: exists ? status.st_mtim.tv_sec : 0, nanoseconds: status.st_mtim.tv_nsec)
        }
        return files.sorted { ($0.seconds, $0.nanoseconds, $0.name) < ($1.seconds, $1.nanoseconds, $1.name) }
            .suffix(Self.maximumListedCount).map { "\(directory)/\($0.name)" }
    }

    /// The note that the user names: the path of a file, or else an id or a prefix of an id.
    package func find(_ text: String) throws -> VoiceNote {
        if access(text, F_OK) == 0 { return try VoiceNote(path: text) }
        let shown = TerminalText.escaped(text)
        guard (VoiceNote.minimumPrefixLength...VoiceNote.idLength).contains(text.utf8.count), text.allSatisfy(\.isHexDigit)
        else {
            throw CommandFailure(
                .failure,
                "\(shown) is neither a file nor \(VoiceNote.minimumPrefixLength) to \(VoiceNote.idLength) digits of a note's id; "
                    + "see `nearshare voice list`")
        }
        let found = try entries().filter { $0.note.id.hasPrefix(text.lowercased()) }
        guard let first = found.first else {
            throw CommandFailure(
                .failure, "note not found: \(shown); `nearshare voice list` lists the newest, and others can be given as files")
        }
        // Copies of one note are one note.
        guard Set(found.map(\.note.summary)).count == 1 else {
            throw CommandFailure(
                .usage, "\(found.count) notes have ids that start with \(shown); give a longer prefix or the file")
        }
        return first.note
    }
}
