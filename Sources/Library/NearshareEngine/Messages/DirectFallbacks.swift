internal import NearshareBase
internal import NearshareBundles

/// Messages in mode full that went directly, and are sent by mesh when they are not acknowledged.
struct DirectFallbacks: Sendable {
    struct Fallback: Sendable {
        let request: MessageRequest
        let receiver: EndpointKeys
    }

    private var fallbacks: [BundleID: Fallback] = [:]
    /// The ID under which a message that was sent again was announced, by the ID of its new bundle.
    private var originals: [BundleID: BundleID] = [:]

    mutating func add(_ fallback: Fallback, for id: BundleID) {
        fallbacks[id] = fallback
    }

    /// Removes the fallback of a bundle that could not be delivered.
    mutating func remove(for id: BundleID) -> Fallback? { fallbacks.removeValue(forKey: id) }

    /// Records that a bundle replaces another one.
    mutating func replace(_ original: BundleID, by id: BundleID) {
        originals[id] = original
    }

    /// The ID under which a message was announced.
    func original(of id: BundleID) -> BundleID { originals[id] ?? id }

    /// Forgets a message whose progress has ended.
    mutating func finish(_ id: BundleID) {
        fallbacks[id] = nil
        originals[id] = nil
    }
}
