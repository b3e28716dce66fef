package import Nearshare

/// An option of a command precedes the configuration.
extension Configuration {
    /// - Parameters:
    ///   - maximumSize: the option; nil for the configured limit. Bytes.
    ///   - keepsExecutable: whether the option is given.
    ///   - existing: the option; nil for the configured policy, or else items that are not kept twice.
    package func inboxLimits(
        maximumSize: UInt64?, keepsExecutable: Bool = false, existing: ExistingFilePolicy? = nil
    ) -> InboxLimits {
        var limits = InboxLimits()
        limits.maximumSize = maximumSize ?? self.maximumSize
        limits.keepsExecutable = keepsExecutable || self.keepsExecutable
        limits.existing = existing ?? self.existing ?? .skipIdentical
        return limits
    }

    /// - Parameter maximumPerPeer: the option; nil for the configured limit. Bytes.
    package func peerQuota(maximumPerPeer: UInt64?) -> PeerQuota {
        PeerQuota(limit: maximumPerPeer ?? self.maximumPerPeer)
    }

    /// - Parameter port: the option; nil for the configured port, which is nil for the default.
    package func listeningPort(_ port: UInt16?) -> UInt16? { port ?? self.port }

    /// Default time in which an invitation must be answered: long enough for a receiver who has to reach for the keyboard.
    private static let defaultAnswerTimeout = Duration.seconds(30)

    /// - Parameter timeout: the option; nil for the configured time to wait for an answer, or the default.
    package func answerTimeout(_ timeout: Duration?) -> Duration { timeout ?? self.timeout ?? Self.defaultAnswerTimeout }
}
