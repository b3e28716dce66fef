package import NearshareBundles
package import NearshareInterfaces
internal import Synchronization

extension MeshDriver {
    /// Stores and forwards bundles from now on, until the node stops. A second call returns the same driver.
    /// - Parameters:
    ///   - profile: how far this node's bundles go, and the limit on what it does for other nodes.
    ///   - store: where bundles wait; one of ``InMemoryBundleStore`` loses them with the process.
    ///   - observe: called with each event before its consequences: a received message that it stores is there before the sender
    ///     gets an acknowledgement. It may block.
    package func startBundles(
        profile: PropagationProfile = .standard, store: any BundleStore = InMemoryBundleStore(),
        observing observe: @escaping @Sendable (BundleDriverEvent) -> Void = { _ in }
    ) throws(StorageError) -> BundleDriver {
        let (driver, isNew) = try bundles.withLock { (present) throws(StorageError) in
            if let present { return (present, false) }
            let fresh = try BundleDriver(self, settings, profile: profile, store: store, observing: observe)
            present = fresh
            return (fresh, true)
        }
        guard isNew else { return driver }
        start { await BlockingThread.run { driver.run() } }
        update { router, now in router.enableBundles(now: now) }
        driver.neighboursChanged()
        if isStopping { driver.stop() }
        return driver
    }
}
