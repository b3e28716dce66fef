internal import Nearshare
internal import Synchronization

/// The bytes of one transfer that count towards the limit of its peer.
final class QuotaReservation: Sendable {
    private let peer: Fingerprint
    private let source: String?
    private let rules: AcceptancePolicy
    private let byteCount: Mutex<UInt64?>

    /// - Parameters:
    ///   - byteCount: the bytes that are reserved already; nil for none.
    ///   - source: see ``PeerQuota/reserve(_:for:at:partial:)``.
    init(_ byteCount: UInt64?, for peer: Fingerprint, at source: String?, _ rules: AcceptancePolicy) {
        (self.peer, self.source) = (peer, source)
        self.rules = rules
        self.byteCount = Mutex(byteCount)
    }

    /// Reserves the bytes that will be received instead of those of the offer: files that are present do not count.
    /// - Parameter partial: the disk space that the peer's unfinished transfers take, in bytes.
    func replace(by count: UInt64, partial: () -> UInt64) throws(StorageError) {
        release()
        if case .decline(_, let detail) = rules.reserve(count, for: peer, at: source, partial) {
            throw StorageError(.overLimit, detail ?? "the limit of this peer is reached")
        }
        byteCount.withLock { $0 = count }
    }

    /// Records the space that the unfinished transfers of the peer take, in bytes.
    func recordPartial(_ partial: () -> UInt64) { rules.recordPartial(partial, of: peer, at: source) }

    /// Returns the bytes: the transfer has not completed. No effect when nothing is reserved.
    func release() {
        let reserved = byteCount.withLock { byteCount in
            defer { byteCount = nil }
            return byteCount
        }
        rules.release(reserved, from: peer, at: source)
    }
}
