package import NearshareBase

/// A received item that has its final name, or waits in the spool for the inbox.
public struct DeliveredItem: Sendable, Hashable {
    package var item: UInt32
    package var kind: OfferedItem.Kind
    /// The name that the sender gave it.
    package var claimedName: ClaimedFileName
    /// The current path: in the inbox, or where it waits until the inbox can be used again.
    public var path: String
    /// False while the item waits in the spool because the inbox is not available.
    package var isInInbox: Bool
    /// The path in the spool, for an item that has waited there.
    package var stagedPath: String?
    /// The content in bytes.
    public var size: UInt64
    /// Whether everything was in the inbox already, so that nothing has changed.
    package var isPresent = false
    /// Whether it was merged into an item of the inbox, or has replaced one: not all of it was received.
    package var isMerged = false
    /// Files of the inbox that received ones have replaced.
    package var replacedCount: UInt64 = 0
    /// Files of the inbox that stay because they are not older than the received ones.
    package var newerCount: UInt64 = 0
    /// Names that got a number, because something that is not replaced has the name.
    package var changedNames = ChangedNames()
    /// Whether it is beside an item of the inbox into which it would be merged where files may be replaced.
    package var isMergeable = false
    /// The media type that libmagic detects in the content; nil for folders.
    public var detectedType: String?
    /// A warning that name, claimed type and content disagree; nil when they agree.
    public var typeWarning: String?

    package init(
        item: UInt32, kind: OfferedItem.Kind, claimedName: ClaimedFileName, path: String, isInInbox: Bool, size: UInt64,
        detectedType: String?, typeWarning: String?, stagedPath: String? = nil
    ) {
        self.item = item
        self.kind = kind
        self.claimedName = claimedName
        self.path = path
        self.isInInbox = isInInbox
        self.stagedPath = stagedPath
        self.size = size
        self.detectedType = detectedType
        self.typeWarning = typeWarning
    }
}
