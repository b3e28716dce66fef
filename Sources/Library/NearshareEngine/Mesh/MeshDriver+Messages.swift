package import NearshareBundles
package import NearshareInterfaces
internal import Synchronization

extension MeshDriver {
    /// Sends, receives and carries messages from now on, until the node stops; whoever asks again gets the same.
    /// - Parameters:
    ///   - profile: how far messages of this node go, and how much it does for others at most.
    ///   - store: where messages wait; one of ``InMemoryBundleStore`` forgets them with the process.
    ///   - observe: is told what becomes of messages before anything follows from it: what it has kept of a message that came is
    ///     there before the sender hears that it has. It may block.
    package func startMessages(
        profile: PropagationProfile = .standard, store: any BundleStore = InMemoryBundleStore(),
        observing observe: @escaping @Sendable (BundleDriverEvent) -> Void = { _ in }
    ) throws(StorageError) -> BundleDriver {
        let (messages, isNew) = try messages.withLock { (present) throws(StorageError) in
            if let present { return (present, false) }
            let fresh = try BundleDriver(self, settings, profile: profile, store: store, observe)
            present = fresh
            return (fresh, true)
        }
        guard isNew else { return messages }
        start { await BlockingThread.run { messages.run() } }
        change { router, now in router.enableBundles(now: now) }
        messages.neighboursChanged()
        if isStopping { messages.stop() }
        return messages
    }
}
