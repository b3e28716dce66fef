package import NearshareBase
package import NearshareCrypto

/// The proof that a peer whose code was scanned holds both of its keys (bitchat specification, section 9.4).
package enum MeshVerification {
    /// Size of the nonce that the challenged peer signs.
    package static let nonceByteCount = 16

    /// The request to a peer whose code was scanned.
    package struct Challenge: Sendable, Hashable {
        /// 64 hexadecimal digits: the key that is challenged.
        package var noiseKeyHex: String
        /// ``nonceByteCount`` bytes.
        package var nonce: [UInt8]

        package init(noiseKeyHex: String, nonce: [UInt8]) {
            self.noiseKeyHex = noiseKeyHex
            self.nonce = nonce
        }

        func encoded() throws(MalformedInput) -> [UInt8] { try fields().bytes }

        fileprivate func fields() throws(MalformedInput) -> TLVFields {
            var fields = TLVFields(of: "verification")
            try fields.append(0x01, noiseKeyHex.utf8)
            try fields.append(0x02, nonce)
            return fields
        }

        init(decoding body: ArraySlice<UInt8>) throws(MalformedInput) {
            (self, _) = try MeshVerification.decode(body)
        }
    }

    /// The answer to a challenge.
    package struct Response: Sendable, Hashable {
        package var challenge: Challenge
        /// Ed25519 over ``signedBytes(_:)``, 64 bytes.
        package var signature: [UInt8]

        package init(challenge: Challenge, signature: [UInt8]) {
            self.challenge = challenge
            self.signature = signature
        }

        func encoded() throws(MalformedInput) -> [UInt8] {
            var fields = try challenge.fields()
            try fields.append(0x03, signature)
            return fields.bytes
        }

        init(decoding body: ArraySlice<UInt8>) throws(MalformedInput) {
            let (challenge, signature) = try MeshVerification.decode(body)
            guard let signature else { throw MalformedInput("verification: the signature is missing") }
            self.init(challenge: challenge, signature: signature)
        }
    }

    /// The bytes that the answer's signature covers.
    package static func signedBytes(_ challenge: Challenge) -> [UInt8] {
        Array("bitchat-verify-resp-v1".utf8) + [UInt8(truncatingIfNeeded: challenge.noiseKeyHex.utf8.count)]
            + Array(challenge.noiseKeyHex.utf8) + challenge.nonce
    }

    private static func decode(_ body: ArraySlice<UInt8>) throws(MalformedInput) -> (Challenge, [UInt8]?) {
        var key: String?
        var nonce: [UInt8]?
        var signature: [UInt8]?
        for (kind, value) in try TLVFields.decode(body, of: "verification") {
            switch kind {
            case 0x01: key = value.count == 64 ? String(validating: value, as: UTF8.self) : nil
            case 0x02: nonce = value.count == nonceByteCount ? Array(value) : nil
            case 0x03: signature = value.count == MeshPacket.signatureByteCount ? Array(value) : nil
            default: continue
            }
        }
        guard let key, Hex.decode(key) != nil, let nonce else { throw MalformedInput("verification: a field is missing") }
        return (Challenge(noiseKeyHex: key, nonce: nonce), signature)
    }
}

