internal import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareInterfaces

// Links that peers open: each gets a slot, is told apart by its first bytes, and is served until it ends.
extension Node {
    /// Lets another process of the user serve the direct links that peers open over TCP.
    /// - Parameter receiver: nil for none. It is called for a link that has a slot, and returns, after a short while at most, false
    ///   for one that the node has to serve.
    package func passLinks(to receiver: (@Sendable (PassedLink) async -> Bool)?) {
        state.withLock { $0.linkReceiver = receiver }
    }

    /// - Returns: whether another process serves the link.
    private func passOn(_ link: PrefixedLink) async -> Bool {
        guard let receiver = state.withLock({ $0.linkReceiver }), let passed = PassedLink(link), await receiver(passed) else {
            return false
        }
        // The handshake counts where the link is served.
        recordHandshake(of: link.remote.host, isKnown: true)
        return true
    }

    /// Serves a link that another process has accepted.
    /// - Parameters:
    ///   - descriptor: owned by the node from now on.
    ///   - opening: the bytes that were read from it.
    package func serve(_ descriptor: Int32, opening: [UInt8], for listener: Listener) {
        guard let link = settings.transport.link(adopting: descriptor) else {
            return settings.log.error("a connection that the running node has passed on is not usable")
        }
        let isStarted = start { [self] in
            await serveInTurn(PrefixedLink(link, opening), queues: listener.queues)
        }
        if !isStarted { link.close() }
    }

    /// - Returns: false when the system refuses to accept connections any more.
    @discardableResult
    func acceptLoop(_ listener: any StreamListener, _ mesh: MeshDriver?, queues: Listener.Queues?) -> Bool {
        while true {
            do throws(LinkError) {
                let link = try listener.accept()
                let (number, evict) = state.withLock { state in
                    state.unreadLinks.insert(LinkSource(link.remote)) { link.close() }
                }
                evict?()
                let isStarted = start { [self] in
                    // The closure runs on the reading thread, so that a link that was read is not evicted while this task waits.
                    let opening = await LinkDemultiplexer(
                        link, acceptsFrames: mesh != nil, timeout: UnreadLinks.timeout
                    ) { self.removeUnread(number) }
                    // The closure is not called when no thread could be started.
                    removeUnread(number)
                    switch opening {
                    case .direct(let link):
                        await serveInTurn(link, queues: queues, isPassable: queues != nil)
                    // The mesh has limits of its own: its links take no slot of the direct ones.
                    case .frames(let link): await mesh?.run(over: link)
                    case .nothing: link.close()
                    }
                }
                if !isStarted {
                    removeUnread(number)
                    link.close()
                }
            } catch {
                guard error.code != .closed else { return true }
                settings.log.error("\(error)")
                return false
            }
        }
    }

    private func removeUnread(_ number: UInt64) { state.withLock { $0.unreadLinks.remove(number) } }

    /// Tells the peer that there is no slot for its link, after a handshake. Few are told at once, as each costs two threads and a
    /// key agreement; others are closed.
    private func refuse(_ link: PrefixedLink) async {
        settings.log.info("a connection from \(link.remote) was refused: too many")
        let source = LinkSource(link.remote)
        let isAnswered = state.withLock { $0.refusals.begin(source) }
        guard isAnswered else { return link.close() }
        let driver = makeDriver(link, .responder)
        await run(driver) { [self] in
            var isProven = false
            for await event in driver.events {
                guard case .established(let peer, _) = event else { continue }
                isProven = true
                recordProvenKey(of: peer, at: link.remote.host)
                driver.close(.tooManyLinks)
            }
            if !isProven { recordFailedHandshake(of: link.remote.host) }
        }
        state.withLock { $0.refusals.end(source) }
    }

    /// Admits a link over a member of a session to a slot of the member at its other end.
    /// - Returns: nil when all slots are in use, or too many handshakes of its address fail.
    func admit(member: PeerID, _ link: any StreamLink) -> LinkRegistry.Slot? {
        let mayBegin = state.withLock { $0.handshakes.begin(link.remote.host, now: settings.clock()) }
        return mayBegin ? admit(.member(member), link) : nil
    }

    /// Admits a link that a peer has opened to a slot. Where none is free, it evicts an untrusted link without use or progress.
    /// - Parameter isForeign: whether it is a browser's or a LocalSend device's.
    /// - Returns: nil when all slots are in use.
    func admit(_ source: LinkSource, _ link: any StreamLink, isForeign: Bool = false) -> LinkRegistry.Slot? {
        let admission = state.withLock { state -> LinkRegistry.Admission in
            if state.isShuttingDown { return .refused }
            return state.links.admit(
                from: source, isForeign: isForeign, limits: settings.limits, now: settings.clock()
            ) { link.close() }
        }
        guard case .admitted(let slot, let evict) = admission else { return nil }
        evict?()
        return slot
    }

