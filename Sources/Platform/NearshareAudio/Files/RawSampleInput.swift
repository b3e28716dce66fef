internal import Glibc
package import NearshareInterfaces

/// Samples without a header as input: one channel, 16 bits, little-endian.
package final class RawSampleInput: AudioInput {
    package let format: AudioFormat
    package var lostFrames: UInt64 { 0 }
    private let descriptor: Int32
    /// The file that is read at ``offset``; nil for a descriptor of the caller, which is read at its own position.
    private let file: NoteFile?
    /// Ends a wait for samples.
    private let wakeup: EventFD?
    /// The position in ``file``, whose descriptor may be shared.
    private var offset: off_t = 0
    /// The first half of a sample that a pipe has split.
    private var oddByte: UInt8?

    /// - Parameters:
    ///   - descriptor: stays owned by the caller; may be a pipe.
    ///   - rate: frames a second.
    ///   - wakeup: signalled to make a read return that waits for samples.
    package convenience init(descriptor: Int32, rate: Int, wakeup: EventFD? = nil) throws(AudioError) {
        try self.init(descriptor: descriptor, file: nil, rate: rate, wakeup: wakeup)
    }

    /// - Parameters:
    ///   - file: read from its start.
    ///   - rate: frames a second.
    package convenience init(file: NoteFile, rate: Int) throws(AudioError) {
        try self.init(descriptor: file.descriptor, file: file, rate: rate, wakeup: nil)
    }

    private init(descriptor: Int32, file: NoteFile?, rate: Int, wakeup: EventFD?) throws(AudioError) {
        guard let format = AudioFormat(rate: rate, channels: 1) else {
            throw AudioError(.failed, "voice notes do not support \(rate) samples a second")
        }
        self.format = format
        self.descriptor = descriptor
        self.file = file
        self.wakeup = wakeup
    }

    package func read(into buffer: UnsafeMutableBufferPointer<Int16>) throws(AudioError) -> AudioReading {
        if DescriptorPoll.wait(for: descriptor, .readable, wakeup: wakeup, timeout: nil).isEmpty { return .timedOut }
        let bytes = UnsafeMutableRawBufferPointer(buffer)
        // A pipe may split a sample.
        let kept = oddByte == nil ? 0 : 1
        if let oddByte { bytes[0] = oddByte }
        let free = UnsafeMutableRawBufferPointer(rebasing: bytes[kept...])
        let count =
            file == nil
            ? Glibc.read(descriptor, free.baseAddress, free.count)
            : pread(descriptor, free.baseAddress, free.count, offset)
        if count < 0 {
            if errno == EINTR || errno == EAGAIN { return .timedOut }
            throw AudioError(errno, "could not read the samples")
        }
        if count == 0 { return .end }
        offset += count
        let total = kept + count
        oddByte = total % 2 == 1 ? bytes[total - 1] : nil
        for index in 0..<(total / 2) { buffer[index] = Int16(littleEndian: buffer[index]) }
        return total >= 2 ? .frames(total / 2) : .timedOut
    }

    package func close() {}
}
