import NearshareBase
import Testing

@testable import NearshareDirect

@Suite struct DiscoveredAddressesTests {
    private let address = SessionMember.Address(host: "10.0.0.2", port: 7)

    private func id(_ number: Int) -> PeerID { PeerID(bytes: UInt64(number).bigEndianBytes)! }

    /// The addresses of the number of peers that the limit allows.
    private func full() -> DiscoveredAddresses {
        var addresses = DiscoveredAddresses()
        for number in 0..<DiscoveredAddresses.maximumCount { _ = addresses.set([address], of: id(number), isMember: false) }
        return addresses
    }

    @Test("R1: the peers whose addresses are kept are bounded, members left out") func bounded() {
        var addresses = full()
        let (isOtherKept, isMemberKept) = (
            addresses.set([address], of: id(1_000), isMember: false), addresses.set([address], of: id(1_001), isMember: true)
        )
        #expect(!isOtherKept && isMemberKept)
        #expect(addresses.count == DiscoveredAddresses.maximumCount + 1)
    }

    @Test("R1: former members are not kept beyond the limit") func formerMembers() {
        var addresses = full()
        for number in 1_000..<1_050 {
            _ = addresses.set([address], of: id(number), isMember: true)
            #expect(addresses.contains(id(number)))
            addresses.removeExcess(ofFormerMember: id(number))
            #expect(!addresses.contains(id(number)))
        }
        #expect(addresses.count == DiscoveredAddresses.maximumCount)
    }

    @Test func `a former member is found again where there is room`() {
        var addresses = DiscoveredAddresses()
        _ = addresses.set([address], of: id(1), isMember: true)
        addresses.removeExcess(ofFormerMember: id(1))
        #expect(addresses.contains(id(1)))
    }
}
