internal import NearshareBase

/// The files that this node sends: offered and confirmed between nearshare peers (docs/PROTOCOL.md, section 10), sent without
/// an offer to phones (bitchat specification, section 7).
struct OutgoingFiles: Sendable {
    private(set) var files: [MeshFileKey: OutgoingFile] = [:]

    var isEmpty: Bool { files.isEmpty }

    subscript(key: MeshFileKey) -> OutgoingFile? { files[key] }

    func isSending(to peer: PeerID) -> Bool { files.keys.contains { $0.peer == peer } }

    /// Whether fragments of a file are being sent to a phone. The windows of phones refuse some messages that arrive late, so
    /// none sealed later may overtake the file (section 8.3).
    func isSendingToPhone(_ peer: PeerID) -> Bool {
        files.contains { key, file in
            if key.peer == peer, case .sending(_, isConfirmed: false) = file.phase { true } else { false }
        }
    }

    /// Files that wait until their peer has stated what it supports.
    var waitingForSession: [MeshFileKey] {
        files.filter { if case .waitingForSession = $0.value.phase { true } else { false } }.map(\.key)
    }

    // MARK: Lifecycle

    mutating func insert(_ file: OutgoingFile) { files[file.key] = file }

    /// Starts a file that waited for the capabilities of its peer: with an offer, or with the fragments for a phone.
    mutating func start(
        _ key: MeshFileKey, capabilities: MeshCapabilities, now: MonotonicInstant
    ) -> [FileTransferReaction] {
        guard var file = files[key], case .waitingForSession = file.phase, let peer = key.peer else {
            return []
        }
        guard capabilities.contains(.privateMedia) else { return end(key, .unsupported) }
        guard capabilities.contains(.fileOffers) else {
            // One after the other, because a phone refuses a file that another has overtaken.
            return isSendingToPhone(peer) ? [] : [.startTransmission(of: key)]
        }
        file.phase = .offering(deadline: now + OutgoingFile.offerTimeout, OutgoingFile.Retry(next: now))
        files[key] = file
        return [.emit(.fileOfferSent(key))] + ask(key, now: now)
    }

    /// Whether the peer of a file has a session for so long without stating what it supports that it never will.
    /// - Parameter timeout: from the first call on.
    mutating func isPeerStateOverdue(_ key: MeshFileKey, after timeout: Duration, now: MonotonicInstant) -> Bool {
        guard case .waitingForSession? = files[key]?.phase else { return false }
        let deadline = files[key]?.peerStateDeadline ?? now + timeout
        files[key]?.peerStateDeadline = deadline
        return now >= deadline
    }

    /// Extends the time for the session of a file whose peer has one, but is still sending another file.
    mutating func extendSessionTimeout(of key: MeshFileKey, now: MonotonicInstant) {
        guard case .waitingForSession? = files[key]?.phase else { return }
        files[key]?.phase = .waitingForSession(deadline: now + OutgoingFile.sessionTimeout)
    }

    /// Begins to send a file that was sealed and cut.
    mutating func start(_ key: MeshFileKey, _ fragmentation: MeshFragmentation) -> [FileTransferReaction] {
        guard let file = files[key] else { return [] }
        files[key]?.phase = .sending(fragmentation, isConfirmed: file.isNegotiated)
        if !file.isNegotiated { files[key]?.content = [] }
        return [
            .schedule(
                FragmentJob(
                    fragmentation, origin: .file(key), to: key.peer.map { .peer($0) } ?? .everyone))
        ]
    }

    /// Continues after the last scheduled fragment of a file was sent.
    mutating func finishSending(_ key: MeshFileKey, now: MonotonicInstant) -> [FileTransferReaction] {
        guard case .sending(let fragmentation, let isConfirmed)? = files[key]?.phase else { return [] }
        guard isConfirmed else { return end(key, .sent) }
        files[key]?.phase = .confirming(fragmentation, OutgoingFile.Retry(next: now + OutgoingFile.retryInterval))
        return []
    }

    /// Ends a file at both ends.
    /// - Parameter isExpired: because the offer was not answered in time.
    mutating func cancel(_ key: MeshFileKey, isExpired: Bool = false) -> [FileTransferReaction] {
        guard let file = files[key] else { return [] }
        return cancellation(of: file, isExpired: isExpired) + end(key, .cancelledLocally)
    }

    mutating func end(_ key: MeshFileKey, _ outcome: MeshFileOutcome) -> [FileTransferReaction] {
        guard files.removeValue(forKey: key) != nil else { return [] }
        return [.unschedule(key), .emit(.fileSendEnded(key, outcome))]
    }

    /// Ends the files whose fragments are being sent to a phone that went out of reach: it requests no missing ones.
    mutating func endUnconfirmed(to peer: PeerID) -> [FileTransferReaction] {
        files.flatMap { key, file -> [FileTransferReaction] in
            guard key.peer == peer, case .sending(_, isConfirmed: false) = file.phase else { return [] }
            return end(key, .receiverLost)
        }
    }

    // MARK: Messages of the receiver

