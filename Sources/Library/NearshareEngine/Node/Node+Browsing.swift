internal import Logging
package import NearshareBase
public import NearshareInterfaces
internal import Synchronization

extension Node {
    /// Browses the network for as long as the sequence is iterated; ends with an error when discovery breaks. A peer that is
    /// seen on several interfaces is one peer.
    /// - Parameter service: the type that the peers advertise.
    func browseNetwork(for service: ServiceType = .nearshare) throws(NodeError) -> NearbyChanges {
        guard let discovery = settings.discovery else {
            throw .unavailable("this node has no discovery; connect to an address such as 192.168.1.20:4000")
        }
        return try browse(discovery, for: service, interface: settings.interface)
    }

    private func browse(
        _ discovery: any Discovery, for service: ServiceType, interface: String?
    ) throws(NodeError) -> NearbyChanges {
        if state.withLock(\.isShuttingDown) { throw Self.stoppedError }
        let events: AsyncThrowingStream<DiscoveryEvent, any Error>
        do {
            events = try discovery.browse(for: service, interface: interface)
        } catch {
            throw .unavailable(error.description)
        }
        return nearbyChanges(events, for: service)
    }

    private func nearbyChanges(
        _ events: AsyncThrowingStream<DiscoveryEvent, any Error>, for service: ServiceType
    ) -> NearbyChanges {
        NearbyChanges(events: events, ownID: id, service: service) { [weak self] address in
            self?.warnOfOtherMachine(at: address)
        }
    }

    /// Warns once of a machine that may have a copy of this node's key, or only claims its id: announcements are not authenticated.
    private func warnOfOtherMachine(at address: LinkAddress) {
        let isFirst = state.withLock { state in
            defer { state.hasWarnedOfOtherMachine = true }
            return !state.hasWarnedOfOtherMachine
        }
        guard isFirst else { return }
        settings.log.warning(
            """
            another machine, at \(address), announces the id of this one: either this machine's key was copied to it, which must \
            not run on two machines at once, or it only claims to be this one, which deceives no peer that checks keys
            """)
    }

    /// Browses the given media. A peer on several is one peer, with its addresses in the order in which they are worth trying.
    /// - Throws: when none of the media can be browsed; the failure of one of several is only logged.
    package func browse(
        _ media: Set<LinkAddress.Medium>, for service: ServiceType = .nearshare
    ) async throws(NodeError) -> NearbyChanges {
        var found: [NearbyChanges] = []
        var failure: NodeError?
        if media.contains(.network) {
            do throws(NodeError) {
                found.append(try browseNetwork(for: service))
                if service == .nearshare, let devices = state.withLock({ $0.localSend })?.devices {
                    found.append(NearbyChanges(events: devices.browse(), ownID: id))
                }
            } catch {
                settings.log.info("no discovery on the network: \(error)")
                failure = error
            }
        }
        if media.contains(.bluetooth) {
            do throws(NodeError) {
                found.append(try browse(try await openRadio().discovery, for: service, interface: nil))
            } catch {
                settings.log.debug("no Bluetooth: \(error)")
                // The network's failure is reported, because most machines have no radio.
                failure = failure ?? error
            }
        }
        guard !found.isEmpty else { throw failure ?? .unavailable("there is no medium to browse") }
        return nearbyChanges(merged(found.map(\.events)), for: service)
    }

