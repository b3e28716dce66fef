internal import Nearshare
internal import NearshareMesh

/// Advice about a file that the mesh does not carry to a peer.
enum MeshAdvice {
    /// - Parameter software: nil for everyone.
    static func forLargeFile(to software: Contact.Software?) -> String {
        switch software {
        case .phone:
            "send a smaller one, or open a page for the phone's browser with `nearshare send --qr`"
        case nil: "send a smaller one"
        case .nearshare, .blueChat, .unknown:
            "a direct connection carries it: `nearshare send` makes one when both are on one network or in Bluetooth range"
        }
    }

    /// A sentence about the peers in the mesh that do not get a file for everyone, because their apps take smaller ones only; nil where
    /// there are none.
    static func forFileToEveryone(byteCount: UInt64, among peers: [MeshPeer]) -> String? {
        let excluded = peers.filter { $0.isReachable && byteCount > UInt64(clamping: $0.contentLimit) }
        guard let limit = excluded.map(\.contentLimit).min() else { return nil }
        let names = excluded.prefix(maximumNameCount).map(\.name.shown).joined(separator: ", ")
        let others = excluded.count > maximumNameCount ? " and \(excluded.count - maximumNameCount) others" : ""
        let apps = excluded.count == 1 ? "whose app takes" : "whose apps take"
        return "too large for \(names)\(others), \(apps) at most \(UInt64(clamping: limit).formattedByteCount)"
    }

    private static let maximumNameCount = 3

    /// The result of a transfer through the mesh, with the advice that it needs.
    static func completed(_ result: TransferResult, to software: Contact.Software?) -> TransferResult {
        guard result.outcome == .failed(.tooLarge, at: .local), let detail = result.detail else { return result }
        var result = result
        result.detail = "\(detail); \(forLargeFile(to: software))"
        return result
    }
}
