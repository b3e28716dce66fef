internal import NearshareCarry
public import NearshareEdges
public import NearshareWire
internal import Synchronization

extension Mesh {
    /// Sends, receives and carries messages from now on, until the node stops; whoever asks again gets the same.
    /// - Parameters:
    ///   - profile: how far messages of this node go, and how much it does for others at most.
    ///   - store: where messages wait; one of ``MemoryCarriedStore`` forgets them with the process.
    ///   - observe: is told what becomes of messages before anything follows from it: what it has kept of a message that came is
    ///     there before the sender hears that it has. It may block.
    public func startMessages(
        profile: PropagationProfile = .standard, store: any CarriedStore = MemoryCarriedStore(),
        observing observe: @escaping @Sendable (MeshMessageEvent) -> Void = { _ in }
    ) throws(StorageError) -> MeshMessages {
        let (messages, isNew) = try messages.withLock { (present) throws(StorageError) in
            if let present { return (present, false) }
            let fresh = try MeshMessages(self, settings, profile: profile, store: store, observe)
            present = fresh
            return (fresh, true)
        }
        guard isNew else { return messages }
        start { await onThread { messages.run() } }
        change { router, now in router.startCarrying(now: now) }
        messages.neighboursChanged()
        if isStopping { messages.stop() }
        return messages
    }
}
