package import NearshareBase
internal import NearshareCrypto

// Files on the frame path: offered and confirmed between nearshare peers (docs/PROTOCOL.md, section 10), simply sent to phones
// (bitchat specification, section 7).
extension MeshRouter {
    // MARK: Sending

    /// How long a file will take to a peer at least, in fragments and at their pace, and whether it can be sent at all.
    package func plan(_ file: MeshFile, to recipient: PeerID?) throws(MeshSendError) -> (fragments: Int, estimate: Duration) {
        let encoded = try Self.encode(fitted(file, to: recipient), limit: recipient.flatMap { peer($0) }?.software.contentLimit)
        let count = try fragmentCount(encoded.count, chunk: chunk(to: recipient), to: recipient)
        return (count, estimate(count, to: recipient))
    }

    /// Sends a file to one peer, sealed, or to everybody, signed. What becomes of it is told in events under its id.
    /// - Parameter file: with a name and a type, which phones want.
    @discardableResult
    package mutating func sendFile(
        _ file: MeshFile, to recipient: PeerID?, now: Moment
    ) throws(MeshSendError) -> MeshFileKey {
        let known = recipient.flatMap { peer($0) }
        guard recipient == nil || known != nil else { throw .unknownPeer }
        let file = fitted(file, to: recipient)
        let encoded = try Self.encode(file, limit: known?.software.contentLimit)
        let chunk = chunk(to: recipient)
        let count = try fragmentCount(encoded.count, chunk: chunk, to: recipient)
        let id = MeshFileKey(MeshFileControl.FileID(ofEncoded: encoded[...]), with: recipient)
        guard outgoing[id] == nil else { throw .alreadyInProgress }
        let offer = MeshFileOffer(
            of: file, id: id.file, fragmentCount: UInt16(count), fragmentID: fragmentID())
        outgoing[id] = OutgoingFile(
            id: id, encoded: encoded, offer: offer, chunkByteCount: chunk,
            deadline: now.monotonic + OutgoingFile.sessionTimeout, nextTry: now.monotonic)
        if nextTick == nil { nextTick = now.monotonic + Self.tick }
        guard let recipient else {
            startSending(id, now: now)
            return id
        }
        if peers[recipient]!.session.isEstablished, peers[recipient]!.state != nil {
            sessionIsReady(with: recipient, now: now)
        } else {
            ensureSession(with: recipient, now: now)
        }
        return id
    }

    /// Ends a file of ours at both ends: nothing of it goes out any more.
    package mutating func cancelSending(_ id: MeshFileKey, now: Moment) {
        guard let file = outgoing[id] else { return }
        if let recipient = id.peer, file.isConfirmed { sendSealed(.fileControl(.cancel(id.file)), to: recipient, now: now) }
        end(id, .cancelledLocally)
    }

    /// Gives up a file that is offered or coming, at both ends.
    package mutating func cancelReceiving(_ id: MeshFileKey, now: Moment) {
        guard let file = incoming[id], !file.isEnded else { return }
        sendSealed(.fileControl(.cancel(id.file)), to: file.sender, now: now)
        endIncoming(id, .cancelledLocally, as: .declined, now: now)
    }

    /// With a type that phones take, unless it goes to nobody who could be one: they drop a file of any other.
    private func fitted(_ file: MeshFile, to recipient: PeerID?) -> MeshFile {
        guard recipient.flatMap({ peer($0) })?.software != .nearshare else { return file }
        var file = file
        file.mediaType = PhoneMediaType(admissibleFor: file.mediaType, content: file.content).rawValue
        return file
    }

    private static func encode(_ file: MeshFile, limit: Int?) throws(MeshSendError) -> [UInt8] {
        guard !file.content.isEmpty else { throw .emptyFile }
        let limit = min(limit ?? MeshFile.maximumContentByteCount, MeshFile.maximumContentByteCount)
        guard file.content.count <= limit else { throw .fileTooLarge(limit: limit) }
        do {
            return try file.encoded()
        } catch {
            throw .malformed(error)
        }
    }

