import NearshareBase
import NearshareCrypto
import NearshareDirect
import NearshareTesting
import Testing

@Suite struct DirectHandshakeTests {
    static let ada = LocalIdentity(seed: [UInt8](repeating: 1, count: 64))
    static let bea = LocalIdentity(seed: [UInt8](repeating: 2, count: 64))

    struct Side {
        var handshake: DirectHandshake
        var established: EstablishedLink?
        var failure: HandshakeFailure?

        init(
            _ role: HandshakeRole, _ identity: LocalIdentity, ciphers: CipherSet = CipherSet(rawValue: 6),
            encryption: EncryptionPreference = .required,
            versions: Preamble = .supported
        ) {
            handshake = DirectHandshake(
                role: role, identity: identity,
                entropy: [UInt8](repeating: role == .initiator ? 3 : 4, count: DirectHandshake.entropyByteCount),
                ciphers: ciphers,
                encryption: encryption, versions: versions)
        }

        /// - Returns: The bytes of the answer.
        mutating func take(_ bytes: some Sequence<UInt8>) -> [UInt8] {
            switch handshake.receive(bytes) {
            case .needsMoreBytes: return []
            case .send(let bytes): return bytes
            case .established(let link, let bytes):
                established = link
                return bytes
            case .failed(let why, let bytes):
                failure = why
                return bytes
            }
        }
    }

    /// Exchanges messages until neither side has one to send.
    private func run(_ initiator: inout Side, _ responder: inout Side, piece: Int, tamper: (inout [UInt8]) -> Void = { _ in })
        throws
    {
        var toResponder = try initiator.handshake.start()
        tamper(&toResponder)
        _ = try responder.handshake.start()
        var toInitiator: [UInt8] = []
        while !toResponder.isEmpty || !toInitiator.isEmpty {
            let chunk = toResponder.prefix(piece)
            toResponder.removeFirst(chunk.count)
            toInitiator += responder.take(chunk)
            let back = toInitiator.prefix(piece)
            toInitiator.removeFirst(back.count)
            toResponder += initiator.take(back)
        }
    }

    @Test("R5: the handshake is the same for any division of the bytes", arguments: [1, 2, 3, 7, 64, 4096])
    func cutAnywhere(piece: Int) throws {
        var (initiator, responder) = (Side(.initiator, Self.ada), Side(.responder, Self.bea))
        try run(&initiator, &responder, piece: piece)
        let initiatorSide = try #require(initiator.established)
        let responderSide = try #require(responder.established)
        #expect(initiatorSide.peer.fingerprint == Self.bea.fingerprint)
        #expect(responderSide.peer.fingerprint == Self.ada.fingerprint)
        #expect(initiatorSide.handshakeHash == responderSide.handshakeHash)
        #expect(initiatorSide.version == 2 && responderSide.version == 2)
        #expect(initiatorSide.leftover.isEmpty && responderSide.leftover.isEmpty)
        var sealer = initiatorSide.sealer
        var opener = responderSide.opener
        var record = sealer.seal([1, 2, 3])
        let frame = try record.withUnsafeMutableBytes { try opener.openInPlace($0) }
        #expect(Array(record[frame]) == [1, 2, 3])
    }

    @Test(
        "the chosen cipher is fast on both sides",
        arguments: [(6, 6, 1), (6, 4, 2), (4, 6, 2), (4, 4, 2), (0, 0, 2), (2, 2, 1)]
            as [(UInt8, UInt8, UInt8)])
    func ciphers(_ example: (UInt8, UInt8, UInt8)) throws {
        var (initiator, responder) = (
            Side(.initiator, Self.ada, ciphers: CipherSet(rawValue: example.0)),
            Side(.responder, Self.bea, ciphers: CipherSet(rawValue: example.1))
        )
        try run(&initiator, &responder, piece: 100)
        #expect(initiator.established?.cipher.rawValue == example.2)
        #expect(responder.established?.cipher.rawValue == example.2)
    }

    @Test func `bytes that follow the handshake are kept`() throws {
        var (initiator, responder) = (Side(.initiator, Self.ada), Side(.responder, Self.bea))
        let second = responder.take(try initiator.handshake.start())
        let third = initiator.take(second)
        _ = responder.take(third + [7, 8, 9])
        #expect(responder.established?.leftover == [7, 8, 9])
    }

