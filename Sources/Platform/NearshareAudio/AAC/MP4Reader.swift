internal import NearshareBase
internal import NearshareInterfaces

/// Reads boxes of an MP4 file (ISO/IEC 14496-12, section 4.2), which any peer may have made: their number, their nesting and
/// the bytes that are loaded are limited, and each box lies within the one around it.
struct MP4Reader {
    struct Box {
        /// The four characters of its type.
        let type: String
        /// The place of its content in the file.
        let content: Range<UInt64>
    }

    /// Reads from an offset; fewer bytes at the end of the file.
    typealias Read = (_ offset: UInt64, _ count: Int) throws(AudioError) -> [UInt8]

    let size: UInt64
    private let read: Read
    private var remainingBoxCount = Self.maximumBoxCount

    /// Limit on the boxes that are looked at. A file of a phone has about thirty.
    private static let maximumBoxCount = 512

    init(size: UInt64, read: @escaping Read) {
        self.size = size
        self.read = read
    }

    /// The boxes of a file, or of a box.
    /// - Parameter isFile: the last box may reach beyond the end, because the file was cut there, or have no size.
    mutating func boxes(in range: Range<UInt64>, isFile: Bool = false) throws(AudioError) -> [Box] {
        var boxes: [Box] = []
        var offset = range.lowerBound
        while offset < range.upperBound {
            guard remainingBoxCount > 0 else { throw AudioError(.damaged, "it has more than \(Self.maximumBoxCount) boxes") }
            remainingBoxCount -= 1
            let header = try read(offset, Int(min(16, range.upperBound - offset)))
            guard header.count >= 8 else { throw Self.damaged }
            var size = UInt64(truncatingBigEndian: header[..<4])
            var headerSize: UInt64 = 8
            if size == 1 {
                guard header.count == 16 else { throw Self.damaged }
                size = UInt64(truncatingBigEndian: header[8...])
                headerSize = 16
            } else if size == 0, isFile {
                size = range.upperBound - offset
            }
            let (end, overflow) = offset.addingReportingOverflow(size)
            guard size >= headerSize, !overflow, isFile || end <= range.upperBound else { throw Self.damaged }
            let contentEnd = min(end, range.upperBound)
            boxes.append(Box(type: Self.text(header[4..<8]), content: (offset + headerSize)..<contentEnd))
            offset = contentEnd
        }
        return boxes
    }

    /// The only box of a type in another one, along a path.
    mutating func box(_ path: String..., in range: Range<UInt64>) throws(AudioError) -> Box {
        var box: Box?
        for type in path {
            let found = try boxes(in: box?.content ?? range).filter { $0.type == type }
            guard found.count == 1 else {
                throw AudioError(.damaged, "its \(type) box is \(found.isEmpty ? "missing" : "there \(found.count) times")")
            }
            box = found[0]
        }
        guard let box else { throw Self.damaged }
        return box
    }

    /// The content of a box.
    /// - Parameter limit: a longer box is rejected.
    func bytes(of box: Box, upTo limit: Int) throws(AudioError) -> [UInt8] {
        let count = box.content.upperBound - box.content.lowerBound
        guard count <= UInt64(limit) else {
            throw AudioError(.damaged, "its \(box.type) box has \(count) bytes; the limit is \(limit)")
        }
        return try bytes(Int(count), at: box.content.lowerBound)
    }

    /// The first bytes of a box.
    func prefix(_ count: Int, of box: Box) throws(AudioError) -> [UInt8] {
        guard box.content.upperBound - box.content.lowerBound >= UInt64(count) else { throw Self.damaged }
        return try bytes(count, at: box.content.lowerBound)
    }

    private func bytes(_ count: Int, at offset: UInt64) throws(AudioError) -> [UInt8] {
        let bytes = try read(offset, count)
        guard bytes.count == count else { throw Self.damaged }
        return bytes
    }

    /// A type as text that is safe for a terminal.
    private static func text(_ bytes: ArraySlice<UInt8>) -> String {
        bytes.allSatisfy { (0x21...0x7e).contains($0) } ? String(decoding: bytes, as: UTF8.self) : "????"
    }

    static var damaged: AudioError { AudioError(.damaged, "its MP4 boxes are damaged") }
}
