package import NearshareBase

/// The destination of a transfer's content, which arrives in order and within the offer.
package protocol ContentReceiver<Failure> {
    /// The error of the destination.
    associatedtype Failure: Error

    /// Starts after `completeEntries` entries that were kept, and `offset` bytes of the next one.
    mutating func start(completeEntries: UInt64, offset: UInt64) throws(Failure)
    /// Starts an entry.
    /// - Parameter digest: The hash chain over all headers including this one.
    mutating func begin(_ header: EntryHeader, at offset: UInt64, digest: [UInt8]) throws(Failure)
    /// Starts an entry whose content is present already.
    /// - Parameters:
    ///   - number: The number of the entry in the stream, from 0.
    ///   - digest: The hash chain over all headers including this one.
    mutating func keepPresent(_ header: EntryHeader, number: UInt64, digest: [UInt8]) throws(Failure)
    /// Appends content to the current file.
    mutating func content(_ bytes: UnsafeRawBufferPointer) throws(Failure)
    /// Passes over an entry that the sender has withdrawn. If it has begun, what was received of it is removed.
    mutating func withdraw(_ header: EntryHeader) throws(Failure)
    /// Completes the current entry.
    mutating func endEntry() throws(Failure)
}
