import NearshareBase
import Testing

@testable import NearshareDiscovery

@Suite("addresses of this machine") struct LocalAddressesTests {
    @Test("an address that was lost counts as this machine's own while records with it may live on")
    func lostAddress() {
        let (old, new) = (IPAddress.v4(0x0a00_0001), IPAddress.v4(0x0a00_0002))
        // One list for each time that the kernel is asked.
        var lists = [[old], [new], [new], [new]].map { addresses in
            [
                NetworkInterface(
                    name: "eth0", index: 2, isUp: true, isRunning: true, isLoopback: false, isMulticastCapable: true,
                    isPointToPoint: false, addresses: addresses.map { IPSubnet($0, prefixLength: 24) })
            ]
        }
        var addresses = LocalAddresses { lists.removeFirst() }
        var found: [Bool] = []
        for (address, seconds) in [(old, 0), (new, 0), (old, 10), (new, 10), (old, 129), (old, 131)] as [(IPAddress, Int64)] {
            found.append(addresses.contains(address, at: MonotonicInstant(nanoseconds: seconds * 1_000_000_000)))
        }
        #expect(found == [true, false, true, true, true, false])
    }
}