    /// Of each fragment: what the smallest of the links holds that it leaves on, and a phone's never more than a radio's.
    private func chunk(to recipient: PeerID?) -> Int {
        let direct = recipient.flatMap { peers[$0] }.flatMap { best(of: $0.links) }.flatMap { links[$0]?.profile.largestWrite }
        var write = direct ?? links.values.map(\.profile.largestWrite).min() ?? MeshLinkProfile.radio.largestWrite
        let isPhone = recipient.flatMap { peer($0) }?.software.isPhone ?? false
        if isPhone || recipient == nil { write = min(write, MeshLinkProfile.radio.largestWrite) }
        return MeshFragmentation.chunkByteCount(forLargestWrite: write)
    }

    private func fragmentCount(_ encodedByteCount: Int, chunk: Int, to recipient: PeerID?) throws(MeshSendError) -> Int {
        let limit = recipient.flatMap { peer($0) }?.software.fragmentLimit ?? MeshFragment.maximumCount
        let count = (encodedByteCount + Self.fileFrameOverhead(isSealed: recipient != nil) + chunk - 1) / chunk
        guard count <= limit else { throw .fileTooLarge(limit: limit * chunk - 512) }
        return count
    }

    /// Version 2, signed; a sealed one has a recipient, a counter, a tag and a byte for its kind besides.
    private static func fileFrameOverhead(isSealed: Bool) -> Int {
        16 + PeerID.byteCount + MeshPacket.signatureByteCount
            + (isSealed ? PeerID.byteCount + NoiseDatagrams.overheadByteCount + 1 : 0)
    }

    private func estimate(_ count: Int, to recipient: PeerID?) -> Duration {
        let direct = recipient.flatMap { peers[$0]?.links.compactMap { links[$0]?.profile.pacing }.min() }
        let pacing = direct ?? links.values.map(\.profile.pacing).max() ?? MeshLinkProfile.radioPacing
        return pacing * (count - 1)
    }

    func speaksControl(_ peer: PeerID) -> Bool { peers[peer]?.state?.capabilities.contains(.fileOffers) ?? false }

    /// The peer has proven what it can do: what waited for that goes on.
    mutating func sessionIsReady(with peer: PeerID, now: Moment) {
        for (id, file) in outgoing where id.peer == peer && file.phase == .waitingForSession {
            guard let flags = peers[peer]?.state?.capabilities, flags.contains(.privateMedia) else {
                end(id, .unsupported)
                continue
            }
            guard flags.contains(.fileOffers) else {
                // One after the other, as a phone refuses what another has overtaken.
                if !isSendingFile(toPhone: peer) { startSending(id, now: now) }
                continue
            }
            outgoing[id]!.phase = .offering
            outgoing[id]!.isConfirmed = true
            events.append(.fileOfferSent(id))
            outgoing[id]!.deadline = now.monotonic + OutgoingFile.offerTimeout
            ask(id, now: now)
        }
    }

    /// Offers the file, or asks once more how far the receiver is: the same words do both.
    private mutating func ask(_ id: MeshFileKey, now: Moment) {
        guard let file = outgoing[id], let recipient = id.peer else { return }
        outgoing[id]!.attempts += 1
        outgoing[id]!.nextTry = now.monotonic + OutgoingFile.firstRetry
        sendSealed(.fileControl(.offer(file.offer)), to: recipient, everywhere: file.attempts > 0, now: now)
    }

    private mutating func startSending(_ id: MeshFileKey, now: Moment) {
        guard let file = outgoing[id] else { return }
        do {
            let packet: MeshPacket
            if let recipient = id.peer {
                let payload = try MeshNoisePayload.file(file.encoded[...]).encoded()
                guard let sealed = try? peers[recipient]!.session.seal(payload, now: now.monotonic) else {
                    end(id, .noResponse)
                    return
                }
                packet = sealedPacket(sealed, to: recipient, version: .v2, timestamp: timestamp(now))
            } else {
                packet = MeshPacket(
                    version: .v2, type: .fileTransfer, timestamp: timestamp(now), sender: self.id,
                    payload: file.encoded[...])
            }
            let signed = try packet.signed(by: identity)
            let fragmentation = try MeshFragmentation(
                signed, frame: try signed.encoded(), id: file.offer.fragmentID, chunkByteCount: file.chunkByteCount)
            outgoing[id]!.phase = .sending
            outgoing[id]!.fragmentation = fragmentation
            outgoing[id]!.encoded = []
            events.append(
                .fileSendStarted(
                    id, fragments: fragmentation.count, estimate: estimate(fragmentation.count, to: id.peer)))
            jobs.append(FragmentJob(fragmentation: fragmentation, file: id, recipient: id.peer, links: nil))
            sendDueFragments(now: now.monotonic)
        } catch {
            end(id, .unsupported)
        }
    }

