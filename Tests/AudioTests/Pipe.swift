import Glibc
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareAudio

/// The ends of a pipe.
struct Pipe {
    let readEnd: Int32
    let writeEnd: Int32

    init() throws {
        var ends: [Int32] = [-1, -1]
        try #require(pipe(&ends) == 0)
        (readEnd, writeEnd) = (ends[0], ends[1])
    }

    func write(_ bytes: [UInt8]) throws {
        try bytes.withUnsafeBytes { try DescriptorIO.writeAll($0, to: writeEnd) }
    }
}
