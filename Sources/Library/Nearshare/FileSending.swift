public import NearshareBase
internal import NearshareDirect
public import NearshareEngine
public import NearshareStorage

extension Connection {
    /// Offers files and folders of this machine, and sends them when they are accepted. The same paths sent again go on where an
    /// earlier try broke off.
    /// - Parameters:
    ///   - name: what the receiver is to call the only one of the paths; nil for the names that they have.
    ///   - context: bytes for the program there: at most `TransferOffer.maximumContextByteCount`.
    ///   - timeout: how long the other person may think about it; 1 to 600 seconds.
    /// - Throws: `StorageError` when something can't be read, before the other side is asked.
    public func send(
        paths: [String], named name: ClaimedFileName? = nil, context: [UInt8] = [], timeout: Duration = .seconds(30)
    ) throws(StorageError) -> Transfer {
        let source = try FileSource(paths: paths, named: name)
        return send(source, resumeKey: ResumeKey.of(source.offer), context: context, timeout: timeout)
    }
}

extension Connection {
    /// Offers a text, and sends it when it is accepted. The receiver is shown the text.
    /// - Parameters:
    ///   - text: at most 64 KiB of UTF-8.
    ///   - timeout: how long the receiver may take to answer; 1 to 600 seconds.
    /// - Throws: `StorageError` for an empty or too long text.
    public func send(text: String, timeout: Duration = .seconds(30)) throws(StorageError) -> Transfer {
        let source = try TextSource(text)
        return send(source, resumeKey: ResumeKey.of(source.offer), timeout: timeout)
    }
}

extension Session {
    /// Offers a file or a folder of this machine to members, each of whom takes it or declines. Sent again under the same name it
    /// goes on where an earlier try broke off.
    /// - Parameters:
    ///   - name: what the receivers are to call it; nil for the name that it has.
    ///   - context: bytes for the program there: at most `TransferOffer.maximumContextByteCount`.
    ///   - timeout: how long the other people may think about it; 1 to 600 seconds.
    /// - Returns: one handle for each member: await its result, follow its progress, cancel it.
    /// - Throws: `StorageError` when it can't be read, `SessionError` when somebody can't be reached; then nobody is asked.
    public func sendResource(
        at path: String, named name: ClaimedFileName? = nil, to members: [PeerID], context: [UInt8] = [],
        timeout: Duration = .seconds(30)
    ) throws -> [PeerID: Transfer] {
        let source = try FileSource(paths: [path], named: name)
        return try sendResource(
            source, to: members, resumeKey: ResumeKey.of(source.offer), context: context, timeout: timeout)
    }
}

extension Invitation {
    /// Takes it into an inbox.
    /// - Throws: `StorageError` when there is no place for it; it is not answered then.
    public func accept(into inbox: Inbox) throws(StorageError) -> Transfer {
        let sink = try inbox.makeSink(
            for: offer, from: peer.proven.fingerprint, resumeKey: resumeKey, clock: { SystemClock.monotonic() })
        return accept(into: sink)
    }
}
