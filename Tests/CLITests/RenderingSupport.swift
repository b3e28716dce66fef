import FoundationEssentials
import Nearshare
import NearshareBundles
import NearshareService
import NearshareTerminal
import Testing

@testable import NearshareCLI

let annaID = PeerID(hex: "1a2b3c4d5e6f7081")

func encoded(_ value: JSONValue) throws -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return String(decoding: try encoder.encode(value), as: UTF8.self)
}
