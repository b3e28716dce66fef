internal import NearshareBase
internal import NearshareCrypto

/// The payload of a sealed body: secret 16 · length u16 · content · zeros.
enum SealedPayload {
    /// Seals payloads from one sender to one recipient, each as a Noise X message.
    struct Sealer {
        let prologue: [UInt8]
        let sender: AgreementPrivateKey
        let recipient: AgreementPublicKey
        /// Used once.
        let ephemeral: [UInt8]

        func callAsFunction(_ payload: [UInt8]) -> [UInt8] {
            // Safe: sealing fails only for a key that is no point of the curve, which ``AgreementPublicKey`` excludes.
            try! OneWayMessage.seal(payload, prologue: prologue, from: sender, to: recipient, ephemeral: ephemeral)
        }
    }

    /// The prologue that binds a body to the limits, the destination and the sender of its bundle.
    static func prologue(of bundle: Bundle) -> [UInt8] {
        Array("nearshare carried message".utf8) + bundle.encodedHeader
    }

    static func padded(_ content: [UInt8], secret: [UInt8]) -> [UInt8] {
        var writer = ByteWriter(reserving: content.count + 256)
        writer.write(secret)
        writer.writeCounted(content, by: UInt16.self)
        let target = paddedByteCount(writer.bytes.count)
        return writer.bytes + [UInt8](repeating: 0, count: target - writer.bytes.count)
    }

    static func unpadded(_ payload: [UInt8]) throws(MalformedInput) -> (secret: [UInt8], content: [UInt8]) {
        var reader = ByteReader(payload, of: "sealed payload")
        let secret = Array(try reader.readBytes(BundleAcknowledgement.secretByteCount))
        let content = Array(try reader.readCounted(by: UInt16.self, upTo: Bundle.maximumBodyByteCount, field: "the content"))
        return (secret, content)
    }

    /// Padmé (Nikitin et al., "Reducing Metadata Leakage from Encrypted Files and Communication with PURBs", 2019, section
    /// 4.4): a length reveals O(log log n) bits, for at most an eighth more bytes. At least 96 bytes, so that short texts have
    /// the same length.
    static func paddedByteCount(_ count: Int) -> Int {
        let count = max(count, 96)
        let exponent = Int.bitWidth - 1 - count.leadingZeroBitCount
        let mantissa = Int.bitWidth - exponent.leadingZeroBitCount
        let mask = (1 << (exponent - mantissa)) - 1
        return (count + mask) & ~mask
    }
}
