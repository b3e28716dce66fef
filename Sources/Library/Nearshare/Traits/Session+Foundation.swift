#if Foundation
    public import Foundation
    public import NearshareBase
    public import NearshareDirect
    public import NearshareEngine

    // Conveniences for programs that use Foundation: behind the package trait `Foundation`, so that other programs do not link it.

    extension SessionMessage {
        /// Creates a message of bytes.
        public init(_ data: Data) { self.init(bytes: Array(data)) }

        /// The content.
        public var data: Data { Data(bytes) }
    }

    extension Session {
        /// Offers the file or folder at a URL to members, each of which accepts or declines; see
        /// ``sendResource(at:named:to:context:timeout:)`` for paths.
        /// - Parameters:
        ///   - url: a file or a folder of this machine.
        ///   - name: the name for the receivers; nil for the file's own.
        ///   - members: the receivers, each named once.
        ///   - context: bytes for the receiving programs, at most 1024.
        ///   - timeout: time that the receivers have to answer, 1 to 600 seconds.
        /// - Returns: a transfer for each member.
        /// - Throws: ``SessionError/invalidParameter(_:)`` for a URL that is not of a file or names another host, and as for
        ///   paths.
        public func sendResource(
            at url: URL, named name: String? = nil, to members: [PeerID], context: [UInt8] = [],
            timeout: Duration = .seconds(30)
        ) async throws -> [PeerID: Transfer] {
            guard url.isFileURL, ["", "localhost"].contains(url.host ?? "") else {
                throw SessionError.invalidParameter("only files of this machine can be sent; fetch the content of a URL first")
            }
            return try await sendResource(at: url.path, named: name, to: members, context: context, timeout: timeout)
        }
    }

    extension Transfer {
        /// Mirrors the transfer in a `Progress` until it ends; cancelling the `Progress` cancels the transfer at both ends.
        /// In a cancelled task, the `Progress` shows the end of the transfer only.
        ///
        ///     let progress = Progress(totalUnitCount: -1)
        ///     async let result = transfer.report(to: progress)
        /// - Parameter progress: receives the counts of bytes. Its total is -1 while it is unknown.
        /// - Returns: the result of the transfer.
        @discardableResult
        public func report(to progress: Progress) async -> TransferResult {
            progress.kind = .file
            progress.isCancellable = true
            progress.cancellationHandler = { [weak self] in self?.cancel() }
            if progress.isCancelled { cancel() }
            for await snapshot in self.progress {
                progress.totalUnitCount = snapshot.total.map { Int64(clamping: $0) } ?? -1
                progress.completedUnitCount = Int64(clamping: snapshot.done)
            }
            let result = await result
            // In a cancelled task, the sequence above has ended before the transfer.
            let doneCount = Int64(clamping: snapshot.done)
            // An empty file as well: `isFinished` compares counts above zero.
            if result.outcome == .completed {
                progress.totalUnitCount = max(doneCount, 1)
                progress.completedUnitCount = progress.totalUnitCount
            }
            progress.cancellationHandler = nil
            return result
        }
    }
#endif
