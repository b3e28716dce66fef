internal import Glibc
internal import Nearshare

/// Writes one received file to a descriptor. Nothing is stored, so a transfer cannot be resumed. On a terminal the content is
/// escaped (T1).
final class OutputSink: ResourceSink {
    private let descriptor: Int32
    private let limit: UInt64?
    private var written: UInt64 = 0
    /// nil where the descriptor is no terminal.
    private var escaper: TerminalEscaper?
    /// Called when the first bytes are written.
    private let onOutput: @Sendable () -> Void
    /// Called when the reader has closed the pipe.
    private let onClosed: @Sendable () -> Void

    init(
        descriptor: Int32, limit: UInt64?, isTerminal: Bool? = nil, onOutput: @escaping @Sendable () -> Void = {},
        onClosed: @escaping @Sendable () -> Void = {}
    ) {
        self.onClosed = onClosed
        self.descriptor = descriptor
        self.limit = limit
        self.onOutput = onOutput
        escaper = isTerminal ?? (isatty(descriptor) == 1) ? TerminalEscaper() : nil
    }

    func resumePoint() throws(StorageError) -> ResumePoint { .start }

    func resume(at point: ResumePoint) throws(StorageError) {}

    func begin(_ entry: EntryHeader, at offset: UInt64, entriesDigest: [UInt8]) throws(StorageError) {}

    func write(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
        written += UInt64(bytes.count)
        if let limit, written > limit {
            throw StorageError(.overLimit, "more than the limit of \(limit.formattedByteCount) was received")
        }
        if written == UInt64(bytes.count), !bytes.isEmpty { onOutput() }
        if escaper != nil {
            try writeText(escaper?.append(bytes) ?? [])
        } else {
            try writeAll(bytes)
        }
    }

    private func writeText(_ text: [UInt8]) throws(StorageError) {
        var failure: StorageError?
        text.withUnsafeBytes { bytes in
            do throws(StorageError) { try writeAll(bytes) } catch { failure = error }
        }
        if let failure { throw failure }
    }

    private func writeAll(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
        do throws(SystemCallError) {
            try DescriptorIO.writeAll(bytes, to: descriptor)
        } catch {
            let failure = Self.failure(error)
            if failure.code == .outputClosed { onClosed() }
            throw failure
        }
    }

    /// The failure of a write.
    static func failure(_ error: SystemCallError) -> StorageError {
        guard error.code != EPIPE else {
            return StorageError(.outputClosed, "the program that reads standard output has closed the pipe")
        }
        return StorageError(.failed, "could not write to standard output: \(systemErrorText(error.code))")
    }

    func endEntry() throws(StorageError) {
        if escaper != nil { try writeText(escaper?.finish() ?? []) }
    }

    func finish() throws(StorageError) -> [DeliveredItem] { [] }

    func suspend() {}

    func discard() {}
}
