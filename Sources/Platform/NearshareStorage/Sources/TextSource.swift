package import NearshareBase
package import NearshareInterfaces

/// A short text, which the receiver shows and stores.
package struct TextSource: ResourceSource {
    package static let maximumByteCount = 64 << 10
    package static let tooLong = StorageError(
        .overLimit, "the limit for text is \(UInt64(maximumByteCount).formattedByteCount); send it as a file")
    /// The name of the file in which the receiver stores it.
    package static let fileName = "message.txt"

    package let offer: Offer
    private let bytes: [UInt8]
    private let name: ClaimedFileName

    package init(_ text: String) throws(StorageError) {
        bytes = Array(text.utf8)
        guard !bytes.isEmpty else { throw StorageError(.rejected, "there is no text to send") }
        guard bytes.count <= Self.maximumByteCount else {
            throw Self.tooLong
        }
        // Safe: a valid name.
        name = ClaimedFileName(Self.fileName)!
        let item = OfferedItem(kind: .text, name: name, size: UInt64(bytes.count), entryCount: 1, mediaType: .text)
        offer = Offer(items: [item], itemCount: 1, entryCount: 1, totalSize: UInt64(bytes.count))
    }

    package func makeReader() throws(StorageError) -> any ResourceReader {
        TextReader(bytes, name)
    }
}

private final class TextReader: ResourceReader {
    private let bytes: [UInt8]
    private let name: ClaimedFileName
    private var position = 0
    private var hasStarted = false

    init(_ bytes: [UInt8], _ name: ClaimedFileName) {
        self.bytes = bytes
        self.name = name
    }

    func nextEntry() throws(StorageError) -> EntryHeader? {
        guard !hasStarted else { return nil }
        hasStarted = true
        return EntryHeader(item: 0, kind: .file, path: [name], size: UInt64(bytes.count), modified: nil, permissions: nil)
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws(StorageError) -> Int {
        let count = min(buffer.count, bytes.count - position)
        buffer.copyBytes(from: bytes[position..<position + count])
        position += count
        return count
    }

    func seek(to offset: UInt64) throws(StorageError) {
        guard let position = Int(exactly: offset), position <= bytes.count else {
            throw StorageError(.failed, "could not seek beyond the end of the text")
        }
        self.position = position
    }

    func cancel() {}
}
