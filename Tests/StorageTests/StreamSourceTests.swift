import Glibc
import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareStorage

private final class ThreadStart: Sendable {
    let run: @Sendable () -> Void

    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}

/// A thread of the test's own, for calls that block.
final class Worker<Result: Sendable>: Sendable {
    private let outcome = Monitor<Result?>(nil)

    init(_ body: @escaping @Sendable () -> Result) {
        let outcome = self.outcome
        let start = ThreadStart {
            let result = body()
            outcome.update { $0 = result }
        }
        var thread = pthread_t()
        let code = pthread_create(
            &thread, nil,
            { raw in
                Unmanaged<ThreadStart>.fromOpaque(raw!).takeRetainedValue().run()
                return nil
            }, Unmanaged.passRetained(start).toOpaque())
        precondition(code == 0)
        pthread_detach(thread)
    }

    /// Blocks until the body has returned.
    func wait() -> Result { outcome.wait { $0 } }

    var isDone: Bool { outcome.withLock { $0 != nil } }
}

/// A pipe from which a source reads, and whose writing end the test holds.
final class SourcePipe: Sendable {
    let readEnd: FileDescriptor
    private let writeEnd: Monitor<FileDescriptor?>

    init() {
        var ends: [Int32] = [0, 0]
        precondition(pipe(&ends) == 0)
        readEnd = FileDescriptor(owning: ends[0])
        writeEnd = Monitor(FileDescriptor(owning: ends[1]))
    }

    func write(_ bytes: [UInt8]) throws {
        let end = writeEnd.withLock { $0 }
        try end?.write(bytes)
    }

    func closeWriting() { writeEnd.update { $0 = nil } }
}

private struct SharedReader: @unchecked Sendable {
    // Cancelled from one thread while another reads, as its contract allows.
    let reader: any ResourceReader

    func readAll(pieceByteCount: Int = 10_000) -> Result<[UInt8], StorageError> {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: pieceByteCount, alignment: 1)
        defer { buffer.deallocate() }
        var all: [UInt8] = []
        do {
            while true {
                let count = try reader.read(into: buffer)
                if count == 0 { return .success(all) }
                all += buffer[..<count]
            }
        } catch {
            return .failure(error)
        }
    }
}

@Suite("standard input, for one and for several")
struct StreamSourceTests {
    private func reader(_ seat: StreamSource.Reader) throws -> SharedReader {
        let reader = try seat.makeReader()
        let header = try #require(try reader.nextEntry())
        #expect(header.size == nil && header.modified == nil && header.path.map(\.shown) == ["in.bin"])
        return SharedReader(reader: reader)
    }

    private func stream(
        _ pipe: SourcePipe, receivers: Int, clock: @escaping @Sendable () -> MonotonicInstant = { SystemClock.monotonic() }
    ) -> StreamSource {
        StreamSource(descriptor: pipe.readEnd.rawValue, name: ClaimedFileName("in.bin")!, receivers: receivers, clock: clock)
    }

    @Test("R12: its size is a declared unknown")
    func offer() {
        let stream = stream(SourcePipe(), receivers: 1)
        #expect(stream.offer.totalSize == nil && stream.offer.items.map(\.size) == [nil] && stream.offer.entryCount == 1)
    }

