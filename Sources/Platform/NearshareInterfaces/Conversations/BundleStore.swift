package import NearshareBase

/// A message as a store keeps it: its bytes, and what the store itself has to know of it.
package struct StoredMessage: Sendable, Hashable {
    package var id: BundleID
    /// The encoded copy, as it came.
    package var copy: [UInt8]
    /// Who handed it to this node; nil for one's own.
    package var depositor: EndpointID?
    package var expiry: WallTime
    /// How often it has been forwarded.
    package var forwards: Int

    package init(id: BundleID, copy: [UInt8], depositor: EndpointID?, expiry: WallTime, forwards: Int = 0) {
        self.id = id
        self.copy = copy
        self.depositor = depositor
        self.expiry = expiry
        self.forwards = forwards
    }
}

/// How much a store takes, whatever it is asked to (M6).
package struct BundleStoreQuota: Sendable, Hashable {
    package var byteCount: Int
    package var byteCountPerDepositor: Int

    package init(byteCount: Int = 8 << 20, byteCountPerDepositor: Int = 4 << 20) {
        self.byteCount = byteCount
        self.byteCountPerDepositor = byteCountPerDepositor
    }
}

/// Where messages wait while they are carried, and what is remembered of those that were delivered. Calls block; from any thread.
///
/// What ``insert(_:)``, ``remove(_:)`` and ``remember(_:until:)`` did is there after the process was killed; what
/// ``countForward(of:)`` did may be lost when the machine loses power.
package protocol BundleStore: Sendable {
    /// All that is kept, the oldest first.
    func messages() throws(StorageError) -> [StoredMessage]

    /// - Throws: ``StorageError/Code/overLimit`` beyond the quota, ``StorageError/Code/noSpace``.
    func insert(_ message: StoredMessage) throws(StorageError)

    /// The encoded copy of one; nil when it isn't kept.
    func copy(of id: BundleID) throws(StorageError) -> [UInt8]?

    func countForward(of id: BundleID) throws(StorageError)

    /// Those that aren't kept are skipped.
    func remove(_ ids: [BundleID]) throws(StorageError)

    /// Notes that a message was delivered here, until it expires.
    func remember(_ id: BundleID, until expiry: WallTime) throws(StorageError)

    /// Those of ``remember(_:until:)``.
    func delivered() throws(StorageError) -> [(id: BundleID, until: WallTime)]

    /// Removes what is over.
    func expire(now: WallTime) throws(StorageError)

    /// Removes everything.
    func removeAll() throws(StorageError)
}
