package import NearshareBase
internal import NearshareCrypto

/// The listed files of a transfer, at both ends: the number of each entry, and the SHA-256 of its header.
package struct FileList: Sendable {
    /// Ascending.
    private var numbers: [UInt64] = []
    /// 32 bytes for each file.
    private var digests: [UInt8] = []

    package init() {}

    package var count: Int { numbers.count }
    package var lastNumber: UInt64? { numbers.last }

    mutating func append(number: UInt64, encodedHeader: some Collection<UInt8>) {
        numbers.append(number)
        digests += SHA256Hasher.digest(Array(encodedHeader))
    }

    /// The index of an entry's file; nil for an entry that is not listed with this header.
    func index(ofNumber number: UInt64, encodedHeader: some Collection<UInt8>) -> Int? {
        var range = numbers.indices
        while let first = range.first {
            let middle = first + range.count / 2
            if numbers[middle] == number {
                let digest = digests[middle * SHA256Hasher.byteCount..<(middle + 1) * SHA256Hasher.byteCount]
                return digest.elementsEqual(SHA256Hasher.digest(Array(encodedHeader))) ? middle : nil
            }
            range = numbers[middle] < number ? middle + 1..<range.upperBound : range.lowerBound..<middle
        }
        return nil
    }
}

/// The files whose content the sender omits: those that the receiver has, identical or newer.
package struct PresentFiles: Sendable {
    private let list: FileList
    private let identical: FileSet
    private let newer: FileSet

    /// No file.
    package static let none = PresentFiles(list: FileList(), identical: FileSet(), newer: FileSet())

    package init(list: FileList, identical: FileSet, newer: FileSet) {
        (self.list, self.identical, self.newer) = (list, identical, newer)
    }

    package func contains(number: UInt64, encodedHeader: some Collection<UInt8>) -> Bool {
        guard list.count > 0, let index = list.index(ofNumber: number, encodedHeader: encodedHeader) else { return false }
        return identical.contains(index) || newer.contains(index)
    }

    /// nil where nothing was compared.
    package var counts: ComparedFiles? {
        guard list.count > 0 else { return nil }
        return ComparedFiles(
            fileCount: UInt64(list.count), presentCount: UInt64(identical.memberCount), newerCount: UInt64(newer.memberCount))
    }
}