    @Test("K12: both sides report a missing common version, with advice") func incompatible() throws {
        var responder = Side(.responder, Self.bea)
        let answer = responder.take(Preamble(newest: 9, oldest: 7).encoded)
        #expect(answer == Preamble.supported.encoded)
        #expect(responder.failure == .incompatible(remote: Preamble(newest: 9, oldest: 7)))
        #expect(
            responder.failure?.description
                == "the peer supports versions 7 to 9 of the protocol, this machine versions 1 to 2; update the older of the two"
        )
        var initiator = Side(.initiator, Self.ada)
        _ = try initiator.handshake.start()
        #expect(initiator.take(Preamble(newest: 9, oldest: 7).encoded).isEmpty)
        #expect(initiator.failure == .incompatible(remote: Preamble(newest: 9, oldest: 7)))
        #expect(initiator.take([1, 2, 3]).isEmpty, "after a failure nothing is answered")
    }

    @Test("K12: an altered list of versions is detected") func downgrade() throws {
        var (initiator, responder) = (Side(.initiator, Self.ada), Side(.responder, Self.bea))
        try run(&initiator, &responder, piece: 100) { $0[4] = 3 }
        #expect(initiator.established == nil && responder.established == nil)
        guard case .notAuthentic? = initiator.failure else {
            Issue.record("the initiator should have noticed")
            return
        }
    }

    @Test(
        "R9: protocols are told apart by the first bytes",
        arguments: ["GET / HTTP/1.1", "SSH-2.0", "\u{16}\u{3}", "NSHX", "x"])
    func otherProtocols(_ text: String) {
        var responder = Side(.responder, Self.bea)
        #expect(responder.take(Array(text.utf8)).isEmpty)
        #expect(responder.failure == .notNearshare)
    }

    @Test("R7: a too long handshake message is rejected before it has arrived") func tooLong() {
        var responder = Side(.responder, Self.bea)
        #expect(responder.take(Preamble.supported.encoded + [0x04, 0x01]).isEmpty)
        #expect(responder.failure == .protocolViolation("a handshake message of 1025 bytes"))
        responder = Side(.responder, Self.bea)
        _ = responder.take(Preamble.supported.encoded + [0x04, 0x00])
        #expect(responder.failure == nil)
    }

    @Test("R7: a first message with a payload is not answered") func payload() throws {
        var (initiator, responder) = (Side(.initiator, Self.ada), Side(.responder, Self.bea))
        var bytes = try initiator.handshake.start()
        let length = Preamble.supported.encoded.count + 1
        #expect(bytes[length] == 32)
        bytes[length] = 33
        #expect(responder.take(bytes + [0]).isEmpty)
        #expect(responder.failure == .protocolViolation("the first message has a payload"))
    }

    @Test(
        "K12: the newest version of both is spoken",
        arguments: [(1, 1, 1), (1, 2, 1), (2, 1, 1), (2, 2, 2)] as [(UInt8, UInt8, UInt8)])
    func versions(_ example: (UInt8, UInt8, UInt8)) throws {
        var (ada, bea) = (
            Side(.initiator, Self.ada, versions: Preamble(newest: example.0, oldest: 1)),
            Side(.responder, Self.bea, versions: Preamble(newest: example.1, oldest: 1))
        )
        try run(&ada, &bea, piece: 500)
        let initiatorSide = try #require(ada.established)
        let responderSide = try #require(bea.established)
        #expect(initiatorSide.version == example.2 && responderSide.version == example.2)
        var (sealer, opener) = (initiatorSide.sealer, responderSide.opener)
        var record = sealer.seal([1, 2, 3])
        let frame = try record.withUnsafeMutableBytes { try opener.openInPlace($0) }
        #expect(Array(record[frame]) == [1, 2, 3])
        var (sending, receiving) = (initiatorSide.datagrams, responderSide.datagrams)
        let packet = try sending.seal([4, 5])
        let opened = try receiving.open(packet[...])
        #expect(opened == [4, 5])
    }

    @Test("K13: a change of any byte of any message ends the handshake", arguments: [1, 2] as [UInt8])
    func tampering(version: UInt8) throws {
        let versions = Preamble(newest: version, oldest: 1)
        for message in 0..<3 {
            var index = 0
            while true {
                var (initiator, responder) = (
                    Side(.initiator, Self.ada, versions: versions), Side(.responder, Self.bea, versions: versions)
                )
                var bytes = try initiator.handshake.start()
                func change(_ number: Int, _ bytes: inout [UInt8]) -> Bool {
                    guard number == message else { return true }
                    guard index < bytes.count else { return false }
                    bytes[index] ^= 1
                    return true
                }
                guard change(0, &bytes) else { break }
                var answer = responder.take(bytes)
                guard change(1, &answer) else { break }
                var last = initiator.take(answer)
                guard change(2, &last) else { break }
                _ = responder.take(last)
                // The last bytes of a preamble are ignored by readers; those of the first one are authenticated.
                let isReserved = message == 1 && (6...7).contains(index)
                #expect((responder.established != nil) == isReserved, "message \(message), byte \(index)")
                // Not each byte of a key of ML-KEM, which would take half a minute.
                index += version == 1 || index < 64 ? 1 : 13
            }
            #expect(index > 40)
        }
    }

    @Test("K9: a link of a node to itself is refused") func ourselves() throws {
        var (initiator, responder) = (Side(.initiator, Self.ada), Side(.responder, Self.ada))
        try run(&initiator, &responder, piece: 100)
        #expect(initiator.failure == .ownKey)
        #expect(responder.established == nil)
    }

    @Test("R7: arbitrary input never terminates the process", arguments: seeds(0..<200)) func garbage(seed: UInt64)
        throws
    {
        var random = SeededRandom(seed: seed)
        var (initiator, responder) = (Side(.initiator, Self.ada), Side(.responder, Self.bea))
        let first = try initiator.handshake.start().mutated(using: &random)
        let second = responder.take(first).mutated(using: &random)
        _ = responder.take(initiator.take(second).mutated(using: &random))
        _ = responder.take(random.bytes(100))
        #expect(responder.established == nil || initiator.established != nil, "seed \(seed)")
    }

    @Test("the result of each pair of encryption preferences; both sides learn of a refusal") func encryptionTable() throws {
        for initiator in EncryptionPreference.allCases {
            for responder in EncryptionPreference.allCases {
                var (ada, bea) = (
                    Side(.initiator, Self.ada, encryption: initiator), Side(.responder, Self.bea, encryption: responder)
                )
                try run(&ada, &bea, piece: 4096)
                let expected: RecordCipher.Kind? =
                    switch (initiator, responder) {
                    case (.required, .none), (.none, .required): nil
                    case (.none, _), (_, .none): .authenticatedOnly
                    default: .aes256GCM
                    }
                #expect(ada.established?.cipher == expected && bea.established?.cipher == expected)
                #expect(
                    (ada.failure == .encryptionMismatch) == (expected == nil)
                        && (bea.failure == .encryptionMismatch) == (expected == nil))
            }
        }
    }

    @Test(
        "K12: no change of any bit turns off encryption or the newer version between two peers that allow it",
        arguments: [1, 2] as [UInt8])
    func noDowngrade(version: UInt8) throws {
        let versions = Preamble(newest: version, oldest: 1)
        for message in 0..<3 {
            var bit = 0
            while true {
                var (ada, bea) = (
                    Side(.initiator, Self.ada, encryption: .optional, versions: versions),
                    Side(.responder, Self.bea, encryption: .optional, versions: versions)
                )
                func change(_ number: Int, _ bytes: [UInt8]) -> [UInt8]? {
                    guard number == message else { return bytes }
                    guard bit < bytes.count * 8 else { return nil }
                    var changed = bytes
                    changed[bit / 8] ^= 1 << UInt8(bit % 8)
                    return changed
                }
                guard let first = change(0, try ada.handshake.start()), let second = change(1, bea.take(first)),
                    let third = change(2, ada.take(second))
                else { break }
                _ = bea.take(third)
                for side in [ada, bea] {
                    #expect(side.established?.cipher != .authenticatedOnly, "message \(message), bit \(bit)")
                    #expect(side.established.map { $0.version == version } ?? true, "message \(message), bit \(bit)")
                }
                // Not each bit of a key of ML-KEM, which would take minutes.
                bit += version == 1 || bit < 64 * 8 ? 1 : 101
            }
            #expect(bit > 40 * 8)
        }
    }

    @Test("K12: without encryption, altered data is still detected") func openButAuthentic() throws {
        var (ada, bea) = (Side(.initiator, Self.ada, encryption: .none), Side(.responder, Self.bea, encryption: .none))
        try run(&ada, &bea, piece: 4096)
        var sealer = try #require(ada.established).sealer
        let opener = try #require(bea.established).opener
        let record = sealer.seal(Array("in the open".utf8))
        #expect(record.firstRange(of: Array("in the open".utf8)) != nil)
        for index in record.indices.dropFirst(4) {
            var altered = record
            altered[index] ^= 1
            var fresh = opener
            #expect(throws: (any Error).self) { try altered.withUnsafeMutableBytes { _ = try fresh.openInPlace($0) } }
        }
        var whole = record
        var fresh = opener
        let frame = try whole.withUnsafeMutableBytes { raw in Array(raw[try fresh.openInPlace(raw)]) }
        #expect(frame == Array("in the open".utf8))
    }
}
