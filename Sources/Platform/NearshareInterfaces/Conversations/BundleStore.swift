package import NearshareBase

/// A bundle as a store persists it: encoded, with the fields that the store itself needs.
package struct PersistedBundle: Sendable, Hashable {
    package var id: BundleID
    /// The encoded copy.
    package var copy: [UInt8]
    /// The neighbour that sent it; nil for this node's own.
    package var previousNode: EndpointID?
    /// The number of that neighbour's host; nil where it is not known.
    package var host: UInt64?
    package var expiry: WallTime
    /// Number of times that it was forwarded.
    package var forwardCount: Int

    package init(
        id: BundleID, copy: [UInt8], previousNode: EndpointID?, host: UInt64? = nil, expiry: WallTime, forwardCount: Int = 0
    ) {
        self.id = id
        self.copy = copy
        self.previousNode = previousNode
        self.host = host
        self.expiry = expiry
        self.forwardCount = forwardCount
    }
}

/// A change of the contents of a ``BundleStore``.
package enum BundleStoreChange: Sendable, Hashable {
    /// Ignored for a bundle that is stored already.
    case insert(PersistedBundle)
    /// Ignored for a bundle that is not stored.
    case remove(BundleID)
    /// Records until its expiry that a bundle was delivered to this node.
    case recordDelivery(BundleID, expiry: WallTime)
}

/// Limits of a store, independent of its caller (B5): room for all that a router accepts of others, 1.5 MiB, and for what this node
/// sends itself.
package struct BundleStoreQuota: Sendable, Hashable {
    package var byteCount: Int
    package var byteCountPerPreviousNode: Int

    package init(byteCount: Int = 5 << 20, byteCountPerPreviousNode: Int = 4 << 20) {
        self.byteCount = byteCount
        self.byteCountPerPreviousNode = byteCountPerPreviousNode
    }
}

/// The storage of bundles that wait to be forwarded, and the record of deliveries. Calls block, and may be made from any
/// thread.
///
/// Changes by ``apply(_:)`` survive a killed process and a loss of power; counts by ``recordForward(of:)`` may be lost.
package protocol BundleStore: Sendable {
    /// All stored bundles, the oldest first.
    func bundles() throws(StorageError) -> [PersistedBundle]

    /// Makes all changes durable in one transaction, in their order.
    /// - Returns: the bundles that exceed the quota and were not inserted.
    func apply(_ changes: [BundleStoreChange]) throws(StorageError) -> [BundleID]

    /// The encoded copy of a bundle; nil when it is not stored.
    func copy(of id: BundleID) throws(StorageError) -> [UInt8]?

    func contains(_ id: BundleID) throws(StorageError) -> Bool

    func recordForward(of id: BundleID) throws(StorageError)

    /// The recorded deliveries; a store may forget the ones that expire first, beyond a limit.
    func deliveries() throws(StorageError) -> [(id: BundleID, expiry: WallTime)]

    /// Removes bundles and deliveries that have expired.
    func removeExpired(now: WallTime) throws(StorageError)

    func removeAll() throws(StorageError)
}

extension BundleStore {
    /// - Throws: ``StorageError/bundleStoreFull`` beyond the quota.
    package func insert(_ bundle: PersistedBundle) throws(StorageError) {
        guard try apply([.insert(bundle)]).isEmpty else { throw .bundleStoreFull }
    }

    package func remove(_ ids: [BundleID]) throws(StorageError) {
        _ = try apply(ids.map { .remove($0) })
    }

    package func recordDelivery(_ id: BundleID, expiry: WallTime) throws(StorageError) {
        _ = try apply([.recordDelivery(id, expiry: expiry)])
    }
}

extension StorageError {
    /// A bundle exceeds a ``BundleStoreQuota``.
    package static let bundleStoreFull = StorageError(
        .overLimit, "too many stored messages of other nodes; some have to be delivered or expire first")
}