    mutating func noteSent(_ id: MeshFileKey, isRepeated: Bool, _ job: FragmentJob) {
        guard !isRepeated else { return }
        events.append(.fragmentsSent(id, sent: job.next, total: job.fragmentation.count))
    }

    mutating func sentAllFragments(of id: MeshFileKey, now: MonotonicInstant) {
        guard let file = outgoing[id] else { return }
        guard file.isConfirmed else {
            end(id, .sent)
            return
        }
        outgoing[id]!.phase = .confirming
        outgoing[id]!.attempts = 0
        outgoing[id]!.nextTry = now + OutgoingFile.firstRetry
    }

    /// What came to be said while files were being sent.
    mutating func sendWhatFilesHeldUp(now: Moment) {
        for (peer, record) in peers where !record.waiting.isEmpty && record.session.isEstablished {
            sendWaiting(to: peer, now: now)
        }
    }

    private mutating func end(_ id: MeshFileKey, _ outcome: MeshFileOutcome) {
        guard outgoing.removeValue(forKey: id) != nil else { return }
        jobs.removeAll { $0.file == id }
        events.append(.fileSendEnded(id, outcome))
    }

    // MARK: Receiving

    /// Lets an offered file come.
    package mutating func accept(_ id: MeshFileKey, now: Moment) {
        guard let file = incoming[id], file.phase == .offered else { return }
        incoming[id]!.phase = .accepted
        incoming[id]!.deadline = now.monotonic + settings.assembly.lifetime
        incoming[id]!.lastProgress = now.monotonic
        sendSealed(.fileControl(.accept(id.file)), to: file.sender, now: now)
    }

    package mutating func refuse(_ id: MeshFileKey, because reason: MeshFileControl.Refusal, now: Moment) {
        guard let file = incoming[id], !file.isEnded else { return }
        sendSealed(.fileControl(.refuse(id.file, reason)), to: file.sender, now: now)
        settle(id, as: .refused(reason), now: now)
    }

    /// Whether a file was accepted and is still coming.
    package func isReceiving(_ id: MeshFileKey) -> Bool {
        incoming[id]?.phase == .accepted || incoming[id]?.phase == .delivering
    }

    /// A file that was accepted has its place; its sender is told.
    package mutating func confirmStored(_ id: MeshFileKey, now: Moment) {
        guard let file = incoming[id], file.phase == .delivering else { return }
        settle(id, as: .stored, now: now)
        sendSealed(.fileControl(.stored(id.file)), to: file.sender, now: now)
    }

    mutating func handleControl(_ control: MeshFileControl, from peer: AuthenticatedPeer, now: Moment) {
        let id = MeshFileKey(control.file, with: peer.id)
        switch control {
        case .offer(let offer): handleOffer(offer, from: peer, now: now)
        case .accept:
            guard let file = outgoing[id] else {
                // Given up meanwhile; both ends shall know (A8, A9).
                sendSealed(.fileControl(.cancel(id.file)), to: peer.id, now: now)
                return
            }
            switch file.phase {
            case .offering: startSending(id, now: now)
            // Not one fragment has come.
            case .confirming: sendAgain(Array(0..<file.offer.fragmentCount), of: file, now: now)
            case .waitingForSession, .sending: return
            }
        case .refuse(_, let reason): end(id, .refused(reason))
        case .missing(_, let indices):
            guard let file = outgoing[id] else {
                sendSealed(.fileControl(.cancel(id.file)), to: peer.id, now: now)
                return
            }
            if file.phase == .offering {
                // It was accepted before we began anew.
                startSending(id, now: now)
            } else {
                sendAgain(indices, of: file, now: now)
            }
        case .stored:
            // What is only offered can't have come; this answers an earlier time.
            if outgoing[id]?.phase != .offering { end(id, .stored) }
        case .cancel:
            end(id, .cancelledByPeer)
            if let file = incoming[id], !file.isEnded { endIncoming(id, .cancelledByPeer, as: .declined, now: now) }
        }
    }

