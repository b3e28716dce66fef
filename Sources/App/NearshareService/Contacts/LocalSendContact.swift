package import Nearshare

/// A LocalSend device that the user has named where a nearshare peer is needed. Messages never reach it.
package struct LocalSendContact: Sendable {
    package let name: DisplayName

    /// The time for which a device that was seen in a list is remembered.
    private static let memoryMilliseconds: UInt64 = 3_600_000
    /// Timeout of the search for a nearshare peer of the same name.
    static let lookupTimeout = Duration.milliseconds(1_500)

    /// The device that a text selects.
    /// - Returns: nil where the text selects none, or a nearshare peer as well.
    init?(named text: String, trust: TrustStore, recent: RecentPeers, now: WallTime) {
        let known = trust.entries.filter { $0.value.trust != .blocked }.map { Candidate($0.key, $0.value) }
        let oldest = now.unixMilliseconds - min(now.unixMilliseconds, Self.memoryMilliseconds)
        let seen = recent.entries
            .filter { $0.lastSeen.unixMilliseconds >= oldest && trust.entry(claiming: $0.id) == nil }.map(Candidate.init)
        let found =
            switch NameMatch(of: text, among: known + seen) {
            case .none: [Candidate]()
            case .one(let candidate): [candidate]
            case .several(let candidates): candidates
            }
        guard let first = found.first, found.allSatisfy(\.isLocalSend) else { return nil }
        name = first.name
    }

    /// The reason why no message is sent to it, and what can be sent.
    var refusal: ControlFailure {
        ControlFailure(
            .refused,
            "\(name.shown) has LocalSend, which takes files and texts, but no messages: `nearshare send --text` sends a text")
    }

    /// The reason why its certificate is not compared yet.
    package var verificationRefusal: CommandFailure {
        CommandFailure(
            .usage,
            "\(name.shown) has LocalSend, whose certificate is remembered at the first transfer: send something to it, and "
                + "verify it then")
    }

    private struct Candidate: NamedPeer {
        let id: PeerID
        let name: DisplayName
        let isLocalSend: Bool

        init(_ fingerprint: Fingerprint, _ entry: TrustStore.Entry) {
            (id, name, isLocalSend) = (fingerprint.peerID, entry.name, entry.certificate != nil)
        }

        init(_ entry: RecentPeers.Entry) {
            (id, name, isLocalSend) = (entry.id, entry.name, entry.isLocalSend == true)
        }
    }
}

extension LocalMachine {
    /// The LocalSend device that a text selects, among those that are known or were seen recently.
    package func localSendDevice(named text: String) -> LocalSendContact? {
        LocalSendContact(
            named: text, trust: (try? trust.read()) ?? TrustStore(),
            recent: (try? RecentPeers.read(in: state)) ?? RecentPeers(),
            now: SystemClock.wall())
    }
}
