import NearshareBase
import NearshareDirect
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareEngine

@Suite struct SourcePumpTests {
    @Test("A10: a source that ends before the offered size is a failure of the source", arguments: [false, true])
    func shortSource(withdrawsEntries: Bool) throws {
        var entries = [InMemorySource.Entry.file("a", [1, 2, 3]), .file("b", [4], item: 1)]
        entries[0].header.size = 5
        let source = InMemorySource(entries)
        let progress = TransferProgress(id: TransferID(rawValue: 1), direction: .outgoing, total: 6, totalEntries: 2)
        let clock = MonotonicInstant(nanoseconds: 1)
        let pump = SourcePump(
            wireID: TransferID(rawValue: 1), transfer: Transfer(progress: progress) { clock }, source: source
        ) { clock }
        // This reader cannot withdraw an entry, whatever the receiver knows.
        if withdrawsEntries { pump.allowWithdrawal() }
        pump.allow(upTo: .max)
        do throws(SourcePumpError) {
            try pump.run(from: .start) { _ in true }
            Issue.record("the transfer is complete")
        } catch .source(let failure) {
            #expect(failure.code == .changed)
        } catch {
            Issue.record("\(error)")
        }
    }
}
