package import NearshareBase
internal import NearshareCrypto

// Files: their size and pace on the links, and the reactions of ``OutgoingFiles`` and ``IncomingFiles``.
extension MeshRouter {
    // MARK: Sending

    /// The number of fragments of a file, and the shortest possible duration of its transmission to a peer at the pacing of the
    /// links.
    package func plan(_ file: MeshFile, to recipient: PeerID?) throws(MeshSendError) -> (fragments: Int, estimate: Duration) {
        let encoded = try Self.encode(
            withPhoneMediaType(file, to: recipient), limit: recipient.flatMap { peer($0) }?.contentLimit)
        let count = try fragmentCount(encodedByteCount: encoded.count, chunk: chunkByteCount(to: recipient), to: recipient)
        return (count, estimate(fragmentCount: count, to: recipient))
    }

    /// Sends a file to one peer, sealed, or to everyone, signed. Its progress is reported in events under its key.
    /// - Parameters:
    ///   - file: has a name and a type, which phones require.
    ///   - isSealed: whether the content is encrypted for its receiver. Otherwise it is signed only, for an app that takes no
    ///     sealed files, and only after the user has agreed: every relay can read it.
    @discardableResult
    package mutating func sendFile(
        _ file: MeshFile, to recipient: PeerID?, isSealed: Bool = true, now: Moment
    ) throws(MeshSendError) -> MeshFileKey {
        let known = recipient.flatMap { peer($0) }
        guard recipient == nil || known != nil else { throw .unknownPeer }
        // The statement of a peer in its session counts, whatever the user has agreed to (K12).
        if let recipient, !isSealed, supportsSealedFiles(recipient) { throw .sealedFilesSupported }
        let file = withPhoneMediaType(file, to: recipient)
        let encoded = try Self.encode(file, limit: known?.contentLimit)
        let chunk = chunkByteCount(to: recipient, isSealed: isSealed)
        let count = try fragmentCount(encodedByteCount: encoded.count, chunk: chunk, to: recipient)
        // Phones of either kind reassemble no more of an unsealed file for one peer (bitchat specification, section 6.2).
        let limit = MeshPeer.Software.bitchatOnAndroid.fragmentLimit
        if recipient != nil, !isSealed, count > limit {
            throw .fileTooLarge(limit: Self.contentLimit(fragments: limit, of: chunk))
        }
        let key = MeshFileKey(MeshFileControl.FileID(ofEncoded: encoded[...]), with: recipient)
        guard outgoingFiles[key] == nil else { throw .alreadyInProgress }
        let offer = MeshFileOffer(
            of: file, id: key.file, fragmentCount: UInt16(clamping: count), fragmentID: node.randomFragmentID())
        outgoingFiles.insert(
            OutgoingFile(
                key: key, offer: offer, chunkByteCount: chunk, content: encoded, isSealed: recipient != nil && isSealed,
                phase: .waitingForSession(deadline: now.monotonic + OutgoingFile.sessionTimeout)))
        timers.startMaintenance(now: now.monotonic)
        guard let recipient, isSealed else {
            startTransmission(of: key, now: now)
            return key
        }
        if sessions.isEstablished(recipient), peers[recipient]?.sessionState != nil {
            sendWaitingFiles(to: recipient, now: now)
        } else {
            ensureSession(with: recipient, now: now)
        }
        return key
    }

    private func supportsSealedFiles(_ id: PeerID) -> Bool {
        guard let record = peers[id] else { return false }
        return record.supports(.privateMedia) || record.announcement.capabilities?.contains(.fileOffers) == true
    }

    /// Ends a file of this node at both ends; no more of it is sent.
    /// - Parameter isExpired: because the offer was not answered in time.
    package mutating func cancelSending(_ key: MeshFileKey, isExpired: Bool = false, now: Moment) {
        perform(outgoingFiles.cancel(key, isExpired: isExpired), now: now)
    }

