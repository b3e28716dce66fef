package import NearshareBase
internal import NearshareDirect
package import NearshareInterfaces

/// Adapts a resource sink to the content stream.
package struct SinkReceiver: ContentReceiver {
    private let sink: any ResourceSink
    private let asked: ResumePoint

    /// - Parameter asked: the point from which the sender was asked to go on.
    package init(sink: any ResourceSink, asked: ResumePoint) {
        self.sink = sink
        self.asked = asked
    }

    package mutating func start(completeEntries: UInt64, offset: UInt64) throws(StorageError) {
        // The sender resumes where it was asked to, or from the beginning; anything else has been rejected before.
        let goesOn = completeEntries == asked.completeEntries && offset == asked.partialSize
        try sink.resume(at: goesOn ? asked : .start)
    }

    package mutating func begin(_ header: EntryHeader, at offset: UInt64, digest: [UInt8]) throws(StorageError) {
        try sink.begin(header, at: offset, entriesDigest: digest)
    }

    package mutating func keepPresent(_ header: EntryHeader, number: UInt64, digest: [UInt8]) throws(StorageError) {
        try sink.keepPresent(header, number: number, entriesDigest: digest)
    }

    package mutating func withdraw(_ header: EntryHeader) throws(StorageError) { try sink.withdraw(header) }

    package mutating func content(_ bytes: UnsafeRawBufferPointer) throws(StorageError) { try sink.write(bytes) }

    package mutating func endEntry() throws(StorageError) { try sink.endEntry() }
}
