package import Nearshare

extension TrustStatus {
    /// The words for a peer that has been blocked, by its status before: a block ends friendship and verification, for good.
    package var blockedText: String {
        switch (isFriend, isVerified) {
        case (true, true): "blocked, and no longer a friend or verified"
        case (true, false): "blocked, and no longer a friend"
        case (false, true): "blocked, and no longer verified"
        case (false, false): "blocked"
        }
    }

    /// The words for a peer that has been unblocked.
    package static var unblockedText: String { "no longer blocked; it is neither a friend nor verified" }
}
