/// A reference in a collection that does not keep its object.
struct WeakReference<Object: AnyObject & Sendable>: Sendable {
    weak var object: Object?
}
