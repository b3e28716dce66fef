internal import NearshareInterfaces

/// A direct link that this process has accepted and another one serves. The other process has it once the descriptor was sent;
/// this one closes its own when the value is released.
package struct PassedLink: Sendable {
    private let link: any StreamLink
    package let descriptor: Int32
    /// The bytes that were read from it.
    package let opening: [UInt8]

    /// - Returns: nil for a link that is no socket.
    init?(_ link: PrefixedLink) {
        guard let descriptor = link.link.passableDescriptor else { return nil }
        self.link = link.link
        self.descriptor = descriptor
        opening = link.bytes
    }
}
