internal import CSodium

/// Bytes that are erased when the last reference goes: for keys. Never shown, never compared in variable time.
public final class SecretBytes: Sendable {
    // Written once, in init.
    nonisolated(unsafe) private let storage: UnsafeMutableRawBufferPointer

    /// Copies the bytes; erasing the original is the caller's part.
    public init(_ bytes: some Collection<UInt8>) {
        Sodium.requireReady()
        storage = .allocate(byteCount: bytes.count, alignment: 16)
        storage.copyBytes(from: bytes)
    }

    deinit {
        sodium_memzero(storage.baseAddress, storage.count)
        storage.deallocate()
    }

    public var count: Int { storage.count }

    public func withUnsafeBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try body(UnsafeRawBufferPointer(storage))
    }
}

extension SecretBytes: CustomStringConvertible, CustomReflectable {
    public var description: String { "(secret)" }
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// Comparing without telling by the time it takes where the first difference is.
public func constantTimeEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
    left.count == right.count && sodium_memcmp(left, right, left.count) == 0
}
