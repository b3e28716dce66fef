package import Nearshare

/// Sends a voice note to peers, and records in the list of notes to whom it was sent.
package struct VoiceNoteSendOperation: Sendable {
    private let note: VoiceNote
    private let peers: [String]
    private let machine: LocalMachine
    private let reporter: any Reporter
    private let operation: SendOperation

    /// - Parameters:
    ///   - peers: as the user has named them.
    ///   - timeout: for the answer of each.
    ///   - searchLimit: time of the search for each; nil for the usual times.
    ///   - transport: nil for the best one that there is.
    ///   - unsealed: nil to send no note that relays can read.
    ///   - pin: gives the PIN of a LocalSend device that requires one; nil where no user can be asked.
    package init(
        _ note: VoiceNote, to peers: [String], from machine: LocalMachine, reporter: any Reporter, timeout: Duration,
        searchLimit: Duration? = nil, transport: Transport?, unsealed: UnsealedConfirmation?, pin: PINPrompt?
    ) throws {
        (self.note, self.peers, self.machine, self.reporter) = (note, peers, machine, reporter)
        let source = SendSource(
            try FileSource(paths: [note.path]), content: .files([LocalPath(note.path)]),
            label: "voice note, \(note.duration.asClock)")
        operation = SendOperation(
            machine: machine, source: source, reporter: reporter, timeout: timeout, resumes: true, transport: transport,
            unsealed: unsealed, pin: pin, searchLimit: searchLimit)
    }

    /// Cancels the running transfers at both ends.
    /// - Returns: false when none runs, so that there is nothing to wait for.
    package func cancel() -> Bool { operation.cancel() }

    /// Reports the interruption as the failure of each peer to which the send has not ended.
    package func reportInterruption() { operation.reportInterruption() }

    /// The peers that have not received the note, and may receive it later: without those whose key is blocked or another one.
    package var missedPeers: [String] {
        let ended = operation.reachedTargets + operation.distrustedTargets
        return peers.indices.filter { !ended.contains($0) }.map { peers[$0] }
    }

    /// - Throws: ``CommandFailure`` when a peer did not get the note.
    package func run(on node: Node) async throws {
        defer { recordSent() }
        try await operation.run(to: peers.map { .text($0) }, on: node)
    }

    private func recordSent() {
        let reached = operation.reachedTargets.map { peers[$0] }
        guard !reached.isEmpty else { return }
        do {
            try VoiceNoteStore(machine).recordSent(note.path, to: reached, at: SystemClock.wall())
        } catch {
            reporter.report(.warning("the note was sent, but is not listed by `nearshare voice list`: \(error)"))
        }
    }
}