    /// Merges the events of several discovery engines; ``DiscoveryEvent/settled`` follows when all engines have settled or ended.
    /// Runs until the reader has gone, the node stops, or all engines have ended; an error of the last one ends it with that
    /// error, and those before are logged.
    func merged(
        _ sources: [AsyncThrowingStream<DiscoveryEvent, any Error>]
    ) -> AsyncThrowingStream<DiscoveryEvent, any Error> {
        let (stream, continuation) = DiscoveryEvent.makeStream()
        let isOver = Promise<Void>()
        continuation.onTermination = { _ in isOver.fulfil() }
        let counts = Monitor((unsettled: sources.count, open: sources.count))
        let isStarted = start { [stopping, log = settings.log] in
            await withTaskGroup(of: Void.self) { group in
                for events in sources {
                    group.addTask {
                        var isSettled = false
                        func settle() {
                            guard !isSettled else { return }
                            isSettled = true
                            let isLast = counts.withLock { counts in
                                counts.unsettled -= 1
                                return counts.unsettled == 0
                            }
                            if isLast { continuation.yield(.settled) }
                        }
                        var failure: (any Error)?
                        do {
                            for try await event in events {
                                if event == .settled { settle() } else { continuation.yield(event) }
                            }
                        } catch {
                            log.info("discovery on one medium has ended: \(error)")
                            failure = error
                        }
                        settle()
                        let isLast = counts.withLock { counts in
                            counts.open -= 1
                            return counts.open == 0
                        }
                        if isLast { continuation.finish(throwing: failure) } else { _ = await isOver.value }
                    }
                }
                group.addTask { _ = await isOver.value }
                group.addTask { _ = await stopping.value }
                await group.next()
                group.cancelAll()
            }
            continuation.finish()
        }
        if !isStarted { continuation.finish() }
        return stream
    }

    /// Browses all media of this node for as long as the sequence is iterated. A peer that is seen on several interfaces or
    /// media is one peer. The sequence ends with ``NodeError/unavailable(_:)`` when discovery breaks, and without an error when the
    /// node stops.
    /// - Parameter service: the type that the peers advertise.
    /// - Throws: ``NodeError/unavailable(_:)`` when none of the media can be browsed.
    public func browse(
        for service: ServiceType = .nearshare
    ) async throws(NodeError) -> some AsyncSequence<BrowseEvent, any Error> & Sendable {
        let changes: NearbyChanges = try await browse(media, for: service)
        findMembers(for: service)
        return changes
    }

    private var media: Set<LinkAddress.Medium> { hasRadio ? [.network, .bluetooth] : [.network] }

    /// Finds a peer by its name, the beginning of its name, or its id, on all media of this node.
    ///
    /// After a match of the whole name, browsing goes on for a moment, so that a second peer of the same name is noticed. The
    /// beginning of a name counts only when all peers have had time to answer.
    /// - Parameters:
    ///   - service: the type that the peer advertises.
    ///   - timeout: bound on the whole search; a negative time counts as none.
    /// - Throws: ``NodeError/notFound(_:nearby:)`` or ``NodeError/ambiguous(_:_:)`` when no peer matches or several do;
    ///   ``NodeError/unavailable(_:)`` without discovery, when it fails, and when the node stops.
    public func find(
        _ name: String, for service: ServiceType = .nearshare, timeout: Duration
    ) async throws -> NearbyPeer {
        try await find(name, for: service, timeout: timeout, on: media, endsAtFailure: true)
    }

    /// Finds the peer that the user's text means.
    ///
    /// After a match of a whole name or an id, the search goes on for a moment, so that a second peer of the same name is
    /// noticed. The beginning of a name counts only when all peers have had time to answer.
    /// - Parameters:
    ///   - ids: of peers that the user knows by the text, whatever they call themselves now.
    ///   - avoidedAddresses: addresses that have failed: a peer seen at no other one is found two seconds later.
    ///   - discardedAddresses: addresses at which another peer has answered: a peer seen at no other one is not found.
    ///   - endsAtFailure: whether the search ends when discovery fails. Otherwise it waits for the timeout, in which the caller
    ///     tries other ways to the peer.
    /// - Throws: ``NodeError``.
    package func find(
        _ text: String, for service: ServiceType = .nearshare, timeout: Duration,
        on media: Set<LinkAddress.Medium>, knownAs ids: Set<PeerID> = [], avoiding avoidedAddresses: Set<LinkAddress> = [],
        discarding discardedAddresses: Set<LinkAddress> = [], endsAtFailure: Bool = false
    ) async throws -> NearbyPeer {
        let deadline = settings.clock() + timeout
        let changes = try await browse(media, for: service)
        let finder = PeerFinder(text: text, knownAs: ids, avoiding: avoidedAddresses, clock: settings.clock)
        return try await firstResult(
            of: {
                try await finder.find(before: deadline, endsAtFailure: endsAtFailure) { update in
                    for try await change in changes.compactMap(\.change) {
                        update(PeerFinder.Change(change, discarding: discardedAddresses))
                    }
                }
            },
            { [stopping] in
                _ = await stopping.value
                try Task.checkCancellation()
                throw Self.stoppedError
            })
    }
}

