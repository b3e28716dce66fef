internal import NearshareBase

/// An action that the router performs for file transfers.
enum FileTransferReaction: Sendable {
    /// Sends a message about a file inside the session.
    /// - Parameter onAllLinks: on all links, because the peer may not be where it was last heard.
    case send(MeshFileControl, to: PeerID, onAllLinks: Bool = false)
    /// Seals the file, or signs it when it is for everyone, cuts it into fragments and passes them to
    /// ``OutgoingFiles/start(_:_:)``.
    case startTransmission(of: MeshFileKey)
    /// Schedules the fragments of a file.
    case schedule(FragmentJob)
    /// Removes the fragments of a file that has ended from the schedule.
    case unschedule(MeshFileKey)
    /// Removes the received fragments of an incomplete file.
    case discardFragments(MeshFragment.ID, from: PeerID)
    case emit(MeshEvent)
}
