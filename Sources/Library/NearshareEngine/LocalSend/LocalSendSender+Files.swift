internal import NearshareBase
internal import NearshareDirect
internal import NearshareHTTP
internal import NearshareInterfaces
internal import NearshareLocalSend

/// The accepted files, over several connections.
extension LocalSendSender {
    /// One pass over the source, for the files that one worker sends. Used by one thread at a time.
    private final class Pass: @unchecked Sendable {
        var reader: (any ResourceReader)?
        /// The number of the reader's next entry.
        var next = 0
    }

    /// Connections that carry files at the same time.
    private static var maximumConnectionCount: Int { 3 }
    private static var bufferByteCount: Int { 1 << 18 }

    /// Sends the files, and ends the transfer.
    func upload(_ contents: LocalSendContents) async {
        transfer.enter(.moving)
        let count = min(Self.maximumConnectionCount, state.withLock(\.files.pendingCount))
        await withDiscardingTaskGroup { group in
            for _ in 0..<count { group.addTask { await self.work(contents) } }
        }
        end(state.withLock(\.files).result(of: contents, at: target.name.shown))
    }

    /// Sends files until none is left, over as many connections as the device wants.
    private func work(_ contents: LocalSendContents) async {
        let pass = Pass()
        while state.withLock({ $0.ending == nil && $0.files.pendingCount > 0 }) {
            let isOpen = await withConnection(limit: LocalSendDevice.maximumByteCount) {
                [self] (connection) throws(LocalSendClientConnection.Failure) in
                try sendFiles(contents, pass, over: connection)
                return true
            }
            guard isOpen == true else { return }
        }
    }

    private func sendFiles(
        _ contents: LocalSendContents, _ pass: Pass, over connection: LocalSendClientConnection
    ) throws(LocalSendClientConnection.Failure) {
        while connection.isReusable, let (number, session, token) = nextFile() {
            let isReused = connection.hasAnswered
            do throws(LocalSendClientConnection.Failure) {
                let request = LocalSendRequest.upload(
                    file: number, session: session, token: token, length: contents.files[number].size, to: connection.authority)
                let response = try send(
                    contents.files[number], number: number, request: request, pass: pass, over: connection)
                receive(response, of: number, size: contents.files[number].size)
            } catch {
                // The device may close a connection after a response: another one begins with this file.
                guard case .link = error, isReused, !isEnded else { throw error }
                return state.update { $0.files.retry(number) }
            }
        }
    }

    private func nextFile() -> (number: Int, session: String, token: String)? {
        state.update { state in
            guard state.ending == nil, let session = state.session, let (number, token) = state.files.beginNext() else {
                return nil
            }
            return (number, session, token)
        }
    }

    private func send(
        _ file: LocalSendContents.File, number: Int, request: [UInt8], pass: Pass,
        over connection: LocalSendClientConnection
    ) throws(LocalSendClientConnection.Failure) -> ReceivedHTTPResponse {
        let reader: any ResourceReader
        do throws(StorageError) {
            reader = try position(pass, at: file)
        } catch {
            throw .storage(error)
        }
        do throws(LocalSendClientConnection.Failure) {
            try connection.write(request)
            try sendContent(of: number, reader, size: file.size, over: connection)
        } catch {
            // A device that rejects a file may say so, and close the connection, before it has read the content.
            guard case .link = error, let response = try? connection.readResponse() else { throw error }
            connection.abandon()
            return response
        }
        return try connection.readResponse()
    }

    /// The reader at the begin of a file's content.
    private func position(_ pass: Pass, at file: LocalSendContents.File) throws(StorageError) -> any ResourceReader {
        if pass.next > file.entry { pass.reader = nil }
        let reader: any ResourceReader
        if let open = pass.reader {
            reader = open
        } else {
            reader = try source.makeReader()
            (pass.reader, pass.next) = (reader, 0)
        }
        var header: EntryHeader?
        while pass.next <= file.entry {
            header = try reader.nextEntry()
            pass.next += 1
            if header == nil { break }
        }
        guard let header, header.path == file.header.path, header.size == file.size else {
            throw StorageError(.changed, "\(TerminalText.quoted(file.name)) has changed; send it again")
        }
        return reader
    }

    private func sendContent(
        of number: Int, _ reader: any ResourceReader, size: UInt64, over connection: LocalSendClientConnection
    ) throws(LocalSendClientConnection.Failure) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.bufferByteCount, alignment: 64)
        defer { buffer.deallocate() }
        var sentCount: UInt64 = 0
        while sentCount < size {
            let requestedCount = waitForRate(upTo: Int(min(UInt64(buffer.count), size - sentCount)))
            let count: Int
            do throws(StorageError) {
                count = try reader.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<requestedCount]))
                guard count > 0 else {
                    throw StorageError(.changed, "a file has become smaller while it was sent; send it again")
                }
            } catch {
                connection.abandon()
                throw .storage(error)
            }
            rateLimit?.charge(UInt64(count))
            try connection.write(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            sentCount += UInt64(count)
            record(sentCount, of: number)
        }
    }

    /// Records the bytes that were sent of a file.
    func record(_ byteCount: UInt64, of number: Int) {
        let deadline = node.settings.clock() + Self.silenceTimeout
        state.update { state in
            state.files.record(byteCount, of: number)
            state.deadline = deadline
            recordProgress(of: state.files)
        }
    }

    /// Records the progress of all files, with the lock held: a thread that counted earlier must not record later.
    private func recordProgress(of files: LocalSendFiles) {
        transfer.recordProgress(to: files.byteCount, entries: files.storedCount)
    }

    /// Waits until bytes may be sent.
    /// - Returns: their number, at most `count`.
    private func waitForRate(upTo count: Int) -> Int {
        guard let rateLimit else { return count }
        let clock = node.settings.clock
        return state.waitUntilReady { state -> MonitorWait<Int> in
            guard state.ending == nil else { return .ready(count) }
            switch rateLimit.allowance(now: clock()) {
            case .bytes(let allowed): return .ready(min(count, allowed))
            case .later(let time): return .waiting(untilNanoseconds: time.nanoseconds)
            }
        }
    }

    /// Applies the response to an upload.
    private func receive(_ response: ReceivedHTTPResponse, of number: Int, size: UInt64) {
        let deadline = node.settings.clock() + Self.silenceTimeout
        let isKnown = state.update { state in
            state.deadline = deadline
            let isKnown = state.files.receive(response, of: number, size: size)
            recordProgress(of: state.files)
            return isKnown
        }
        if !isKnown { end(TransferResult(outcome: .cancelled(by: .remote))) }
    }
}
