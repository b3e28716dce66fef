import NearshareBase
import NearshareDirect
import NearshareInterfaces
import NearshareTesting
import Synchronization
import Testing

@testable import NearshareEngine

@Suite(.timeLimit(.minutes(1))) struct SourcePumpTests {
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

    @Test("a reader's failure ends the wait for what the receiver selects among the listed files") func failedReader() throws {
        let source = FailingSource(inner: InMemorySource([.file("a", [1, 2, 3])]))
        let progress = TransferProgress(id: TransferID(rawValue: 1), direction: .outgoing, total: 3, totalEntries: 1)
        let clock = MonotonicInstant(nanoseconds: 1)
        let pump = SourcePump(
            wireID: TransferID(rawValue: 1), transfer: Transfer(progress: progress) { clock }, source: source
        ) { clock }
        pump.beginComparison()
        pump.allow(upTo: .max)
        do throws(SourcePumpError) {
            try pump.run(from: nil) { _ in
                source.fail()
                return true
            }
            Issue.record("the transfer is complete")
        } catch .source(let failure) {
            #expect(failure.description == FailingSource.failure.description)
        } catch {
            Issue.record("\(error)")
        }
    }
}

/// A source whose reader fails outside of a call.
private final class FailingSource: ResourceSource {
    private final class Reader: ResourceReader {
        private let inner: any ResourceReader
        private let source: FailingSource

        init(_ inner: any ResourceReader, of source: FailingSource) {
            (self.inner, self.source) = (inner, source)
        }

        func nextEntry() throws(StorageError) -> EntryHeader? { try inner.nextEntry() }
        func read(into buffer: UnsafeMutableRawBufferPointer) throws(StorageError) -> Int { try inner.read(into: buffer) }
        func seek(to offset: UInt64) throws(StorageError) { try inner.seek(to: offset) }
        func cancel() { inner.cancel() }
        func onFailure(_ action: @escaping @Sendable (StorageError) -> Void) { source.action.withLock { $0 = action } }
    }

    static let failure = StorageError(.failed, "it stalls")

    private let inner: InMemorySource
    private let action = Mutex<(@Sendable (StorageError) -> Void)?>(nil)

    var offer: Offer { inner.offer }

    init(inner: InMemorySource) {
        self.inner = inner
    }

    func makeReader() throws(StorageError) -> any ResourceReader { Reader(try inner.makeReader(), of: self) }

    func fail() {
        let action = action.withLock { $0 }
        action?(Self.failure)
    }
}