    mutating func receive(
        _ control: MeshFileControl, from peer: PeerID, _ fragments: inout FragmentScheduler
    ) -> [FileTransferReaction] {
        let key = MeshFileKey(control.file, with: peer)
        switch control {
        case .offer: return []
        case .accept: return accepted(key, peer, &fragments)
        case .decline(_, let reason):
            // A receiver that has accepted and is restarted decides anew, perhaps without its user.
            let isLost = files[key]?.wasAccepted == true && reason != .declined
            return end(key, isLost ? .receiverLost : .declined(reason))
        case .missing(_, let indices): return requested(indices, of: key, peer, &fragments)
        case .stored:
            // A file that is only offered cannot have arrived; this answers an earlier transfer.
            if case .offering? = files[key]?.phase { return [] }
            return end(key, .stored)
        case .cancel: return end(key, .cancelledByPeer)
        }
    }

    private mutating func accepted(
        _ key: MeshFileKey, _ peer: PeerID, _ fragments: inout FragmentScheduler
    ) -> [FileTransferReaction] {
        // A file that was cancelled in the meantime ends at both ends (A8, A9).
        guard let file = files[key] else { return [.send(.cancel(key.file), to: peer)] }
        switch file.phase {
        case .offering: return [.startTransmission(of: key)]
        // The receiver has no fragment: all were lost, or it was restarted. It cannot open what was sealed for its former session.
        case .confirming:
            guard !file.hasSpentRetransmissions else { return giveUp(file, peer) }
            files[key]?.retransmissionCount += Int(file.offer.fragmentCount)
            return [.startTransmission(of: key)]
        case .waitingForSession, .sending: return []
        }
    }

    private mutating func requested(
        _ indices: [UInt16], of key: MeshFileKey, _ peer: PeerID, _ fragments: inout FragmentScheduler
    ) -> [FileTransferReaction] {
        guard let file = files[key] else { return [.send(.cancel(key.file), to: peer)] }
        // The file was accepted before this node restarted.
        if case .offering = file.phase { return [.startTransmission(of: key)] }
        return resend(indices, of: file, peer, &fragments)
    }

    /// Sends fragments again. Those that were not sent before will be sent anyway.
    private mutating func resend(
        _ indices: [UInt16], of file: OutgoingFile, _ peer: PeerID, _ fragments: inout FragmentScheduler
    ) -> [FileTransferReaction] {
        guard !file.hasSpentRetransmissions else { return giveUp(file, peer) }
        let indices = Set(indices).map { Int($0) }.sorted()
        if let count = fragments.repeat(indices, of: file.key) {
            files[file.key]?.retransmissionCount += count
            return []
        }
        guard case .confirming(let fragmentation, _) = file.phase else { return [] }
        let known = indices.filter { $0 < fragmentation.count }
        guard !known.isEmpty else { return [] }
        files[file.key]?.phase = .sending(fragmentation, isConfirmed: true)
        files[file.key]?.retransmissionCount += known.count
        return [
            .schedule(FragmentJob(repeating: known, of: fragmentation, origin: .file(file.key), to: .peer(peer)))
        ]
    }

    private mutating func giveUp(_ file: OutgoingFile, _ peer: PeerID) -> [FileTransferReaction] {
        [.send(.cancel(file.key.file), to: peer)] + end(file.key, .lost)
    }

    // MARK: Time

    /// Repeats offers and questions, and gives up. Files that wait for a session only time out.
    mutating func advance(to now: MonotonicInstant) -> [FileTransferReaction] {
        files.keys.flatMap { advance($0, to: now) }
    }

    private mutating func advance(_ key: MeshFileKey, to now: MonotonicInstant) -> [FileTransferReaction] {
        switch files[key]?.phase {
        case .waitingForSession(let deadline)?: return now < deadline ? [] : end(key, .noResponse)
        case .offering(let deadline, let retry)?:
            guard now < deadline else { return end(key, .declined(.expired)) }
            return now >= retry.next ? ask(key, now: now) : []
        case .confirming(_, let retry)?:
            guard now >= retry.next else { return [] }
            guard retry.attempts < OutgoingFile.maximumConfirmationAttempts else { return end(key, .lost) }
            return ask(key, now: now)
        case .sending?, nil: return []
        }
    }

    /// Offers the file, or asks for the receiver's progress: the same message does both.
    private mutating func ask(_ key: MeshFileKey, now: MonotonicInstant) -> [FileTransferReaction] {
        guard let file = files[key], let peer = key.peer else { return [] }
        let attempts: Int
        switch file.phase {
        case .offering(let deadline, var retry):
            attempts = retry.attempts
            retry.recordAttempt(now: now)
            files[key]?.phase = .offering(deadline: deadline, retry)
        case .confirming(let fragmentation, var retry):
            attempts = retry.attempts
            retry.recordAttempt(now: now)
            files[key]?.phase = .confirming(fragmentation, retry)
        case .waitingForSession, .sending: return []
        }
        return [.send(.offer(file.offer), to: peer, onAllLinks: attempts > 0)]
    }

    private func cancellation(of file: OutgoingFile, isExpired: Bool) -> [FileTransferReaction] {
        guard let peer = file.key.peer, file.isNegotiated else { return [] }
        return [.send(.cancel(file.key.file, isExpired: isExpired), to: peer)]
    }
}
