internal import NearshareBase

// Asking neighbours for what was missed (bitchat specification, section 10).
extension MeshRouter {
    mutating func requestSync(now: Moment) {
        for link in links.keys where links[link]!.nextSyncRequest <= now.monotonic {
            links[link]!.nextSyncRequest = now.monotonic + Self.syncInterval
            let packet = MeshPacket(
                type: .requestSync, ttl: 0, timestamp: timestamp(now), sender: id, payload: store.request.encoded[...])
            for id in peers.keys where peers[id]!.links.contains(link) { peers[id]!.askedForSync = now.monotonic }
            send(packet, signing: true, on: [link])
        }
    }

    /// An old packet from a neighbour whom we have asked, of the kinds that we ask for. Android does not say that it is one.
    func isSyncAnswer(_ packet: MeshPacket, from link: MeshLinkID, now: Moment) -> Bool {
        guard packet.ttl == 0, packet.type == .announce || packet.type == .message else { return false }
        let isAsked = peers.values.contains { record in
            record.links.contains(link) && record.askedForSync.map { now.monotonic - $0 <= Self.syncPatience } ?? false
        }
        let limit = packet.type == .message ? Self.messageLifetime : AnnouncementVerdict.maximumAge
        return isAsked && isBetween(packet.timestamp, limit, Self.clockTolerance, now: now)
    }

    /// Only for a neighbour who has signed the question, and not too often: an answer is larger than it (M2).
    mutating func answerSyncRequest(_ frame: MeshFrame, from link: MeshLinkID, now: Moment) {
        let sender = frame.packet.sender
        guard frame.packet.ttl == 0, let record = peers[sender], record.links.contains(link), let key = record.signingKey,
            isSigned(frame, by: key, from: link, now: now),
            let request = try? MeshSyncRequest(decoding: frame.packet.payload)
        else { return }
        let recent = record.syncAnswers.filter { now.monotonic - $0 < Self.syncPatience }
        guard recent.count < Self.syncAnswersAtOnce else { return }
        peers[sender]!.syncAnswers = recent + [now.monotonic]
        for missing in store.missing(for: request, limit: Self.syncAnswerLimit, byteLimit: Self.syncAnswerByteLimit) {
            var packet = missing.packet
            packet.ttl = 0
            packet.isSyncResponse = true
            // The signature covers neither, so it stays good.
            guard let bytes = try? packet.encoded() else { continue }
            write(bytes, of: packet, on: link, .relayed)
        }
    }

    private static let syncInterval = Duration.seconds(30)
    private static let syncPatience = Duration.seconds(30)
    private static let syncAnswersAtOnce = 8
    private static let syncAnswerLimit = 100
    private static let syncAnswerByteLimit = 256 << 10
    /// How old a public message may be that somebody missed (section 3).
    static let messageLifetime = Duration.seconds(21_600)
}
