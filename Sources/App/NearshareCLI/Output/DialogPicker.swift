internal import Glibc
internal import Nearshare
internal import NearshareService

/// A list of the peers nearby but blocked ones in a window of zenity or kdialog, from which the user picks one: friends first.
struct DialogPicker: Sendable {
    enum Program: String, Sendable, CaseIterable {
        case zenity, kdialog
    }

    /// No receiver was picked.
    enum Cancelled: Error {
        case byUser
    }

    let program: Program
    let trust: TrustStore
    private let termination = ChildProgram.Termination()

    /// Time in which peers are found before the list is shown.
    private static let browseTime = Duration.milliseconds(1_500)
    /// Time in which a first peer is awaited by a program that adds none to the list that it shows.
    private static let firstPeerTimeout = Duration.seconds(8)
    private static let maximumPeerCount = 100

    /// The program of this desktop, or else the other one.
    /// - Returns: nil when neither is installed, or there is no desktop.
    static func ofDesktop(knowing trust: TrustStore) -> DialogPicker? {
        guard hasDesktop else { return nil }
        let isKDE = variable("XDG_CURRENT_DESKTOP").split(separator: ":").contains("KDE")
        let order: [Program] = isKDE ? [.kdialog, .zenity] : [.zenity, .kdialog]
        let folders = variable("PATH").split(separator: ":")
        return order.first { program in folders.contains { access("\($0)/\(program.rawValue)", X_OK) == 0 } }
            .map { DialogPicker(program: $0, trust: trust) }
    }

    private init(program: Program, trust: TrustStore) {
        (self.program, self.trust) = (program, trust)
    }

    /// Closes the dialog.
    /// - Returns: false when none is shown.
    func close() -> Bool { termination.request() }

    private static var hasDesktop: Bool { !variable("DISPLAY").isEmpty || !variable("WAYLAND_DISPLAY").isEmpty }

    private static func variable(_ name: String) -> String { getenv(name).map { String(cString: $0) } ?? "" }

    /// Replaces this process by a terminal in which `send` asks.
    static func openTerminal(sending files: [LocalPath]) throws(CommandFailure) -> Never {
        var path = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
        let count = readlink("/proc/self/exe", &path, Int(PATH_MAX))
        guard count > 0, hasDesktop else {
            throw CommandFailure(.usage, "there is no desktop for a dialog; give a receiver with --to")
        }
        let script = "\"$0\" \"$@\"; printf 'press Enter to close this window '; read -r _"
        var words = ["x-terminal-emulator", "-e", "sh", "-c", script].map { Array($0.utf8) }
        words.append(path[..<count].map { UInt8(bitPattern: $0) })
        words += [Array("send".utf8), Array("--".utf8)] + files.map(\.bytes)
        _ = ChildProgram.replaceThisProcess(by: words)
        throw CommandFailure(
            .failure, "no program for a dialog; install zenity or kdialog, or give a receiver with --to in a terminal")
    }