/// A change of the peers nearby, as ``Node/browse(for:)`` reports it.
public enum BrowseEvent: Sendable, Hashable {
    /// A peer was seen for the first time.
    case found(NearbyPeer)
    /// A peer has other addresses, another name or other info than before.
    case updated(NearbyPeer)
    /// A peer is no longer seen on any interface.
    case lost(NearbyPeer)
    /// All peers that were there when browsing began have been reported.
    case settled

    init(_ change: NearbyPeerTable.Change) {
        self =
            switch change {
            case .found(let peer): .found(peer)
            case .updated(let peer): .updated(peer)
            case .lost(let peer): .lost(peer)
            }
    }

    /// nil for ``settled``.
    package var change: NearbyPeerTable.Change? {
        switch self {
        case .found(let peer): .found(peer)
        case .updated(let peer): .updated(peer)
        case .lost(let peer): .lost(peer)
        case .settled: nil
        }
    }
}

/// The changes of the peers nearby, for one reader: of several, each gets a part of them.
package struct NearbyChanges: AsyncSequence, Sendable {
    let events: AsyncThrowingStream<DiscoveryEvent, any Error>
    private let reader: DiscoveryEventReader
    private let ownID: PeerID
    private let service: ServiceType
    private let onIDConflict: @Sendable (LinkAddress) -> Void

    /// - Parameter onIDConflict: called when another machine announces the local node's id.
    init(
        events: AsyncThrowingStream<DiscoveryEvent, any Error>, ownID: PeerID, service: ServiceType = .nearshare,
        onIDConflict: @escaping @Sendable (LinkAddress) -> Void = { _ in }
    ) {
        self.events = events
        self.onIDConflict = onIDConflict
        reader = DiscoveryEventReader(events)
        self.ownID = ownID
        self.service = service
    }

    package struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let reader: DiscoveryEventReader
        fileprivate let onIDConflict: @Sendable (LinkAddress) -> Void
        var table: NearbyPeerTable
        var queued: ArraySlice<BrowseEvent> = []

        package mutating func next(
            isolation actor: isolated (any Actor)? = #isolation
        ) async throws -> BrowseEvent? {
            while queued.isEmpty {
                guard let event = try await reader.next() else { return nil }
                let isKnown = table.conflictingAddress != nil
                queued = event == .settled ? [.settled] : table.apply(event).map { BrowseEvent($0) }[...]
                if !isKnown, let address = table.conflictingAddress { onIDConflict(address) }
            }
            return queued.removeFirst()
        }
    }

    package func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(reader: reader, onIDConflict: onIDConflict, table: NearbyPeerTable(ownID: ownID, service: service))
    }
}

/// Reads a stream for tasks that may do so at the same time. `AsyncThrowingStream` itself traps when two of them wait.
private final class DiscoveryEventReader: Sendable {
    private let events: AsyncThrowingStream<DiscoveryEvent, any Error>
    private let isReading = Mutex(false)
    /// Wakes tasks that wait for their turn.
    private let turn = AsyncCondition()

    init(_ events: AsyncThrowingStream<DiscoveryEvent, any Error>) {
        self.events = events
    }

    /// Waits for the next event.
    /// - Returns: nil at the end, and when the task is cancelled.
    /// - Throws: ``NodeError/unavailable(_:)`` when discovery breaks: programs cannot name its own error.
    func next() async throws -> DiscoveryEvent? {
        while !beginTurn() {
            if Task.isCancelled { return nil }
            await turn.wait { [self] in isReading.withLock { !$0 } }
        }
        defer {
            isReading.withLock { $0 = false }
            turn.notifyAll()
        }
        var iterator = events.makeAsyncIterator()
        do {
            return try await iterator.next()
        } catch let error as DiscoveryError {
            throw NodeError.unavailable(error.description)
        }
    }

    private func beginTurn() -> Bool {
        isReading.withLock { isReading in
            defer { isReading = true }
            return !isReading
        }
    }
}
