import Glibc
import Testing

@testable import NearshareService

@Suite("links that a node offers to another process") struct OfferedDescriptorTests {
    /// The file of a descriptor: a number may be in use again, for another file.
    private func inode(of descriptor: Int32) -> ino_t? {
        var status = stat()
        return fstat(descriptor, &status) == 0 ? status.st_ino : nil
    }

    @Test(arguments: [true, false])
    func `a descriptor that is not taken is closed with its link, also in a stream that is not read`(isFinished: Bool) throws {
        var ends: [Int32] = [-1, -1]
        try #require(pipe(&ends) == 0)
        defer { close(ends[0]) }
        let file = try #require(inode(of: ends[0]))
        do {
            let (links, continuation) = AsyncStream.makeStream(of: OfferedDescriptor.self)
            if isFinished { continuation.finish() }
            continuation.yield(OfferedDescriptor(number: 1, owning: ends[1], opening: []))
            withExtendedLifetime(links) {}
        }
        #expect(inode(of: ends[1]) != file)
    }

    @Test func `a descriptor that is taken stays open`() throws {
        var ends: [Int32] = [-1, -1]
        try #require(pipe(&ends) == 0)
        let taken = OfferedDescriptor(number: 1, owning: ends[1], opening: []).take()
        #expect(taken == ends[1] && inode(of: taken) == inode(of: ends[0]))
        for end in ends { close(end) }
    }
}