/// A verification code: a signed address that a peer shows to a camera (section 9.4).
package struct MeshVerificationCode: Sendable, Hashable {
    /// Limit on the age of a code.
    package static let lifetime = Duration.seconds(300)

    /// The static key, in hexadecimal digits.
    package var noiseKeyHex: String
    /// The signing key, in hexadecimal digits.
    package var signingKeyHex: String
    /// The name that the owner claims.
    package var nickname: String
    /// Seconds since 1970.
    package var time: Int64
    /// base64url of 16 bytes, without padding.
    package var nonce: String
    /// The peer's Nostr key, which this implementation does not use.
    package var nostrKey: String?

    package init(
        noiseKeyHex: String, signingKeyHex: String, nickname: String, time: Int64, nonce: String, nostrKey: String? = nil
    ) {
        self.noiseKeyHex = noiseKeyHex
        self.signingKeyHex = signingKeyHex
        self.nickname = nickname
        self.time = time
        self.nonce = nonce
        self.nostrKey = nostrKey
    }

    /// The bytes that the signature covers: each part after one byte for its length.
    /// - Throws: ``MalformedInput`` when a part is longer than 255 bytes.
    package func signedBytes() throws(MalformedInput) -> [UInt8] {
        var writer = ByteWriter()
        let parts = ["bitchat-verify-v1", "1", noiseKeyHex, signingKeyHex, nostrKey ?? "", nickname, String(time), nonce]
        for part in parts {
            guard part.utf8.count <= 255 else { throw MalformedInput("verification code: a part is longer than 255 bytes") }
            writer.writeCounted(part.utf8, by: UInt8.self)
        }
        return writer.bytes
    }

    /// - Parameter signature: Ed25519 over ``signedBytes()``, 64 bytes.
    package func address(signature: [UInt8]) -> String {
        var address =
            "bitchat://verify?v=1&noise=\(noiseKeyHex)&sign=\(signingKeyHex)&nick=\(Self.escaped(nickname))"
            + "&ts=\(time)&nonce=\(nonce)&sig=\(Hex.encode(signature))"
        if let nostrKey { address += "&npub=\(Self.escaped(nostrKey))" }
        return address
    }

    /// Decodes a scanned address; its signature remains to be checked against ``signingKeyHex``.
    package static func decode(address: String) throws(MalformedInput) -> (code: MeshVerificationCode, signature: [UInt8]) {
        let start = "bitchat://verify?"
        guard address.utf8.count <= 2048, address.hasPrefix(start) else {
            throw MalformedInput("verification code: it does not belong to bitchat")
        }
        var values: [String: String] = [:]
        for part in address.dropFirst(start.count).split(separator: "&") {
            let pair = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard pair.count == 2, let value = unescaped(pair[1]) else { throw MalformedInput("verification code: malformed") }
            values[String(pair[0])] = value
        }
        guard values["v"] == "1", let noise = values["noise"], Hex.decode(noise)?.count == 32, let sign = values["sign"],
            Hex.decode(sign)?.count == 32, let nick = values["nick"], nick.utf8.count <= 255,
            values["npub"].map({ $0.utf8.count <= 255 }) != false,
            let time = values["ts"].flatMap({ Int64($0) }), let nonce = values["nonce"], isNonce(nonce),
            let signature = values["sig"].flatMap({ Hex.decode($0) }), signature.count == MeshPacket.signatureByteCount
        else { throw MalformedInput("verification code: a part is missing or malformed") }
        let code = MeshVerificationCode(
            noiseKeyHex: noise, signingKeyHex: sign, nickname: nick, time: time, nonce: nonce, nostrKey: values["npub"])
        return (code, signature)
    }

    // MARK: Keys

    /// The address of this node's own code.
    /// - Parameter nonce: 16 random bytes.
    package static func address(of identity: LocalIdentity, name: DisplayName, nonce: [UInt8], now: WallTime) -> String? {
        let code = MeshVerificationCode(
            noiseKeyHex: Hex.encode(identity.agreementKey.publicKey.bytes),
            signingKeyHex: Hex.encode(identity.signingKey.publicKey.bytes), nickname: name.claimed,
            time: now.milliseconds / 1_000, nonce: BaseEncoding.base64URL.encode(nonce))
        return (try? code.signedBytes()).map { code.address(signature: identity.signingKey.signature(for: $0)) }
    }

    /// Decodes an address, and checks its signature and its age.
    /// - Throws: ``MalformedInput`` also for a code that is older than ``lifetime``, or as far in the future.
    package static func decode(address: String, now: WallTime) throws(MalformedInput) -> MeshVerificationCode {
        let (code, signature) = try decode(address: address)
        guard let key = code.signingKey, code.agreementKey != nil, key.isValid(signature, for: try code.signedBytes()) else {
            throw MalformedInput("verification code: its signature is not valid")
        }
        let (age, overflow) = (now.milliseconds / 1_000).subtractingReportingOverflow(code.time)
        guard !overflow, age.magnitude <= lifetime.components.seconds.magnitude else {
            throw MalformedInput("verification code: it is older than five minutes, or the clocks differ; show a new one")
        }
        return code
    }

    /// The agreement key; nil for bytes that are none.
    package var agreementKey: AgreementPublicKey? { Hex.decode(noiseKeyHex).flatMap { try? AgreementPublicKey($0) } }

    /// The signing key; nil for bytes that are none.
    package var signingKey: SigningPublicKey? { Hex.decode(signingKeyHex).flatMap { try? SigningPublicKey($0) } }

    /// Whether a response proves, inside a session with its sender, that the owner of this code holds both keys.
    package func isProven(
        by response: MeshVerification.Response, to challenge: MeshVerification.Challenge, of peer: AuthenticatedPeer
    ) -> Bool {
        response.challenge == challenge && peer.key == agreementKey
            && signingKey?.isValid(response.signature, for: MeshVerification.signedBytes(challenge)) == true
    }

    /// Whether the text is 22 characters of base64url, which encode 16 bytes (RFC 4648, section 5).
    private static func isNonce(_ text: String) -> Bool {
        let others = "0123456789-_".utf8
        return text.utf8.count == 22 && text.utf8.allSatisfy { isLetter($0) || others.contains($0) }
    }

    /// Percent-encodes all but unreserved characters (RFC 3986, section 2.1).
    private static func escaped(_ text: String) -> String {
        text.utf8.map { byte in
            let scalar = Unicode.Scalar(byte)
            let isPlain = scalar.properties.isASCIIHexDigit || "-._~".unicodeScalars.contains(scalar) || isLetter(byte)
            return isPlain ? String(Character(scalar)) : "%" + Hex.encode([byte]).uppercased()
        }.joined()
    }

    private static func isLetter(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20) && byte < 0x80
    }

    private static func unescaped(_ text: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard rest.count >= 2, let value = Hex.decode(String(decoding: rest.prefix(2), as: UTF8.self)) else { return nil }
            bytes += value
            rest = rest.dropFirst(2)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