    /// The file with a type that phones accept, unless it goes to a nearshare peer: phones drop files of other types.
    private func withPhoneMediaType(_ file: MeshFile, to recipient: PeerID?) -> MeshFile {
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

    /// The bytes of a file in each fragment: as many as fit the smallest write among its links, and at most a phone's write
    /// when a phone may receive it.
    private func chunkByteCount(to recipient: PeerID?, isSealed: Bool = true) -> Int {
        var write =
            recipient.flatMap { routing.profile(to: $0)?.maximumFrameByteCount }
            ?? links.profiles.map(\.maximumFrameByteCount).min() ?? MeshLinkProfile.radio.maximumFrameByteCount
        let isPhone = recipient.flatMap { peer($0) }?.software.isPhone ?? false
        if isPhone || recipient == nil || !isSealed { write = min(write, MeshLinkProfile.radio.maximumFrameByteCount) }
        return MeshFragmentation.chunkByteCount(forLargestWrite: write)
    }

    private func fragmentCount(
        encodedByteCount: Int, chunk: Int, to recipient: PeerID?
    ) throws(MeshSendError) -> Int {
        let limit = recipient.flatMap { peer($0) }?.fragmentLimit ?? MeshFragment.maximumCount
        let count = (encodedByteCount + Self.fileFrameOverhead(isSealed: recipient != nil) + chunk - 1) / chunk
        guard count <= limit else { throw .fileTooLarge(limit: Self.contentLimit(fragments: limit, of: chunk)) }
        return count
    }

    /// The content of a file in this number of fragments, less its name and headers.
    private static func contentLimit(fragments: Int, of chunk: Int) -> Int { max(0, fragments * chunk - 512) }

    /// Header in version 2, sender and signature; a sealed file has a recipient, a counter, a tag and a byte for its kind
    /// besides.
    private static func fileFrameOverhead(isSealed: Bool) -> Int {
        16 + PeerID.byteCount + MeshPacket.signatureByteCount
            + (isSealed ? PeerID.byteCount + NoiseDatagrams.overheadByteCount + 1 : 0)
    }

    private func estimate(fragmentCount: Int, to recipient: PeerID?) -> Duration {
        let direct = recipient.flatMap { peers[$0]?.links.claimed.compactMap { links.profile(of: $0)?.pacing }.min() }
        let pacing = direct ?? links.profiles.map(\.pacing).max() ?? MeshLinkProfile.radioPacing
        return pacing * (fragmentCount - 1)
    }

    /// Seals a file, or signs it when it is for everyone, cuts it into fragments and starts to send them.
    private mutating func startTransmission(of key: MeshFileKey, now: Moment) {
        guard let file = outgoingFiles[key] else { return }
        let content = file.content
        do {
            let packet: MeshPacket
            if let recipient = key.peer, file.isSealed {
                let payload = try MeshNoisePayload.file(content[...]).encoded()
                guard let sealed = sessions.seal(payload, for: recipient, now: now.monotonic) else {
                    return perform(outgoingFiles.end(key, .noResponse), now: now)
                }
                packet = MeshPacket(
                    version: .v2, type: .noiseEncrypted, timestamp: node.nextTimestamp(at: now), sender: id,
                    recipient: recipient, payload: sealed[...])
            } else {
                packet = MeshPacket(
                    version: .v2, type: .fileTransfer, timestamp: node.nextTimestamp(at: now), sender: id,
                    recipient: key.peer, payload: content[...])
            }
            let signed = try node.sign(packet)
            let fragmentation = try MeshFragmentation(
                signed, frame: try signed.encoded(using: &node.compressor), id: file.offer.fragmentID,
                chunkByteCount: file.chunkByteCount)
            if signed.isPublic { sync.insert(try MeshFrame(signed, using: &node.compressor)) }
            // The peer may have stated less since the file was accepted from the program.
            if let limit = key.peer.flatMap({ peer($0) })?.fragmentLimit, fragmentation.count > limit {
                let outcome = MeshFileOutcome.tooLarge(limit: Self.contentLimit(fragments: limit, of: file.chunkByteCount))
                return perform(outgoingFiles.end(key, outcome), now: now)
            }
            emit(
                .fileSendStarted(
                    key, fragments: fragmentation.count,
                    estimate: estimate(fragmentCount: fragmentation.count, to: key.peer)))
            perform(outgoingFiles.start(key, fragmentation), now: now)
        } catch {
            perform(outgoingFiles.end(key, .unsupported), now: now)
        }
    }

    /// Continues with the files that waited until the peer stated what it supports.
    mutating func sendWaitingFiles(to peer: PeerID, now: Moment) {
        let capabilities = peers[peer]?.sessionState?.capabilities ?? []
        for key in outgoingFiles.waitingForSession where key.peer == peer {
            perform(outgoingFiles.start(key, capabilities: capabilities, now: now.monotonic), now: now)
        }
    }

    // MARK: Receiving

    /// Accepts an offered file.
    /// - Parameter isFromFriend: whether the user trusts the sender.
    package mutating func accept(_ key: MeshFileKey, isFromFriend: Bool = false, now: Moment) {
        let reactions = incoming.files.accept(
            key, isFromFriend: isFromFriend, timeout: settings.assembly.lifetime, now: now.monotonic)
        perform(reactions, now: now)
    }

    /// Declines a file that was offered or is being received.
    package mutating func decline(_ key: MeshFileKey, because reason: MeshFileControl.DeclineReason, now: Moment) {
        perform(incoming.files.decline(key, reason: reason, now: now.monotonic), now: now)
    }

    /// Cancels a file that was offered or is being received, at both ends.
    package mutating func cancelReceiving(_ key: MeshFileKey, now: Moment) {
        perform(incoming.files.cancel(key, now: now.monotonic), now: now)
    }

    /// Whether a file was accepted and has no final place yet.
    package func isReceiving(_ key: MeshFileKey) -> Bool { incoming.files.isReceiving(key) }

    /// Confirms to the sender that a complete file has its final place.
    package mutating func confirmStored(_ key: MeshFileKey, now: Moment) {
        perform(incoming.files.confirmStored(key, now: now.monotonic), now: now)
    }

    mutating func handle(_ control: MeshFileControl, from peer: AuthenticatedPeer, now: Moment) {
        if case .offer(let offer) = control {
            let link = linkShare(of: peer.id)
            return perform(incoming.receive(offer, from: peer, over: link, now: now.monotonic), now: now)
        }
        perform(outgoingFiles.receive(control, from: peer.id, &fragments), now: now)
        if case .cancel(let file, let isExpired) = control {
            let key = MeshFileKey(file, with: peer.id)
            perform(incoming.files.cancelByPeer(key, isExpired: isExpired, now: now.monotonic), now: now)
        }
    }

    /// Handles an unsealed file, for everyone or from an older app.
    mutating func handleUnsealedFile(
        _ frame: MeshFrame, from link: MeshLinkID, fragmentID: MeshFragment.ID?, now: Moment
    ) -> Handling {
        let packet = frame.packet
        switch checkSignature(of: frame, from: link, now: now) {
        case .unknownSender: return .unverified
        case .invalid: return .rejected
        case .valid: break
        }
        // A peer that can seal files does so; an unsealed file for this node was then never requested (K12).
        let canSeal = peers[packet.sender].map { $0.supports(.privateMedia) || $0.supports(.fileOffers) } ?? false
        if packet.recipient == id, canSeal { return .handled }
        if packet.isPublic { storeForSync(frame, from: link) }
        receiveFile(
            packet.payload, from: packet.sender, authenticated: nil, isForEveryone: packet.isPublic, fragmentID: fragmentID,
            now: now)
        return .handled
    }

    /// - Parameter authenticated: nil for a file that was signed, but not sealed.
    mutating func receiveFile(
        _ bytes: ArraySlice<UInt8>, from sender: PeerID, authenticated: AuthenticatedPeer?, isForEveryone: Bool = false,
        fragmentID: MeshFragment.ID?, now: Moment
    ) {
        let key = MeshFileKey(MeshFileControl.FileID(ofEncoded: bytes), with: sender)
        let arrival = authenticated == nil ? .unknown : incoming.files.recordCompletion(of: key)
        var offer: MeshFileOffer?
        switch arrival {
        case .accepted(let accepted): offer = accepted
        case .unexpected: return
        // A peer that can offer files must do so (A1, A2).
        case .unknown: if authenticated != nil, peers[sender]?.supports(.fileOffers) == true { return }
        }
        // The file must match its offer, by name and size too (A10).
        guard let file = try? MeshFile(decoding: bytes), offer?.describes(file) ?? true else {
            if offer != nil { perform(incoming.files.rejectContent(of: key, now: now.monotonic), now: now) }
            return
        }
        emit(
            .fileReceived(
                MeshReceivedFile(
                    id: key.file, sender: sender, senderName: peers[sender]?.announcement.name,
                    authenticatedSender: authenticated,
                    signingKey: authenticated == nil ? peers[sender]?.signingKey : nil, file: file,
                    isForEveryone: isForEveryone, wasAccepted: offer != nil, fragmentID: fragmentID)))
        guard offer == nil, let authenticated, let name = file.name,
            let mediaID = DerivedMessageID.idOfPrivateFile(sender: sender, recipient: id, fileName: name)
        else { return }
        sendSealed(.delivered(messageID: mediaID), to: authenticated.id, now: now)
    }

    // MARK: Reactions

    mutating func perform(_ reactions: [FileTransferReaction], now: Moment) {
        for reaction in reactions {
            switch reaction {
            case .send(let control, let peer, let onAllLinks):
                sendSealed(.fileControl(control), to: peer, onAllLinks: onAllLinks, now: now)
            case .startTransmission(let key): startTransmission(of: key, now: now)
            case .schedule(let job):
                fragments.insert(job)
                sendDueFragments(now: now)
            case .unschedule(let key): fragments.remove(key)
            case .discardFragments(let id, let sender): incoming.discard(id, from: sender)
            case .emit(let event): emit(event)
            }
        }
    }

    // MARK: Time

    /// Whether an app states nothing in its session. Those that take private files do so at once, and announce it.
    private mutating func isPeerStateOverdue(of id: PeerID, for key: MeshFileKey, now: MonotonicInstant) -> Bool {
        guard let peer = peer(id), peer.software != .nearshare else { return false }
        let isAnnounced = peer.capabilities?.contains(.privateMedia) == true
        let timeout = isAnnounced ? OutgoingFile.peerStateTimeout : OutgoingFile.unannouncedPeerStateTimeout
        return outgoingFiles.isPeerStateOverdue(key, after: timeout, now: now)
    }

    mutating func advanceFiles(now: Moment) {
        fragments.removeJobs(exceptForLinks: links)
        perform(outgoingFiles.advance(to: now.monotonic), now: now)
        for key in outgoingFiles.waitingForSession {
            guard let peer = key.peer else { continue }
            ensureSession(with: peer, now: now)
            guard sessions.isEstablished(peer) else { continue }
            if peers[peer]?.sessionState == nil {
                if isPeerStateOverdue(of: peer, for: key, now: now.monotonic) {
                    perform(outgoingFiles.end(key, .unsupported), now: now)
                    continue
                }
                // The peer's statement was lost; repeating this node's makes the peer repeat it.
                sendPeerState(to: peer, now: now)
            } else {
                outgoingFiles.extendSessionTimeout(of: key, now: now.monotonic)
                sendWaitingFiles(to: peer, now: now)
            }
        }
        perform(incoming.advanceFiles(to: now.monotonic), now: now)
    }
}
