internal import Logging
internal import NearshareBase
internal import NearshareBundles
internal import NearshareInterfaces

/// Performs a router's reactions, for the one thread of a ``BundleDriver``.
///
///     events ──► all changes of the store in one transaction ──► packets
///
/// Events come first: a bundle for this node is delivered before its delivery is recorded, so a kill between the two delivers
/// it again. A packet promises that what it confirms or acknowledges is durable, so packets come last.
struct BundlePerformer {
    private let store: any BundleStore
    private let log: Logger
    private let emit: (BundleEvent) -> Void
    private let send: (BundlePacket, _ neighbour: EndpointID, _ requiresSession: Bool) -> Void
    /// Records a decision about a bundle, for diagnosis.
    private let record: (BundleID, BundleDecision) -> Void
    private var cache = BundleCopyCache()

    init(
        store: any BundleStore, log: Logger, record: @escaping (BundleID, BundleDecision) -> Void = { _, _ in },
        emit: @escaping (BundleEvent) -> Void,
        send: @escaping (BundlePacket, _ neighbour: EndpointID, _ requiresSession: Bool) -> Void
    ) {
        self.store = store
        self.log = log
        self.record = record
        self.emit = emit
        self.send = send
    }

    mutating func perform(_ reactions: [BundleReaction]) {
        for case .emit(let event) in reactions { emit(event) }
        var changes: [BundleStoreChange] = []
        for reaction in reactions { prepare(reaction, &changes) }
        apply(changes)
        for reaction in reactions { transmit(reaction) }
        for case .remove(let id) in changes { cache.remove(id) }
    }

    private func recordDecision(_ id: BundleID, _ decision: BundleDecision) {
        log.trace("bundle \(id): \(decision)")
        record(id, decision)
    }

    /// Collects a change of the store, or loads the copy that is to be forwarded.
    private mutating func prepare(_ reaction: BundleReaction, _ changes: inout [BundleStoreChange]) {
        switch reaction {
        case .store(let bundle):
            recordDecision(bundle.id, .stored(previousNode: bundle.previousNode, hopCount: bundle.copy.hopCount))
            cache.insert(bundle.copy, id: bundle.id)
            changes.append(
                .insert(
                    PersistedBundle(
                        id: bundle.id, copy: bundle.copy.encoded, previousNode: bundle.previousNode,
                        host: bundle.host == .unknown ? nil : bundle.host.rawValue,
                        expiry: bundle.copy.bundle.expiry, forwardCount: bundle.forwardCount)))
        case .delete(let ids):
            for id in ids { recordDecision(id, .deleted) }
            changes += ids.map { .remove($0) }
        case .recordDelivery(let id, let expiry):
            recordDecision(id, .delivered)
            changes.append(.recordDelivery(id, expiry: expiry))
        case .forward(let id, _, _, _, _) where cache[id] == nil: load(id)
        case .forward, .send, .emit: break
        }
    }

    private mutating func load(_ id: BundleID) {
        do throws(StorageError) {
            guard let bytes = try store.copy(of: id), let copy = try? BundleCopy(decoding: bytes[...]) else { return }
            cache.insert(copy, id: id)
        } catch {
            log.error("\(error)")
        }
    }

    private mutating func apply(_ changes: [BundleStoreChange]) {
        guard !changes.isEmpty else { return }
        // A bundle that is not stored is not forwarded either: it would be lost with the process.
        func discard(_ ids: [BundleID]) {
            for id in ids { cache.remove(id) }
        }
        do throws(StorageError) {
            let rejected = try store.apply(changes)
            if !rejected.isEmpty { log.error("\(StorageError.bundleStoreFull)") }
            discard(rejected)
        } catch {
            log.error("\(error)")
            discard(changes.compactMap { if case .insert(let bundle) = $0 { bundle.id } else { nil } })
        }
    }

    private mutating func transmit(_ reaction: BundleReaction) {
        switch reaction {
        case .forward(let id, let neighbour, let hopCount, let forwarding, let visitedTags):
            // The cache may have been too small for all copies of a burst.
            if cache[id] == nil { load(id) }
            guard var copy = cache[id] else { return }
            (copy.hopCount, copy.forwarding, copy.visitedTags) = (hopCount, forwarding, visitedTags)
            recordDecision(id, .forwarded(to: neighbour, hopCount: hopCount, forwarding))
            do throws(StorageError) {
                try store.recordForward(of: id)
            } catch {
                log.error("\(error)")
            }
            send(.copy(copy), neighbour, copy.bundle.requiresSession)
        case .send(let packet, let neighbour):
            log.trace("to endpoint \(neighbour): \(packet.summary)")
            send(packet, neighbour, false)
        case .store, .delete, .recordDelivery, .emit: break
        }
    }
}

extension BundlePacket {
    /// A summary for logs, without content.
    var summary: String {
        switch self {
        case .copy(let copy): "bundle \(copy.bundle.id), hop \(copy.hopCount), \(copy.forwarding)"
        case .report(let report):
            "root \(report.position.root), epoch \(report.position.epoch), distance \(report.position.distance)"
                + (report.summary == nil ? "" : ", summary vector")
                + (report.reachability == nil ? "" : ", reachability filter")
        case .receipt(let numbers): "\(numbers.count) receipts"
        }
    }
}
