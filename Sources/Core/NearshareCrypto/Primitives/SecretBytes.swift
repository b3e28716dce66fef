internal import CSodium

/// Bytes that are erased when the last reference goes: for keys. Never shown, never compared in variable time.
package final class SecretBytes: Sendable {
    /// Where the bytes stand while they live.
    package enum Memory: Sendable {
        /// For keys that come and go with a link.
        case heap
        /// Between guard pages, kept out of core dumps, and out of swap where the limit on locked memory allows it (K5). Four
        /// mappings each, of which a process has some 65,000: for a machine's few long-term keys.
        case guarded
    }

    // Written once, in init.
    nonisolated(unsafe) private let storage: UnsafeMutableRawBufferPointer
    private let memory: Memory

    /// - Parameter write: fills all of the memory.
    init(byteCount: Int, in memory: Memory = .heap, _ write: (UnsafeMutableRawBufferPointer) -> Void) {
        Sodium.requireReady()
        self.memory = memory
        switch memory {
        case .heap: storage = .allocate(byteCount: byteCount, alignment: 16)
        case .guarded:
            guard let start = sodium_malloc(byteCount) else { fatalError("no memory left for a key") }
            storage = UnsafeMutableRawBufferPointer(start: start, count: byteCount)
        }
        write(storage)
    }

    /// Copies the bytes; erasing the original is the caller's part.
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

    package var count: Int { storage.count }

    package func withUnsafeBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try body(UnsafeRawBufferPointer(storage))
    }

    /// As C wants them.
    func withPointer<Result>(_ body: (UnsafePointer<UInt8>) -> Result) -> Result {
        body(UnsafePointer(storage.assumingMemoryBound(to: UInt8.self).baseAddress!))
    }
}

extension SecretBytes: CustomStringConvertible, CustomReflectable {
    package var description: String { "(secret)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// Comparing without telling by the time it takes where the first difference is.
package func constantTimeEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
    left.count == right.count && sodium_memcmp(left, right, left.count) == 0
}