    /// Serves a direct link until it ends. It waits first where there are too many handshakes, of its address or in all (R9), without
    /// a slot: others can use it meanwhile, and one that is refused has had its turn as well.
    /// - Parameter isPassable: whether another process of the user may serve it in place of the node.
    private func serveInTurn(_ link: PrefixedLink, queues: Listener.Queues?, isPassable: Bool = false) async {
        guard await awaitTurn(of: link.link) else { return link.close() }
        guard let slot = admit(LinkSource(link.remote), link) else { return await refuse(link) }
        defer { release(slot) }
        if isPassable, await passOn(link) { return }
        await serve(link, slot, queues: queues)
    }

    /// Waits until a link may begin its handshake.
    /// - Returns: false for one that is to be closed.
    func awaitTurn(of link: any StreamLink) async -> Bool {
        let step = state.withLock { state in
            state.handshakes.admit(link.remote, isOpen: { !link.isFinishedByPeer }, now: settings.clock())
        }
        let isServed = await WaitingLinks.awaitTurn(
            after: step, stopping: stopping,
            admit: { number in state.withLock { $0.handshakes.admit(waited: number, now: settings.clock()) } },
            remove: { number in state.withLock { $0.handshakes.remove(number) } })
        // Not an error where the peer has left, or the node stops. The level first: the peer is asked with a system call.
        if !isServed, settings.log.logLevel <= .debug, stopping.current == nil, !link.isFinishedByPeer {
            settings.log.debug("a connection from \(link.remote) was closed: too many handshakes, of its address or in all")
        }
        return isServed
    }

    /// Records that the peer of a link from this host has proven its key. That of a friend, a verified peer or a member of a session
    /// costs the host nothing.
    func recordProvenKey(of peer: AuthenticatedPeer, at host: String) {
        let trustStatus = settings.trustStatus(peer, nil)
        let sessions = state.withLock { Array($0.sessions.values) }
        recordHandshake(
            of: host,
            isKnown: trustStatus.isFriend || trustStatus.isVerified || sessions.contains { $0.isMember(peer.id) })
    }

    /// Records that a handshake with this host is complete.
    /// - Parameter isKnown: whether the peer's key is known.
    func recordHandshake(of host: String, isKnown: Bool) {
        state.withLock { $0.handshakes.recordSuccess(of: host, isKnown: isKnown) }
    }

    /// Records that a link from this host has ended before its peer had proven a key.
    func recordFailedHandshake(of host: String) {
        state.withLock { $0.handshakes.recordFailure(of: host, isCharged: true, now: settings.clock()) }
    }

    /// Records that a link's peer has proven its key, as a friend or not. A friend may take the slot of an untrusted link.
    func classify(_ slot: LinkRegistry.Slot, isFriend: Bool) {
        let evict = state.withLock { state in
            state.links.classify(slot, isFriend: isFriend, limits: settings.limits, now: settings.clock())
        }
        evict?()
    }

    /// Records that a link has joined a session of this node.
    func recordMember(_ id: PeerID, _ slot: LinkRegistry.Slot) {
        state.withLock { $0.links.recordMember(id, slot, limits: settings.limits, now: settings.clock()) }
    }

    /// Releases the slot of a link that has ended.
    func release(_ slot: LinkRegistry.Slot) { state.withLock { $0.links.release(slot, now: settings.clock()) } }

    /// Handles an incoming link until it ends.
    /// - Parameters:
    ///   - slot: the slot of the link among the incoming ones.
    ///   - queues: receives the peer's offers; nil on a link for a session of this node.
    ///   - expected: the peer at the other end; nil for any.
    func serve(
        _ link: any StreamLink, _ slot: LinkRegistry.Slot, queues: Listener.Queues?,
        expecting expected: PeerID? = nil
    ) async {
        let driver = makeDriver(link, .responder)
        state.withLock { state in
            state.links.attach(
                slot, unusedSince: { driver.unusedSince(now: $0) }, rate: { driver.transferRate(now: $0) },
                isMoving: { driver.isMoving }, end: { driver.close(.tooManyLinks) })
        }
        await run(driver) { [self] in
            var handler = IncomingLink(driver, link, slot, node: self, queues: queues, expecting: expected)
            defer { handler.end() }
            for await event in driver.events { handler.handle(event) }
        }
    }

    func makeInvitation(
        _ offer: TransferOffer, from peer: Peer, until expiry: MonotonicInstant, on driver: LinkDriver,
        prompt: PromptAdmission = .exempt
    ) -> Invitation {
        // The peer's id is unique on its own link only; the local one identifies the transfer in this node (A4).
        var progress = TransferProgress(
            id: settings.freshTransferID(), direction: .incoming, total: offer.offer.totalSize,
            totalEntries: EntryCounter(of: offer.offer, listed: offer.contents).total)
        progress.phase = .waiting
        return Invitation(
            peer: peer, offer: offer.offer, contents: offer.contents, features: offer.features, context: offer.context,
            resumeKey: offer.resumeKey,
            expiry: expiry,
            transfer: Transfer(progress: progress, clock: settings.clock), transfers: transferProgress,
            answering: Invitation.Answering(
                accept: { transfer, sink, part, keepsPartial in
                    driver.accept(offer, part: part, transfer: transfer, sink: sink, keepsPartial: keepsPartial)
                },
                decline: { driver.decline(offer.id, because: $0) }, prompt: prompt))
    }
}
