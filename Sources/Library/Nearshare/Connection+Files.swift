internal import NearshareBase
internal import NearshareDirect
public import NearshareEngine
internal import NearshareInterfaces
internal import NearshareStorage

extension Connection {
    /// Offers files and folders, and sends them once the receiver accepts. The same paths sent again continue where an
    /// interrupted attempt stopped. Offers are made one at a time: the next one when the receiver has answered the one before
    /// and is receiving fewer than four transfers.
    /// - Parameters:
    ///   - paths: files and folders of this machine.
    ///   - name: the name for the receiver when there is one path; nil for the file's own.
    ///   - context: bytes for the receiving program, at most 1024.
    ///   - timeout: time that the receiver has to answer from the moment it is asked, 1 to 600 seconds.
    /// - Returns: the transfer, for its progress and its result.
    /// - Throws: ``StorageError`` when a path cannot be read, for a name that no file can have, for an argument out of its bounds,
    ///   and while 256 offers wait; then nothing is offered.
    public func send(
        paths: [String], named name: String? = nil, context: [UInt8] = [], timeout: Duration = .seconds(30)
    ) throws(StorageError) -> Transfer {
        guard context.count <= TransferOffer.maximumContextByteCount else {
            throw StorageError(
                .rejected, "the context has \(context.count) bytes; the limit is \(TransferOffer.maximumContextByteCount)")
        }
        try check(timeout: timeout)
        let source = try FileSource(
            paths: paths, named: try name.map { (name) throws(StorageError) in try ClaimedFileName(checking: name) })
        return try offer(source, context: context, timeout: timeout)
    }

    /// Offers a text, and sends it once the receiver accepts. The receiver's user is shown the text.
    /// - Parameters:
    ///   - text: at most 64 KiB of UTF-8.
    ///   - timeout: time that the receiver has to answer from the moment it is asked, 1 to 600 seconds.
    /// - Returns: the transfer, for its result.
    /// - Throws: ``StorageError`` for an empty or too long text, for a timeout out of its bounds, and while 256 offers wait.
    public func send(text: String, timeout: Duration = .seconds(30)) throws(StorageError) -> Transfer {
        try check(timeout: timeout)
        let source = try TextSource(text)
        return try offer(source, timeout: timeout)
    }

    private func check(timeout: Duration) throws(StorageError) {
        guard TransferOffer.isValid(timeout: timeout) else { throw StorageError(.rejected, TransferOffer.timeoutRule) }
    }

    private func offer(
        _ source: any ResourceSource, context: [UInt8] = [], timeout: Duration
    ) throws(StorageError) -> Transfer {
        let resumeKey = ResumeKey.derive(from: source.offer)
        guard let transfer = sendIfRoom(source, resumeKey: resumeKey, context: context, timeout: timeout) else {
            throw StorageError(
                .failed, "too many offers wait for the receiver's answers; await the results of some, or send a folder")
        }
        return transfer
    }
}

extension ClaimedFileName {
    /// A name that a program has chosen.
    /// - Throws: ``StorageError`` for a name that no file can have.
    init(checking name: String) throws(StorageError) {
        guard !["", ".", ".."].contains(name), !name.utf8.contains(where: [0, UInt8(ascii: "/")].contains),
            let claimed = ClaimedFileName(name)
        else {
            throw StorageError(
                .rejected,
                "\(TerminalText.quoted(name, columns: 80)) is no name of a file; use 1 to "
                    + "\(ClaimedFileName.maximumByteCount) bytes without slashes, other than . and ..")
        }
        self = claimed
    }
}
