internal import CSodium
internal import Crypto

/// SHA-256, 32 bytes (FIPS 180-4), in one go or piece by piece.
public struct SHA256Hasher: Sendable {
    public static let byteCount = 32
    private var state = Crypto.SHA256()

    public init() {}

    public mutating func update(_ bytes: UnsafeRawBufferPointer) {
        state.update(bufferPointer: bytes)
    }

    public consuming func finalize() -> [UInt8] {
        Array(state.finalize())
    }

    public static func digest(_ bytes: [UInt8]) -> [UInt8] {
        var hasher = SHA256Hasher()
        bytes.withUnsafeBytes { hasher.update($0) }
        return hasher.finalize()
    }
}

/// HMAC-SHA256 (RFC 2104), with keys of any length.
public enum HMAC {
    public static let byteCount = 32

    public static func authenticationCode(for message: [UInt8], key: [UInt8]) -> [UInt8] {
        Sodium.requireReady()
        var state = crypto_auth_hmacsha256_state()
        defer { withUnsafeMutableBytes(of: &state) { sodium_memzero($0.baseAddress, $0.count) } }
        var code = [UInt8](repeating: 0, count: byteCount)
        crypto_auth_hmacsha256_init(&state, key, key.count)
        crypto_auth_hmacsha256_update(&state, message, UInt64(message.count))
        crypto_auth_hmacsha256_final(&state, &code)
        return code
    }
}

/// HKDF with SHA-256 (RFC 5869). libsodium 1.0.18 has none.
public enum HKDF {
    /// - Parameter byteCount: at most 255 times 32.
    public static func derive(from input: [UInt8], salt: [UInt8], info: [UInt8], byteCount: Int) -> [UInt8] {
        expand(HMAC.authenticationCode(for: input, key: salt), info: info, byteCount: byteCount)
    }

    /// The second half alone, for keys that are uniform already.
    public static func expand(_ key: [UInt8], info: [UInt8], byteCount: Int) -> [UInt8] {
        precondition(byteCount <= 255 * HMAC.byteCount)
        var output: [UInt8] = []
        var block: [UInt8] = []
        var number: UInt8 = 0
        while output.count < byteCount {
            number += 1
            block = HMAC.authenticationCode(for: block + info + [number], key: key)
            output += block
        }
        return Array(output.prefix(byteCount))
    }
}
