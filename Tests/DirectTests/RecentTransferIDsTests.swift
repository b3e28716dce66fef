import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

@testable import NearshareDirect

@Suite struct RecentTransferIDsTests {
    @Test("A3, R1: the most recent ids are remembered, and no more of them")
    func capacity() {
        var recent = RecentTransferIDs()
        let count = UInt64(RecentTransferIDs.capacity)
        for number in 0..<count { recent.insert(TransferID(rawValue: number)) }
        // Inserting a known id again replaces nothing.
        recent.insert(TransferID(rawValue: count - 1))
        #expect(recent.contains(TransferID(rawValue: 0)))
        recent.insert(TransferID(rawValue: count))
        #expect(!recent.contains(TransferID(rawValue: 0)))
        #expect(recent.contains(TransferID(rawValue: 1)) && recent.contains(TransferID(rawValue: count)))
    }
}
