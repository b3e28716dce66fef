internal import CSodium

/// HMAC-SHA256 (RFC 2104), with keys of any length.
package enum HMAC {
    /// The size of an authentication code.
    package static let byteCount = 32

    /// Returns the authentication code of a message: ``byteCount`` bytes.
    package static func authenticationCode(for message: [UInt8], key: [UInt8]) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: byteCount) { output, count in
            message.withUnsafeBytes { message in
                key.withUnsafeBytes { write([message], key: $0, to: UnsafeMutableRawBufferPointer(output)) }
            }
            count = byteCount
        }
    }

    /// Writes the authentication code of a message.
    /// - Parameters:
    ///   - parts: The message, in pieces.
    ///   - key: of any length.
    ///   - output: ``byteCount`` bytes, which may overlap a part.
    static func write(_ parts: [UnsafeRawBufferPointer], key: UnsafeRawBufferPointer, to output: UnsafeMutableRawBufferPointer)
    {
        // Safe: the length is a constant of the callers.
        precondition(output.count == byteCount)
        // HMAC pads keys with zero bytes, so one zero byte is equivalent to an empty key, which may have no address.
        guard !key.isEmpty else { return withUnsafeBytes(of: UInt8(0)) { write(parts, key: $0, to: output) } }
        Sodium.requireReady()
        var state = crypto_auth_hmacsha256_state()
        defer { withUnsafeMutableBytes(of: &state) { sodium_memzero($0.baseAddress, $0.count) } }
        // Safe: neither is empty, by the guard and the precondition.
        crypto_auth_hmacsha256_init(&state, key.assumingMemoryBound(to: UInt8.self).baseAddress!, key.count)
        for part in parts where !part.isEmpty {
            crypto_auth_hmacsha256_update(&state, part.assumingMemoryBound(to: UInt8.self).baseAddress, UInt64(part.count))
        }
        // Safe: as above.
        crypto_auth_hmacsha256_final(&state, output.assumingMemoryBound(to: UInt8.self).baseAddress!)
    }
}
