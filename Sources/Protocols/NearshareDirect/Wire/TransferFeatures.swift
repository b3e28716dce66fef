/// The abilities of a peer beyond the frames that every peer knows (`docs/PROTOCOL.md`, section 5).
package struct TransferFeatures: OptionSet, Sendable, Hashable {
    package let rawValue: UInt32

    package init(rawValue: UInt32) { self.rawValue = rawValue }

    /// The sender lists the files of an offer, so that those which are present need not be sent.
    package static let listsFiles = TransferFeatures(rawValue: 1 << 0)

    /// The sender sends a part of an offer, where the receiver selects one.
    package static let sendsParts = TransferFeatures(rawValue: 1 << 1)

    /// The sender may withdraw entries of an accepted offer; the receiver, which states it in turn, passes over them.
    package static let withdrawsEntries = TransferFeatures(rawValue: 1 << 2)
}
