import NearshareBase
import NearshareMesh
import NearshareTesting

/// Values that encoders and decoders of the mesh are tested with: each field at its limits, absent and present.
enum MeshSamples {
    static let sender = PeerID(hex: "0011223344556677")!
    static let recipient = PeerID(hex: "8899aabbccddeeff")!
    static let hops = [PeerID(hex: "0101010101010101")!, PeerID(hex: "0202020202020202")!]
    static let fragmentID = MeshFragment.ID(bytes: [1, 2, 3, 4, 5, 6, 7, 8])!
    static let key = (0..<32).map { UInt8($0) }
    static let signature = [UInt8](repeating: 0x5a, count: 64)
    /// Repetitive, so that it is compressed.
    static let text = [UInt8](repeating: UInt8(ascii: "x"), count: 300)

    static let packets: [MeshPacket] = [
        MeshPacket(type: .leave, ttl: 0, timestamp: 0, sender: sender, payload: []),
        MeshPacket(
            type: .message, ttl: 255, timestamp: .max, sender: sender, recipient: .broadcast, payload: text[...],
            signature: signature, isSyncResponse: true),
        MeshPacket(version: .v2, type: .message, timestamp: 1, sender: sender, payload: text[...], signature: signature),
        MeshPacket(
            version: .v2, type: .fileTransfer, timestamp: 1, sender: sender, recipient: recipient, route: hops,
            payload: key[...], signature: signature),
        MeshPacket(type: .noiseEncrypted, timestamp: 1, sender: sender, recipient: recipient, payload: key[...]),
        MeshPacket(type: MeshPacketType(rawValue: 0xee), timestamp: 1, sender: sender, payload: [1]),
    ]

    static let announcements: [MeshAnnouncement] = [
        MeshAnnouncement(nickname: "", noiseKey: key, signingKey: key),
        MeshAnnouncement(
            nickname: "Ada", noiseKey: key, signingKey: key, neighbours: hops, capabilities: .supported, bridgeGeohash: "u4pru"),
        MeshAnnouncement(nickname: String(repeating: "n", count: 255), noiseKey: [1], signingKey: [], capabilities: []),
    ]

    static let files: [MeshFile] = [
        MeshFile(name: "a.txt", mediaType: "text/plain", declaredSize: 3, content: [1, 2, 3]),
        MeshFile(name: nil, mediaType: nil, declaredSize: 0, content: []),
        MeshFile(name: "../\u{1b}[2J", mediaType: "", declaredSize: 5_242_880, content: text[...]),
    ]

    static let requests: [MeshSyncRequest] = [
        MeshSyncRequest(filter: GolombFilter(hashes: [])),
        MeshSyncRequest(
            filter: GolombFilter(hashes: [1, 2, 3, .max]), wanted: [.fragments, .files], since: 5, fragmentIDs: [fragmentID]),
    ]

    static let payloads: [MeshNoisePayload] = {
        let challenge = MeshVerification.Challenge(noiseKeyHex: Hex.encode(key), nonce: Array(key.prefix(16)))
        let fileID = MeshFileControl.FileID(bytes: key)!
        let offer = MeshFileOffer(
            id: fileID, size: 5_242_880, fragmentCount: 10_000, fragmentID: fragmentID,
            name: ClaimedFileName("photo.jpg")!, mediaType: "image/jpeg")
        let controls: [MeshFileControl] = [
            .offer(offer), .accept(fileID), .decline(fileID, .tooLarge), .stored(fileID), .cancel(fileID),
        ]
        let bursts: [MeshVoiceBurst.Content] = [
            .start, .frames([[1], [2, 3]]), .end(frameCount: 2, milliseconds: 40), .cancelled,
        ]
        return [
            .privateMessage(MeshPrivateMessage(id: "1", text: "Grüße")), .readReceipt(messageID: "1"),
            .delivered(messageID: ""),
            .verifyChallenge(challenge),
            .verifyResponse(MeshVerification.Response(challenge: challenge, signature: signature)),
            .file([1, 2, 3]), .peerState(MeshPeerState(capabilities: .supported, signingKey: key)),
        ] + controls.map { .fileControl($0) }
            + bursts.enumerated().map {
                .voiceFrame(MeshVoiceBurst(burst: fragmentID.bytes, sequence: UInt16($0.offset), content: $0.element))
            } + [.fileControl(.cancel(fileID, isExpired: true))]
    }()

    static let code = MeshVerificationCode(
        noiseKeyHex: Hex.encode(key), signingKeyHex: Hex.encode(key), nickname: "Ada & Zoë = %", time: 1_700_000_000,
        nonce: "AAECAwQFBgcICQoLDA0ODw", nostrKey: "npub1")
}
