import Glibc
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareAudio

@Suite struct FileCursorTests {
    private func cursor(budget: Int = .max) throws -> FileCursor {
        let file = try NoteFile.temporary()
        try file.write((0..<100).map { UInt8($0) }, at: 0)
        return FileCursor(file, budget: budget)
    }

    private func read(_ count: Int, from cursor: FileCursor) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        return bytes.withUnsafeMutableBytes { buffer in
            buffer.baseAddress.flatMap { cursor.read(into: $0, count: count) }
        }.map { Array(bytes.prefix($0)) }
    }

    @Test("reads move on, and seeking is relative to the start, the position or the end")
    func seeking() throws {
        let cursor = try cursor()
        #expect(read(2, from: cursor) == [0, 1] && cursor.offset == 2)
        #expect(cursor.seek(3, SEEK_CUR) == 5 && read(1, from: cursor) == [5])
        #expect(cursor.seek(-1, SEEK_END) == 99 && read(5, from: cursor) == [99] && read(5, from: cursor) == [])
        #expect(cursor.seek(10, SEEK_SET) == 10 && read(1, from: cursor) == [10])
        #expect(cursor.seek(1000, SEEK_SET) == 1000 && read(1, from: cursor) == [])
    }

    @Test("R10: seeking before the start or beyond 64 bits fails and moves nothing")
    func invalidSeeks() throws {
        let cursor = try cursor()
        _ = cursor.seek(10, SEEK_SET)
        for (offset, whence) in [
            (Int64(-11), SEEK_CUR), (.min, SEEK_CUR), (.max, SEEK_CUR), (-101, SEEK_END), (.max, SEEK_END), (-1, SEEK_SET),
        ] {
            #expect(cursor.seek(offset, whence) == nil && cursor.offset == 10)
        }
        #expect(cursor.seek(.max, SEEK_SET) == .max)
        #expect(read(1, from: cursor) == nil)
    }

    @Test("R10: no more than the budget is read until it is removed")
    func budget() throws {
        let cursor = try cursor(budget: 10)
        #expect(read(8, from: cursor)?.count == 8)
        #expect(read(3, from: cursor) == nil)
        #expect(read(2, from: cursor)?.count == 2)
        cursor.removeBudget()
        #expect(read(50, from: cursor)?.count == 50)
    }
}
