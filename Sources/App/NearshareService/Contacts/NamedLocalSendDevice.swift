package import Nearshare

/// A LocalSend device that the user has named where a nearshare peer is needed. Messages never reach it.
package struct NamedLocalSendDevice: Sendable {
    package let name: DisplayName

    /// The time for which a device that was seen in a list is remembered.
    private static let recentPeriod = Duration.seconds(3_600)
    /// Timeout of the search for a nearshare peer of the same name.
    static let lookupTimeout = Duration.milliseconds(1_500)

    /// The device that a text selects.
    /// - Returns: nil where the text selects none, or a nearshare peer as well.
    init?(named text: String, trust: TrustStore, recent: RecentPeers, now: WallTime) {
        let known = trust.entries.filter { $0.value.trust != .blocked }.map { Candidate($0.key, $0.value) }
        let oldest = now.milliseconds - Self.recentPeriod.nanoseconds / 1_000_000
        let seen = recent.entries
            .filter { $0.lastSeen.milliseconds >= oldest && trust.entry(claiming: $0.id) == nil }.map(Candidate.init)
        let found = NameSelection(of: text, among: known + seen).peers
        guard let first = found.first, found.allSatisfy(\.isLocalSend) else { return nil }
        name = first.name
    }

    /// The error of a message to a LocalSend device; names what can be sent instead.
    var refusal: ControlFailure {
        ControlFailure(
            .refused,
            "\(name.shown) has LocalSend, which takes files and texts, but no messages: `nearshare send --text` sends a text")
    }

    /// The error of `peers verify` for a device whose certificate is not remembered yet.
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
    package func localSendDevice(named text: String) -> NamedLocalSendDevice? {
        NamedLocalSendDevice(
            named: text, trust: (try? trust.read()) ?? TrustStore(),
            recent: (try? RecentPeers.read(in: state)) ?? RecentPeers(),
            now: SystemClock.wall())
    }
}
