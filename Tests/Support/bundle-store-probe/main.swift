import Glibc
import NearshareBase
import NearshareDatabase
import NearshareInterfaces

// Fills a store as fast as it can, and says of each message, once it is kept, its number: for a test that kills it meanwhile.

let store = try SQLiteBundleStore(directory: CommandLine.arguments[1])
var number: UInt64 = 0
while true {
    number += 1
    let bytes = withUnsafeBytes(of: number.bigEndian) { Array($0) }
    try store.insert(
        StoredMessage(
            id: BundleID(bytes: bytes + bytes)!, copy: [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: 700),
            depositor: EndpointID(rawValue: number % 3 + 1), expiry: WallTime(milliseconds: .max)))
    print(number)
    fflush(nil)
}
