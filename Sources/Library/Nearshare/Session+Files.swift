public import NearshareBase
internal import NearshareDirect
public import NearshareEngine
internal import NearshareStorage

extension Session {
    /// Offers a file or a folder to members, each of which accepts or declines. The same file sent again under the same name
    /// continues where an interrupted attempt stopped. An offer waits until the member has answered those before, and receives
    /// fewer than four.
    /// - Parameters:
    ///   - path: a file or a folder of this machine.
    ///   - name: the name for the receivers, as a file can have it: without slashes, 1 to 255 bytes; nil for the file's own.
    ///   - members: the receivers, each named once.
    ///   - context: bytes for the receiving programs, none by default: at most 1024.
    ///   - timeout: time that the receivers have to answer, each from the moment it is asked: 1 to 600 seconds, by default 30.
    /// - Returns: a transfer for each member, for its progress and its result. A member that declines, leaves or is cut off is an
    ///   outcome of its transfer, no error.
    /// - Throws: ``StorageError`` when the path cannot be read, or for a name that no file can have;
    ///   ``SessionError/notConnected(_:)`` when a member cannot be reached; ``SessionError/invalidParameter(_:)`` for an argument out
    ///   of its bounds, an empty list and a member named twice; ``SessionError/unavailable(_:)`` while 256 offers to a member wait;
    ///   the reason of ``Session/ended``; cancelled. Then nothing is offered.
    public func sendResource(
        at path: String, named name: String? = nil, to members: [PeerID], context: [UInt8] = [],
        timeout: Duration = .seconds(30)
    ) async throws -> [PeerID: Transfer] {
        let source = try FileSource(paths: [path], named: try name.map { try ClaimedFileName(checking: $0) })
        return try await sendResource(
            source, to: members, resumeKey: ResumeKey.derive(from: source.offer), context: context, timeout: timeout)
    }
}