    /// Shows the list until the user has picked a peer.
    /// - Parameter label: the content, escaped.
    /// - Throws: ``Cancelled``; ``CommandFailure`` when there is no peer to pick.
    func pick(sending label: String, on node: Node, _ media: Set<LinkAddress.Medium>) async throws -> NearbyPeer {
        let changes = try await node.browse(media)
        let (arrivals, arrived) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let found = Monitor<[PeerID: NearbyPeer]>([:])
        let rows = try DialogPipe()
        let choice: String = try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            let isListed = Monitor(false)
            group.addTask {
                for try await change in changes.compactMap(\.change) where change.isPresent && !trust.isBlocked(change.peer) {
                    let isNew = found.withLock { found in
                        guard found[change.peer.id] != nil || found.count < Self.maximumPeerCount else { return false }
                        return found.updateValue(change.peer, forKey: change.peer.id) == nil
                    }
                    guard isNew else { continue }
                    arrived.yield()
                    // zenity adds a line to the list that it shows.
                    if isListed.withLock(\.self), program == .zenity { rows.write(cells(change.peer)) }
                }
            }
            try await Task.sleep(for: Self.browseTime)
            if program == .kdialog {
                await withTimeout(Self.firstPeerTimeout) { for await _ in arrivals { return } }
            }
            while true {
                let peers = found.withLock { found in
                    isListed.withLock { $0 = true }
                    return sorted(found)
                }
                if let choice = try await answer(rows, peers, label) { return choice }
                // The button was pressed, and nothing was selected: the dialog is shown again, with all that were found.
                isListed.withLock { $0 = false }
                _ = rows.readAvailable()
            }
        }
        guard let id = PeerID(hex: choice), let peer = found.withLock({ $0[id] }) else { throw Cancelled.byUser }
        return peer
    }

    private func sorted(_ peers: [PeerID: NearbyPeer]) -> [NearbyPeer] {
        let all = NearbyPeerTable.sorted(peers)
        return all.filter(isFriend) + all.filter { !isFriend($0) }
    }

    private func isFriend(_ peer: NearbyPeer) -> Bool {
        trust.trustStatus(claiming: peer.id, named: peer.name).isFriend
    }

    /// Id, name and trust, escaped and without line breaks.
    private func cells(_ peer: NearbyPeer) -> [String] {
        [
            peer.id.hex, trust.shownName(claiming: peer.id, named: peer.name).shown(of: peer.id) + peer.protocolNote,
            trust.trustText(claiming: peer.id, named: peer.name),
        ]
    }

    /// The text above the list, in the markup of the program.
    /// - Parameter label: the content, escaped.
    static func text(sending label: String, isEmpty: Bool, _ program: Program) -> String {
        // Both programs give a backslash a meaning.
        let content = DesktopNotification.markup(label).replacing(#"\"#, with: #"\\"#)
        switch program {
        case .zenity:
            let advice =
                "Whoever is found is added to the list: run “nearshare receive” on the other machine,\n"
                + "or open LocalSend there.\n\n"
            return "\(isEmpty ? advice : "")Send \(content) to:"
        case .kdialog: return "<qt>Send \(content) to:</qt>"
        }
    }

    /// Runs the program.
    /// - Returns: the id that it has written; empty when the user has cancelled, nil when nothing was selected.
    private func answer(_ rows: DialogPipe, _ peers: [NearbyPeer], _ label: String) async throws -> String? {
        let title = "Send with nearshare"
        let text = Self.text(sending: label, isEmpty: peers.isEmpty, program)
        let words: [String]
        switch program {
        case .zenity:
            words = [
                "zenity", "--list", "--title=\(title)", "--text=\(text)", "--width=480", "--height=360", "--column=id",
                "--column=Name", "--column=Trust", "--hide-column=1", "--print-column=1", "--ok-label=Send",
            ]
            for peer in peers { rows.write(cells(peer)) }
        case .kdialog:
            guard !peers.isEmpty else {
                throw CommandFailure(
                    .peerNotFound,
                    "no peers nearby; run `nearshare receive` on the other machine, or open LocalSend there, and send again")
            }
            // A label that begins with a hyphen would be an option.
            words =
                ["kdialog", "--title", title, "--menu", text]
                + peers.flatMap { [$0.id.hex, "\u{2192} \(cells($0)[1]), \(cells($0)[2])"] }
        }
        let answer = try DialogPipe()
        let (input, output) = (rows.reading, answer.writing)
        // A dialog whose writer has ended would no longer be updated, so this end stays open.
        // In a locale without UTF-8 the programs refuse names in other letters.
        let isUTF8 = ["LC_ALL", "LC_CTYPE", "LANG"].map(Self.variable).first { !$0.isEmpty }?.lowercased()
            .replacing(scalar: "-", with: "").contains("utf8")
        let prefix = isUTF8 == true ? [] : ["env", "LC_ALL=C.UTF-8"]
        let outcome = try await BlockingThread.run { [termination] in
            ChildProgram.run(
                prefix + words, input: input, output: output, errors: STDERR_FILENO, termination: termination)
        }
        if case .notStarted = outcome { throw CommandFailure(.failure, "could not start \(program.rawValue)") }
        // 1 is the answer of the user, and a signal ends it for ``close()``.
        if case .exited(let code) = outcome, code > 1 {
            throw CommandFailure(.failure, "\(program.rawValue) could not show who is near (exit status \(code))")
        }
        guard outcome == .exited(0) else { return "" }
        return answer.readAvailable().split(separator: "\n").first.map(String.init)
    }
}

/// A pipe between this process and a dialog; neither end is inherited by itself.
private final class DialogPipe: Sendable {
    let reading: Int32
    let writing: Int32

    init() throws(CommandFailure) {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw CommandFailure(.failure, "could not create a pipe: \(systemErrorText(errno))") }
        (reading, writing) = (ends[0], ends[1])
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        // Nothing waits for a dialog that does not read.
        _ = fcntl(writing, F_SETFL, O_NONBLOCK)
    }

    deinit {
        close(reading)
        close(writing)
    }

    /// Writes lines.
    func write(_ lines: [String]) {
        let text = lines.map { $0 + "\n" }.joined()
        _ = text.withCString { Glibc.write(writing, $0, strlen($0)) }
    }

    /// The bytes that the program has written; it has ended.
    func readAvailable() -> String {
        _ = fcntl(reading, F_SETFL, O_NONBLOCK)
        var bytes = [UInt8](repeating: 0, count: 4_096)
        let count = max(0, read(reading, &bytes, bytes.count))
        return String(decoding: bytes[..<count], as: UTF8.self)
    }
}
