import Glibc
import NearshareBase
import NearshareDatabase
import NearshareInterfaces

// Fills a store as fast as possible, and prints the number of each bundle once it is durable: for a test that kills the
// process.

let store = try SQLiteBundleStore(directory: CommandLine.arguments[1])
var number: UInt64 = 0
while true {
    number += 1
    let bytes = withUnsafeBytes(of: number.bigEndian) { Array($0) }
    try store.insert(
        PersistedBundle(
            id: BundleID(bytes: bytes + bytes)!, copy: [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: 700),
            previousNode: EndpointID(rawValue: number % 3 + 1), expiry: WallTime(milliseconds: .max)))
    print(number)
    fflush(nil)
}
