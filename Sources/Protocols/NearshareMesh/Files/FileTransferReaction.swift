internal import NearshareBase

/// What the router does for the files that come and go.
enum FileTransferReaction: Sendable {
    /// Sends a message about a file inside the session.
    /// - Parameter everywhere: on all links, as the peer may not be where it was last heard.
    case send(MeshFileControl, to: PeerID, everywhere: Bool = false)
    /// Seals the file, or signs it where it goes to everyone, cuts it and hands the fragments to
    /// ``OutgoingFiles/start(_:_:)``.
    case seal(MeshFileKey)
    /// Schedules fragments of a file that was cut.
    case schedule(FragmentJob)
    /// Removes the fragments of a file that has ended from the schedule.
    case unschedule(MeshFileKey)
    /// Removes the fragments of a file that came so far.
    case discardFragments(MeshFragment.ID, from: PeerID)
    case emit(MeshEvent)
}
