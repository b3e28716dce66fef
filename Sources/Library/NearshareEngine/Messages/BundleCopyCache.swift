internal import NearshareBase
internal import NearshareBundles

/// Copies of stored bundles, so that a bundle is not read back from the store to be forwarded. The oldest are removed first.
struct BundleCopyCache {
    private var copies: [BundleID: BundleCopy] = [:]
    /// The ids in the order of insertion.
    private var ids: [BundleID] = []
    private var byteCount = 0
    private let capacity: Int

    /// - Parameter capacity: bytes of all copies together, by their bodies and an estimate of the rest.
    init(capacity: Int = 256 << 10) {
        self.capacity = capacity
    }

    var count: Int { copies.count }

    subscript(id: BundleID) -> BundleCopy? { copies[id] }

    mutating func insert(_ copy: BundleCopy, id: BundleID) {
        let size = Self.byteCount(of: copy)
        guard size <= capacity else { return remove(id) }
        if let replaced = copies.updateValue(copy, forKey: id) {
            byteCount -= Self.byteCount(of: replaced)
        } else {
            ids.append(id)
        }
        byteCount += size
        while byteCount > capacity, let oldest = ids.first { remove(oldest) }
    }

    mutating func remove(_ id: BundleID) {
        guard let copy = copies.removeValue(forKey: id) else { return }
        byteCount -= Self.byteCount(of: copy)
        ids.removeAll { $0 == id }
    }

    private static func byteCount(of copy: BundleCopy) -> Int { copy.bundle.body.count + 512 }
}