    /// The same offer again means that our answer got lost, or that the sender asks how far it is. With other fragments it has
    /// begun anew: what is coming still comes; what has ended is offered once more, and somebody is asked once more.
    private mutating func handleOffer(_ offer: MeshFileOffer, from peer: AuthenticatedPeer, now: Moment) {
        let id = MeshFileKey(offer.id, with: peer.id)
        let isAnother = incoming[id]?.offer.fragmentID != offer.fragmentID
        guard let known = incoming[id], !(known.isEnded && isAnother) else {
            considerNew(offer, from: peer, now: now)
            return
        }
        // Somebody has seen what was offered first, and decides about that (A10).
        guard offer.isAlike(known.offer) else { return }
        switch known.phase {
        case .offered: incoming[id]!.offer = offer
        case .delivering: return
        case .accepted where isAnother:
            assembler.drop(known.offer.fragmentID, from: peer.id)
            incoming[id]!.offer = offer
            incoming[id]!.received = 0
            sendSealed(.fileControl(.accept(offer.id)), to: peer.id, now: now)
        case .accepted: askForMissing(id, now: now)
        case .stored: sendSealed(.fileControl(.stored(offer.id)), to: peer.id, now: now)
        case .refused(let reason): sendSealed(.fileControl(.refuse(offer.id, reason)), to: peer.id, now: now)
        }
    }

    private mutating func considerNew(_ offer: MeshFileOffer, from peer: AuthenticatedPeer, now: Moment) {
        let pending = incoming.values.filter { !$0.isEnded }
        let bytes = pending.reduce(Int(offer.size)) { $0 + Int($1.offer.size) }
        guard pending.count < Self.maximumPendingCount, bytes <= Self.maximumPendingByteCount,
            pending.count(where: { $0.sender == peer.id }) < Self.maximumPendingPerPeer,
            peers[peer.id]?.offers.consume(now: now.monotonic) == true
        else {
            sendSealed(.fileControl(.refuse(offer.id, .busy)), to: peer.id, now: now)
            return
        }
        incoming[MeshFileKey(offer.id, with: peer.id)] = IncomingFile(
            offer: offer, sender: peer.id, deadline: now.monotonic + OutgoingFile.offerTimeout, lastProgress: now.monotonic)
        events.append(.fileOffered(offer, from: peer))
    }

    private mutating func askForMissing(_ id: MeshFileKey, now: Moment) {
        guard let file = incoming[id] else { return }
        incoming[id]!.lastProgress = now.monotonic
        incoming[id]!.questions += 1
        let isUnheard = file.questions > 2
        let limit = MeshFileControl.maximumMissingCount
        if let missing = assembler.missing(of: file.offer.fragmentID, from: file.sender, limit: limit) {
            sendSealed(
                .fileControl(.missing(id.file, missing.map { UInt16($0) })), to: file.sender, everywhere: isUnheard, now: now)
        } else if file.received == 0 {
            sendSealed(.fileControl(.accept(id.file)), to: file.sender, everywhere: isUnheard, now: now)
        } else {
            // What had come is no longer there; all of it is needed.
            let all = (0..<min(Int(file.offer.fragmentCount), limit)).map { UInt16($0) }
            sendSealed(.fileControl(.missing(id.file, all)), to: file.sender, everywhere: isUnheard, now: now)
        }
    }

