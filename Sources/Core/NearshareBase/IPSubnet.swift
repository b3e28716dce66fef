/// The subnet of a link, by the address of one of its hosts.
package struct IPSubnet: Sendable, Hashable {
    /// The address of a host in the subnet, such as this machine's.
    package var address: IPAddress
    /// The number of leading bits that all hosts on the link share.
    package var prefixLength: Int

    package init(_ address: IPAddress, prefixLength: Int) {
        (self.address, self.prefixLength) = (address, prefixLength)
    }

    package func contains(_ other: IPAddress) -> Bool { address.shares(prefixLength: prefixLength, with: other) }
}
