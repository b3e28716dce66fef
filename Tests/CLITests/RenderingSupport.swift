import FoundationEssentials
import Nearshare
import NearshareBundles
import NearshareService
import NearshareTerminal
import Synchronization
import Testing

@testable import NearshareCLI

let annaID = PeerID(hex: "1a2b3c4d5e6f7081")

/// The JSON events that a reporter has written.
final class EmittedLines: Sendable {
    private let lines = Mutex<[String]>([])

    var all: [String] { lines.withLock { $0 } }

    var reporter: JSONReporter { JSONReporter(write: { line in self.lines.withLock { $0.append(line) } }) }
}

func encoded(_ value: JSONValue) throws -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return String(decoding: try encoder.encode(value), as: UTF8.self)
}