    /// Only what was sent before; the rest is coming anyway.
    private mutating func sendAgain(_ indices: [UInt16], of file: OutgoingFile, now: Moment) {
        guard file.repetitions <= Int(file.offer.fragmentCount) * OutgoingFile.repetitionsPerFragment else {
            sendSealed(.fileControl(.cancel(file.id.file)), to: file.id.peer!, now: now)
            end(file.id, .lost)
            return
        }
        if let index = jobs.firstIndex(where: { $0.file == file.id }) {
            guard jobs[index].again.isEmpty else { return }
            jobs[index].again = Set(indices).map { Int($0) }.filter { $0 < jobs[index].next }.sorted()
            outgoing[file.id]!.repetitions += jobs[index].again.count
            return
        }
        guard file.phase == .confirming, let fragmentation = file.fragmentation else { return }
        var job = FragmentJob(fragmentation: fragmentation, file: file.id, recipient: file.id.peer, links: nil)
        job.next = fragmentation.count
        job.again = Set(indices).map { Int($0) }.filter { $0 < fragmentation.count }.sorted()
        guard !job.again.isEmpty else { return }
        outgoing[file.id]!.phase = .sending
        outgoing[file.id]!.attempts = 0
        outgoing[file.id]!.repetitions += job.again.count
        jobs.append(job)
        sendDueFragments(now: now.monotonic)
    }

    /// The accepted file whose fragments have this id.
    func expectedFile(_ id: MeshFragment.ID, from sender: PeerID) -> MeshFileKey? {
        incoming.first { $0.value.phase == .accepted && $0.value.offer.fragmentID == id && $0.value.sender == sender }?.key
    }

    mutating func noteReceived(_ fragment: MeshFragment, from sender: PeerID, isWhole: Bool = false) {
        let offered = incoming.first { $0.value.offer.fragmentID == fragment.id && $0.value.sender == sender }
        let received =
            isWhole ? fragment.total : assembler.progress(of: fragment.id, from: sender)?.received ?? 0
        if let id = offered?.key {
            incoming[id]!.received = received
            incoming[id]!.questions = 0
        }
        guard offered?.value.phase == .accepted || (offered == nil && fragment.total >= Self.worthShowing) else { return }
        events.append(
            .fragmentsReceived(
                MeshFragmentProgress(
                    sender: sender, fragmentID: fragment.id, file: offered?.key.file, received: received, total: fragment.total)
            ))
    }

    mutating func receivedFile(
        _ bytes: ArraySlice<UInt8>, from sender: PeerID, proven: AuthenticatedPeer?, fragmentID: MeshFragment.ID?, now: Moment
    ) {
        let id = MeshFileKey(MeshFileControl.FileID(ofEncoded: bytes), with: sender)
        let offered = proven == nil ? nil : incoming[id]
        let wasAccepted = offered?.phase == .accepted
        // Who can ask has to: what was not accepted does not exist (A1, A2).
        guard wasAccepted || (offered == nil && (proven == nil || !speaksControl(sender))) else { return }
        if wasAccepted { incoming[id]!.phase = .delivering }
        let file = try? MeshFile(decoding: bytes)
        // What comes is what was offered, by name and size too (A10).
        guard let file, offered.map({ $0.offer.describes(file) }) ?? true else {
            guard wasAccepted else { return }
            sendSealed(.fileControl(.refuse(id.file, .declined)), to: sender, now: now)
            endIncoming(id, .refused(.declined), as: .declined, now: now)
            return
        }
        events.append(
            .fileReceived(
                MeshReceivedFile(
                    id: id.file, sender: sender, senderName: peers[sender]?.name, authenticatedSender: proven, file: file,
                    isPublic: proven == nil, wasAccepted: wasAccepted, fragmentID: fragmentID)))
        guard let proven, !wasAccepted, let name = file.name,
            let mediaID = DerivedMessageID.privateMedia(sender: sender, recipient: self.id, fileName: name)
        else { return }
        sendSealed(.delivered(messageID: mediaID), to: proven.id, now: now)
    }

    // MARK: Time

