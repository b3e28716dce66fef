package import NearshareBundles
package import NearshareInterfaces
internal import Synchronization

extension MeshDriver {
    /// Stores and forwards bundles from now on, until the node stops. A second call ignores its arguments and returns
    /// the same driver.
    /// - Parameters:
    ///   - profile: limits of this node's own bundles, and of what it forwards for other nodes.
    ///   - store: the store of waiting bundles; ``InMemoryBundleStore`` loses them with the process.
    ///   - observe: called with each event before its consequences: a message is stored before its sender gets an
    ///     acknowledgement. It may block.
    package func startBundles(
        profile: PropagationProfile = .standard, store: any BundleStore = InMemoryBundleStore(),
        observing observe: @escaping @Sendable (BundleDriverEvent) -> Void = { _ in }
    ) throws(StorageError) -> BundleDriver {
        let (driver, isNew) = try bundles.withLock { (current) throws(StorageError) in
            if let current { return (current, false) }
            let fresh = try BundleDriver(self, settings, profile: profile, store: store, observing: observe)
            current = fresh
            return (fresh, true)
        }
        guard isNew else { return driver }
        start { [self] in
            do {
                try await BlockingThread.run { driver.run() }
            } catch {
                settings.log.error("bundles: \(error)")
                driver.finishWithoutThread()
            }
        }
        update { router, now in router.enableBundles(now: now) }
        driver.updateNeighbours()
        if isStopping { driver.stop() }
        return driver
    }
}
