/// An IP subnet: the address of one of its hosts, and the length of the prefix that all share.
package struct IPSubnet: Sendable, Hashable {
    /// The address of a host in the subnet, such as this machine's.
    package let address: IPAddress
    /// In bits: at most 32 for IPv4, 128 for IPv6.
    package let prefixLength: Int

    package init(_ address: IPAddress, prefixLength: Int) {
        (self.address, self.prefixLength) = (address, prefixLength)
    }

    package func contains(_ other: IPAddress) -> Bool { address.shares(prefixLength: prefixLength, with: other) }
}
