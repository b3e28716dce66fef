internal import CSodium
internal import Crypto

/// SHA-256, 32 bytes (FIPS 180-4), in one go or piece by piece.
package struct SHA256Hasher: Sendable {
    package static let byteCount = 32
    private var state = Crypto.SHA256()

    package init() {}

    package mutating func update(_ bytes: UnsafeRawBufferPointer) {
        state.update(bufferPointer: bytes)
    }

    package consuming func finalize() -> [UInt8] {
        Array(state.finalize())
    }

    package static func digest(_ bytes: [UInt8]) -> [UInt8] {
        var hasher = SHA256Hasher()
        bytes.withUnsafeBytes { hasher.update($0) }
        return hasher.finalize()
    }
}

/// HMAC-SHA256 (RFC 2104), with keys of any length.
package enum HMAC {
    package static let byteCount = 32

    package static func authenticationCode(for message: [UInt8], key: [UInt8]) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: byteCount) { output, count in
            message.withUnsafeBytes { message in
                key.withUnsafeBytes { write([message], key: $0, to: UnsafeMutableRawBufferPointer(output)) }
            }
            count = byteCount
        }
    }

    /// - Parameters:
    ///   - parts: authenticated as if they were one.
    ///   - output: ``byteCount`` bytes; may be among the parts.
    static func write(_ parts: [UnsafeRawBufferPointer], key: UnsafeRawBufferPointer, to output: UnsafeMutableRawBufferPointer)
    {
        precondition(output.count >= byteCount)
        // Keys are filled up with zero bytes, so one of them stands for an empty key, which may have no address.
        guard !key.isEmpty else { return withUnsafeBytes(of: UInt8(0)) { write(parts, key: $0, to: output) } }
        Sodium.requireReady()
        var state = crypto_auth_hmacsha256_state()
        defer { withUnsafeMutableBytes(of: &state) { sodium_memzero($0.baseAddress, $0.count) } }
        crypto_auth_hmacsha256_init(&state, key.assumingMemoryBound(to: UInt8.self).baseAddress!, key.count)
        for part in parts where !part.isEmpty {
            crypto_auth_hmacsha256_update(&state, part.assumingMemoryBound(to: UInt8.self).baseAddress, UInt64(part.count))
        }
        crypto_auth_hmacsha256_final(&state, output.assumingMemoryBound(to: UInt8.self).baseAddress!)
    }
}

/// HKDF with SHA-256 (RFC 5869). libsodium 1.0.18 has none.
package enum HKDF {
    /// For what is no secret, or leaves this module's care anyway.
    /// - Parameter byteCount: at most 255 times 32.
    package static func derive(from input: [UInt8], salt: [UInt8], info: [UInt8], byteCount: Int) -> [UInt8] {
        let output = salt.withUnsafeBytes { salt in
            input.withUnsafeBytes { derive(from: $0, salt: salt, info: info, byteCount: byteCount) }
        }
        return output.withUnsafeBytes { Array($0) }
    }

    /// As the Noise specification uses it (section 4.3): the chaining key as salt, no info, and 64 bytes are two keys.
    /// - Parameter input: nil for no bytes at all.
    package static func noise(chainingKey: SecretBytes, input: SecretBytes?) -> (SecretBytes, SecretBytes) {
        let output = chainingKey.withUnsafeBytes { salt in
            let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
            guard let input else { return derive(from: nothing, salt: salt, info: [], byteCount: 64) }
            return input.withUnsafeBytes { derive(from: $0, salt: salt, info: [], byteCount: 64) }
        }
        return output.withUnsafeBytes { (SecretBytes($0[..<32]), SecretBytes($0[32...])) }
    }

    /// The second half of ``derive(from:salt:info:byteCount:)`` alone, for keys that are uniform already.
    static func expand(_ key: UnsafeRawBufferPointer, info: [UInt8], byteCount: Int) -> SecretBytes {
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
