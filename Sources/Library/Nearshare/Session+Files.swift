public import NearshareBase
internal import NearshareDirect
public import NearshareEngine
internal import NearshareStorage

extension Session {
    /// Offers a file or a folder to members, each of which accepts or declines. The same file sent again under the same name
    /// continues where an interrupted attempt stopped.
    /// - Parameters:
    ///   - path: a file or a folder of this machine.
    ///   - name: the name for the receivers, as a file can have it: without slashes, 1 to 255 bytes; nil for the file's own.
    ///   - members: the receivers, each named once.
    ///   - context: bytes for the receiving programs, at most 1024.
    ///   - timeout: time that the receivers have to answer, 1 to 600 seconds.
    /// - Returns: a transfer for each member, for its progress and its result.
    /// - Throws: ``StorageError`` when the path cannot be read, or for a name that no file can have; ``SessionError`` when a member
    ///   is not connected, or an argument is out of its bounds. Then nothing is offered.
    public func sendResource(
        at path: String, named name: String? = nil, to members: [PeerID], context: [UInt8] = [],
        timeout: Duration = .seconds(30)
    ) async throws -> [PeerID: Transfer] {
        let source = try FileSource(paths: [path], named: try name.map { try ClaimedFileName(checking: $0) })
        return try await sendResource(
            source, to: members, resumeKey: ResumeKey.derive(from: source.offer), context: context, timeout: timeout)
    }
}
