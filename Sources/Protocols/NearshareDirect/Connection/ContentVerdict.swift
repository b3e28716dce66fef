/// The decision about bytes of content that have arrived.
package enum ContentVerdict: Sendable, Hashable {
    /// The content belongs to a transfer that expects it.
    case deliver
    /// The content was in flight when its transfer was cancelled locally.
    case drop
}
