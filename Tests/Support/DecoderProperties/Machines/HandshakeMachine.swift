import NearshareBase
import NearshareCrypto
import NearshareDirect

extension DecoderProperty {
    /// Two handshakes and the bytes between them, in pieces; an attacker on the path may change them.
    static let handshakes = Self(
        name: "handshakes",
        seeds: [
            // Both ends require encryption, with deliveries of nothing first, and without.
            [0, 0, 0, 0, 255, 0, 0, 255], [0, 0, 0],
            // Both leave it open; both want none.
            [1, 1, 7, 0, 3, 0, 0, 9, 0, 0, 200], [2, 2, 1],
        ]
    ) { bytes throws(Violation) in
        var script = EventScript(bytes, maximumEventCount: 64)
        let preferences = (0..<2).map { _ in EncryptionPreference.allCases[script.number(below: 3)] }
        var pair = HandshakeMachine(preferences, ciphers: CipherSet(rawValue: UInt8(script.number(below: 8))))
        while let event = script.nextEvent(below: 4) {
            let from = script.number(below: 2)
            if event == 0 {
                pair.deliver(script.number(below: 256), from: from)
            } else {
                pair.alter(event, at: script.number(below: 256), from: from, with: UInt8(script.number(below: 256)))
            }
        }
        for _ in 0..<8 { for from in 0..<2 { pair.deliver(.max, from: from) } }
        let links = pair.links
        if let first = links[0], let second = links[1] {
            try require(first.handshakeHash == second.handshakeHash, "two ends with different transcripts")
            try require(
                first.cipher == second.cipher && first.version == second.version, "two ends that agree on different things")
            try require(
                first.peer.fingerprint == pair.identities[1].fingerprint
                    && second.peer.fingerprint == pair.identities[0].fingerprint, "another peer than the one at the other end")
            if !pair.isAltered { try require(first.leftover.isEmpty && second.leftover.isEmpty, "bytes that nobody sent") }
        }
        try require(pair.isAltered || (links[0] == nil) == (links[1] == nil), "one end is established, the other is not")
        try require(
            pair.isAltered || (links[0] == nil) == (Set(preferences) == [.required, .none]),
            "\(preferences) give a link: \(links[0] != nil)")
        // An attacker on the path cannot remove the encryption.
        for (link, preference) in zip(links, preferences) where preference == .required {
            try require(link?.cipher != .authenticatedOnly, "a link in the clear, with encryption required")
        }
        return links.contains { $0 != nil }
    }
}

/// Two ends of a link that shake hands, and the bytes on the path between them.
private struct HandshakeMachine {
    let identities = [1, 2].map { LocalIdentity(seed: [UInt8](repeating: $0, count: LocalIdentity.seedByteCount)) }
    private(set) var links: [EstablishedLink?] = [nil, nil]
    private(set) var isAltered = false
    private var machines: [DirectHandshake] = []
    private var sent: [[UInt8]] = [[], []]
    private var isFailed = [false, false]

    init(_ preferences: [EncryptionPreference], ciphers: CipherSet) {
        for (side, role) in [HandshakeRole.initiator, .responder].enumerated() {
            machines.append(
                DirectHandshake(
                    role: role, identity: identities[side],
                    entropy: [UInt8](repeating: UInt8(side + 3), count: DirectHandshake.entropyByteCount),
                    ciphers: ciphers, encryption: preferences[side]))
        }
        sent[0] = (try? machines[0].start()) ?? []
    }

    mutating func alter(_ kind: Int, at position: Int, from side: Int, with byte: UInt8) {
        guard position < sent[side].count else { return }
        isAltered = true
        switch kind {
        case 1: sent[side][position] ^= 1 << (byte % 8)
        case 2: sent[side].insert(byte, at: position)
        default: sent[side].remove(at: position)
        }
    }

    mutating func deliver(_ count: Int, from side: Int) {
        let bytes = Array(sent[side].prefix(count))
        sent[side].removeFirst(bytes.count)
        guard !bytes.isEmpty, links[1 - side] == nil, !isFailed[1 - side] else { return }
        switch machines[1 - side].receive(bytes) {
        case .needsMoreBytes: break
        case .send(let answer): sent[1 - side] += answer
        case .established(let link, let answer):
            sent[1 - side] += answer
            links[1 - side] = link
        case .failed(_, let answer):
            sent[1 - side] += answer
            isFailed[1 - side] = true
        }
    }
}