    mutating func advanceFiles(now: Moment) {
        dropDeadJobs()
        let moment = now.monotonic
        for (id, file) in outgoing {
            switch file.phase {
            case .waitingForSession:
                guard moment < file.deadline else {
                    end(id, .noResponse)
                    continue
                }
                guard let recipient = id.peer else { continue }
                ensureSession(with: recipient, now: now)
                guard peers[recipient]?.session.isEstablished == true else { continue }
                if peers[recipient]?.state == nil {
                    sendState(to: recipient, now: now)
                } else {
                    outgoing[id]!.deadline = moment + OutgoingFile.sessionTimeout
                    sessionIsReady(with: recipient, now: now)
                }
            case .offering:
                guard moment < file.deadline else {
                    end(id, .refused(.expired))
                    continue
                }
                if moment >= file.nextTry { ask(id, now: now) }
            case .sending: continue
            case .confirming:
                guard moment >= file.nextTry else { continue }
                guard file.attempts < OutgoingFile.confirmationAttempts else {
                    end(id, .lost)
                    continue
                }
                ask(id, now: now)
            }
        }
        for (id, file) in incoming {
            switch file.phase {
            case .offered where moment >= file.deadline:
                sendSealed(.fileControl(.refuse(id.file, .expired)), to: file.sender, now: now)
                endIncoming(id, .refused(.expired), as: .expired, now: now)
            case .accepted:
                noteProgress(id)
                guard moment < file.deadline, file.questions < Self.maximumQuestions else {
                    endIncoming(id, .lost, as: .expired, now: now)
                    continue
                }
                if moment - incoming[id]!.lastProgress >= Self.silenceBeforeAsking { askForMissing(id, now: now) }
            case .stored, .refused:
                if moment >= file.deadline { incoming[id] = nil }
            case .offered, .delivering: continue
            }
        }
    }

    private mutating func noteProgress(_ id: MeshFileKey) {
        guard let file = incoming[id],
            let progress = assembler.progress(of: file.offer.fragmentID, from: file.sender)
        else { return }
        incoming[id]!.lastProgress = max(file.lastProgress, progress.changed)
    }

    private mutating func endIncoming(
        _ id: MeshFileKey, _ outcome: MeshFileOutcome, as refusal: MeshFileControl.Refusal, now: Moment
    ) {
        guard let file = incoming[id] else { return }
        assembler.drop(file.offer.fragmentID, from: file.sender)
        settle(id, as: .refused(refusal), now: now)
        events.append(.fileReceiveEnded(id, outcome))
    }

    /// Kept for a while, for a sender who did not hear of it and asks again.
    private mutating func settle(_ id: MeshFileKey, as phase: IncomingFile.Phase, now: Moment) {
        incoming[id]!.phase = phase
        incoming[id]!.deadline = now.monotonic + Self.memory
        let ended = incoming.filter(\.value.isEnded)
        if ended.count > Self.maximumEndedCount, let oldest = ended.min(by: { $0.value.deadline < $1.value.deadline })?.key {
            incoming[oldest] = nil
        }
    }

    private static let maximumPendingCount = 32
    private static let maximumPendingPerPeer = 8
    /// What may be coming at once, in all.
    private static let maximumPendingByteCount = 64 << 20
    private static let maximumEndedCount = 256
    private static let memory = Duration.seconds(300)
    /// Nothing has come for so long: some of it must be lost.
    private static let silenceBeforeAsking = Duration.seconds(1)
    /// So many questions in a row without one new fragment.
    private static let maximumQuestions = 30
    /// Fewer fragments than this are nothing to watch.
    private static let worthShowing = 8
}

extension MeshFileOffer {
    init(of file: MeshFile, id: MeshFileControl.FileID, fragmentCount: UInt16, fragmentID: MeshFragment.ID) {
        let type = file.mediaType ?? Self.unknownType
        self.init(
            id: id, size: UInt32(file.content.count), fragmentCount: fragmentCount, fragmentID: fragmentID,
            name: ClaimedFileName(bytes: Array((file.name ?? "").utf8.prefix(ClaimedFileName.maximumByteCount)))!,
            mediaType: type.utf8.count <= 127 ? type : Self.unknownType)
    }

    fileprivate func describes(_ file: MeshFile) -> Bool {
        isAlike(MeshFileOffer(of: file, id: id, fragmentCount: fragmentCount, fragmentID: fragmentID))
    }

    /// Whether people see the same in both, however it is cut up.
    fileprivate func isAlike(_ other: MeshFileOffer) -> Bool {
        id == other.id && size == other.size && name == other.name && mediaType == other.mediaType
    }

    private static let unknownType = "application/octet-stream"
}