    @Test("every receiver gets every byte, however large its pieces", arguments: [1, 2, 5])
    func fansOut(receivers: Int) throws {
        let pipe = SourcePipe()
        let source = stream(pipe, receivers: receivers)
        let content = bytes(3 << 20)
        let workers = try source.readers.enumerated().map { number, seat in
            let reader = try reader(seat)
            return Worker { reader.readAll(pieceByteCount: 1000 + number * 77_777) }
        }
        let writer = Worker {
            try? pipe.write(content)
            pipe.closeWriting()
        }
        writer.wait()
        for worker in workers { #expect(try worker.wait().get() == content) }
    }

    @Test("the slowest sets the pace, and memory is bounded")
    func slowest() throws {
        let pipe = SourcePipe()
        let source = stream(pipe, receivers: 2)
        let quick = try reader(source.readers[0])
        let slow = try reader(source.readers[1])
        let content = bytes(4 << 20)
        let writer = Worker {
            try? pipe.write(content)
            pipe.closeWriting()
        }
        let quickWorker = Worker { quick.readAll() }
        // The writer cannot have finished: only the window and the pipe's capacity are ahead of the slow reader.
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 100, alignment: 1)
        defer { buffer.deallocate() }
        for _ in 0..<100 { #expect(try slow.reader.read(into: buffer) == 100) }
        #expect(!writer.isDone && !quickWorker.isDone)
        #expect(try slow.readAll().get() == Array(content[10_000...]))
        #expect(try quickWorker.wait().get() == content)
    }

    @Test("one that gives up, or never comes, is no longer waited for")
    func givesUp() throws {
        let pipe = SourcePipe()
        let source = stream(pipe, receivers: 3)
        let stays = try reader(source.readers[0])
        let leaves = try reader(source.readers[1])
        let content = bytes(6 << 20)
        let writer = Worker {
            try? pipe.write(content)
            pipe.closeWriting()
        }
        let worker = Worker { stays.readAll() }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 100, alignment: 1)
        defer { buffer.deallocate() }
        #expect(try leaves.reader.read(into: buffer) == 100)
        leaves.reader.cancel()
        #expect(throws: StorageError.self) { try leaves.reader.read(into: buffer) }
        source.readers[2].cancel()
        #expect(try worker.wait().get() == content)
        writer.wait()
    }

    @Test("one that comes late gets the stream from its beginning")
    func late() throws {
        let pipe = SourcePipe()
        let source = stream(pipe, receivers: 2)
        let early = try reader(source.readers[0])
        let content = bytes(3 << 20)
        let writer = Worker {
            try? pipe.write(content)
            pipe.closeWriting()
        }
        let worker = Worker { early.readAll() }
        let late = try reader(source.readers[1])
        #expect(try late.readAll().get() == content)
        #expect(try worker.wait().get() == content)
        writer.wait()
        #expect(throws: StorageError.self) { try source.readers[1].makeReader() }
    }

    @Test("cancelling wakes a reader that waits for a silent stream", arguments: [1, 2])
    func cancels(receivers: Int) throws {
        let pipe = SourcePipe()
        let source = stream(pipe, receivers: receivers)
        let readers = try source.readers.map { try reader($0) }
        let workers = readers.map { reader in Worker { reader.readAll() } }
        for reader in readers.dropLast() { reader.reader.cancel() }
        for worker in workers.dropLast() { #expect(throws: StorageError.self) { try worker.wait().get() } }
        // The others still get what comes.
        try pipe.write([1, 2, 3])
        readers.last!.reader.cancel()
        let last = workers.last!.wait()
        #expect(throws: StorageError.self) { try last.get() }
    }

    @Test("a receiver that takes nothing for 30 seconds is told, and the others go on")
    func stalls() throws {
        let pipe = SourcePipe()
        // Ten seconds pass between two looks.
        let looks = Monitor<Int64>(0)
        let source = stream(pipe, receivers: 2) {
            MonotonicInstant(
                nanoseconds: looks.withLock {
                    $0 += 10
                    return $0
                } * 1_000_000_000)
        }
        let (quick, stalled) = (try reader(source.readers[0]), try reader(source.readers[1]))
        let failure = Monitor<StorageError?>(nil)
        stalled.reader.onFailure { error in failure.update { $0 = error } }
        let content = bytes(3 << 20)
        let writer = Worker {
            try? pipe.write(content)
            pipe.closeWriting()
        }
        #expect(try quick.readAll().get() == content)
        writer.wait()
        #expect(try #require(failure.withLock { $0 }).description.contains("30 seconds"))
        #expect(throws: StorageError.self) { try stalled.readAll().get() }
    }

    @Test("a stream that breaks fails for all")
    func breaks() throws {
        let directory = try FileDescriptor.openDirectory(path: "/")
        let source = StreamSource(
            descriptor: directory.rawValue, name: ClaimedFileName("in.bin")!, receivers: 2, clock: { SystemClock.monotonic() })
        for seat in source.readers {
            let reader = try reader(seat)
            #expect(throws: StorageError.self) { try reader.readAll().get() }
        }
    }
}
