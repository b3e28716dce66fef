internal import CSodium

/// HKDF with SHA-256 (RFC 5869), which libsodium 1.0.18 does not provide.
package enum HKDF {
    /// Extract and expand, for output that need not stay in ``SecretBytes``.
    /// - Parameter byteCount: At most 255 × 32.
    package static func derive(from input: [UInt8], salt: [UInt8], info: [UInt8], byteCount: Int) -> [UInt8] {
        let output = salt.withUnsafeBytes { salt in
            input.withUnsafeBytes { derive(from: $0, salt: salt, info: info, byteCount: byteCount) }
        }
        return output.withUnsafeBytes { Array($0) }
    }

    /// The HKDF of the Noise specification (section 4.3) with two outputs: the chaining key is the salt, and there is no info.
    /// - Parameter input: The input key material; nil for zero bytes.
    package static func noise(chainingKey: SecretBytes, input: SecretBytes?) -> (SecretBytes, SecretBytes) {
        let output = chainingKey.withUnsafeBytes { salt in
            let empty = UnsafeRawBufferPointer(start: nil, count: 0)
            guard let input else { return derive(from: empty, salt: salt, info: [], byteCount: 2 * HMAC.byteCount) }
            return input.withUnsafeBytes { derive(from: $0, salt: salt, info: [], byteCount: 2 * HMAC.byteCount) }
        }
        return output.withUnsafeBytes { (SecretBytes($0[..<HMAC.byteCount]), SecretBytes($0[HMAC.byteCount...])) }
    }

    /// The expand step alone, for keys that are uniformly random already.
    static func expand(_ key: UnsafeRawBufferPointer, info: [UInt8], byteCount: Int) -> SecretBytes {
        // Safe: the length is a constant of the callers.
        precondition(byteCount <= 255 * HMAC.byteCount)
        return SecretBytes(byteCount: byteCount) { output in
            withErasedBytes(HMAC.byteCount) { block in
                var previous = UnsafeRawBufferPointer(start: nil, count: 0)
                var number: UInt8 = 0
                var written = 0
                while written < byteCount {
                    number += 1
                    withUnsafeBytes(of: number) { number in
                        info.withUnsafeBytes { HMAC.write([previous, $0, number], key: key, to: block) }
                    }
                    previous = UnsafeRawBufferPointer(block)
                    let kept = min(HMAC.byteCount, byteCount - written)
                    UnsafeMutableRawBufferPointer(rebasing: output[written...]).copyMemory(
                        from: UnsafeRawBufferPointer(rebasing: previous[..<kept]))
                    written += kept
                }
            }
        }
    }

    private static func derive(
        from input: UnsafeRawBufferPointer, salt: UnsafeRawBufferPointer, info: [UInt8], byteCount: Int
    ) -> SecretBytes {
        withErasedBytes(HMAC.byteCount) { key in
            HMAC.write([input], key: salt, to: key)
            return expand(UnsafeRawBufferPointer(key), info: info, byteCount: byteCount)
        }
    }

    private static func withErasedBytes<Result>(_ count: Int, _ body: (UnsafeMutableRawBufferPointer) -> Result) -> Result {
        withUnsafeTemporaryAllocation(byteCount: count, alignment: 16) { bytes in
            defer { sodium_memzero(bytes.baseAddress, bytes.count) }
            return body(bytes)
        }
    }
}
