internal import NearshareBase
internal import NearshareDirect
internal import NearshareInterfaces

// The sessions of a node: at most one for each id.
extension Node {
    /// Starts a session without other members; ``Session/invite(_:context:secret:timeout:)`` adds them. This node is its
    /// ``Session/founder``. By default, it has 8 members at most and asks the user about new keys.
    ///
    /// Members connect to each other, so the node has to listen: unless it does so already, it opens a free port.
    /// - Throws: ``NodeError/invalidParameter(_:)`` for settings out of their bounds; ``NodeError/unavailable(_:)`` when the
    ///   node cannot listen or has stopped, or another process takes part in sessions with the identity of the user.
    public func startSession(_ settings: SessionSettings = SessionSettings()) throws(NodeError) -> Session {
        do throws(SessionError) { try settings.check() } catch { throw .invalidParameter(error.description) }
        let claim = try claimSessions()
        let founder = SessionFounder(
            fingerprint: self.settings.identity.fingerprint, nonce: self.settings.random(SessionFounder.nonceByteCount))
        let session = try sessionPort.withLock { _ throws(NodeError) -> Session in
            if listeningPort == nil { _ = try listenForMembers() }
            // Safe: `random` returns as many bytes as asked for.
            return makeSession(founder!.session, settings, founder: founder, claim: claim).session
        }
        if state.withLock(\.isShuttingDown) { throw Self.stoppedError }
        return session
    }

    /// The TCP port of the first listener; nil when the node does not listen.
    var listeningPort: UInt16? { state.withLock { $0.listeners.port } }

    /// Listens on a free port, for members of this node's sessions.
    /// - Parameter record: advertised with the port; nil to advertise nothing.
    func listenForMembers(
        advertising record: PeerTXTRecord? = nil, as service: ServiceType = .nearshare
    ) throws(NodeError) -> (socket: any StreamListener, advertisement: (any RunningAdvertisement)?) {
        let listener: any StreamListener
        do {
            listener = try settings.transport.listen(port: 0, interface: settings.interface)
        } catch {
            throw NodeError(error)
        }
        var advertisement: (any RunningAdvertisement)?
        if let record {
            do throws(NodeError) {
                advertisement = try advertise(record, as: service, port: listener.port)
            } catch {
                listener.close()
                throw error
            }
        }
        guard insert(listener, advertisement) else { throw Self.stoppedError }
        do throws(NodeError) {
            try startAccepting(from: listener, nil, queues: nil)
        } catch {
            advertisement?.stop()
            remove(listener)
            throw error
        }
        return (listener, advertisement)
    }

    /// Returns the session with this id, or creates it; there is at most one.
    /// - Parameter claim: the claim of the key, which the session keeps until it is over.
    /// - Returns: also whether this call has created it.
    func makeSession(
        _ id: SessionID, _ settings: SessionSettings, founder: SessionFounder? = nil, room: Room? = nil,
        claim: (any Sendable)?
    ) -> (session: Session, isNew: Bool) {
        let made = Session(id, settings, self, founder: founder, room: room, claim: claim)
        let (session, isShuttingDown) = state.withLock { state in
            let session = state.sessions[id] ?? made
            state.sessions[id] = session
            return (session, state.isShuttingDown)
        }
        guard session === made else {
            made.end()
            return (session, false)
        }
        start { await session.run() }
        for service in state.withLock({ $0.listeners.services }) { findMembers(of: session, for: service) }
        if isShuttingDown { session.end() } else { startNetworkMonitor() }
        return (session, true)
    }

    /// Looks for the members of all sessions under a service type, those of later sessions included: one under which this node
    /// advertises itself or browses.
    func findMembers(for service: ServiceType) {
        let sessions = state.withLock { state in
            state.listeners.insert(service)
            return Array(state.sessions.values)
        }
        for session in sessions { findMembers(of: session, for: service) }
    }

    /// Tells a session at which addresses discovery sees peers, until it is over: it may be the only way to a member whose address
    /// has changed. Browses each service type once for a session, and none for a room, which browses for its members itself.
    func findMembers(of session: Session, for service: ServiceType) {
        guard settings.discovery != nil, session.room == nil,
            session.state.withLock({ $0.browsedServices.insert(service).inserted })
        else { return }
        start { [self] in
            await firstResult(of: { await self.readAddresses(for: session, service) }, { _ = await session.ended })
            // Discovery may have failed, and work again later.
            session.state.withLock { _ = $0.browsedServices.remove(service) }
        }
    }

    private func readAddresses(for session: Session, _ service: ServiceType) async {
        do {
            for try await change in try browseNetwork(for: service) {
                switch change {
                case .found(let peer), .updated(let peer): session.recordFound(peer.id, at: peer.addresses)
                case .lost(let peer): session.recordFound(peer.id, at: [])
                case .settled: break
                }
            }
        } catch {
            settings.log.info("session: discovery has ended: \(error)")
        }
    }

    func session(_ id: SessionID) -> Session? { state.withLock { $0.sessions[id] } }

    func forget(_ session: Session) {
        state.withLock { state in
            if state.sessions[session.id] === session { state.sessions[session.id] = nil }
        }
    }
}
