internal import CSodium

/// Memory for keys, erased when the last reference is released. Its content is never printed, and never compared in variable
/// time.
package final class SecretBytes: Sendable {
    /// The kind of memory that holds the bytes.
    package enum Memory: Sendable {
        /// Heap memory, for keys with the lifetime of a link.
        case heap
        /// Memory between guard pages, excluded from core dumps, and from swap where the limit on locked memory permits (K5).
        /// For long-term keys only: each takes four mappings, of which a process has about 65,000.
        case guarded
    }

    // Safe: written in init only.
    nonisolated(unsafe) private let storage: UnsafeMutableRawBufferPointer
    private let memory: Memory

    /// - Parameter write: Initialises all of the memory.
    init(byteCount: Int, in memory: Memory = .heap, _ write: (UnsafeMutableRawBufferPointer) -> Void) {
        Sodium.requireReady()
        self.memory = memory
        switch memory {
        case .heap: storage = .allocate(byteCount: byteCount, alignment: 16)
        case .guarded:
            // Safe: no peer chooses the length; Swift's own allocations trap as well.
            guard let start = sodium_malloc(byteCount) else { fatalError("out of memory for a key") }
            storage = UnsafeMutableRawBufferPointer(start: start, count: byteCount)
        }
        write(storage)
    }

    /// Copies the bytes. The caller erases the original.
    package convenience init(_ bytes: some Collection<UInt8>, in memory: Memory = .heap) {
        self.init(byteCount: bytes.count, in: memory) { $0.copyBytes(from: bytes) }
    }

    deinit {
        switch memory {
        case .heap:
            sodium_memzero(storage.baseAddress, storage.count)
            storage.deallocate()
        case .guarded: sodium_free(storage.baseAddress)
        }
    }

    /// The number of bytes.
    package var count: Int { storage.count }

    /// Calls `body` with the bytes, which are valid during the call only.
    package func withUnsafeBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try body(UnsafeRawBufferPointer(storage))
    }

    /// Calls `body` with a typed pointer for C functions.
    func withPointer<Result>(_ body: (UnsafePointer<UInt8>) -> Result) -> Result {
        // Safe: secrets are never empty.
        body(UnsafePointer(storage.assumingMemoryBound(to: UInt8.self).baseAddress!))
    }
}

extension SecretBytes: CustomStringConvertible, CustomReflectable {
    package var description: String { "(secret)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// Compares bytes in a time that does not depend on where they differ.
package func constantTimeEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
    left.count == right.count && sodium_memcmp(left, right, left.count) == 0
}
