import FoundationEssentials
import Nearshare
import NearshareBundles
import NearshareService
import NearshareTerminal
import Testing

@testable import NearshareCLI

@Suite("JSON values") struct JSONValueTests {
    private static let kinds: [(JSONValue, String)] = [
        (.string("a\"b"), "\"a\\\"b\""), (.number(.max), "9223372036854775807"), (.integer(-5), "-5"),
        (.bool(true), "true"), (.null, "null"), (.rate(1.5), "1.5"), (.array([.number(1), .null]), "[1,null]"),
        (.object(["b": .number(2), "a": .number(1)]), "{\"a\":1,\"b\":2}"),
    ]

    @Test("T7: every kind of value is encoded, numbers as signed integers")
    func kinds() throws {
        for (value, text) in Self.kinds { #expect(try encoded(value) == text) }
    }

    @Test func `missing values are null`() throws {
        #expect(try encoded(JSONValue(nil as String?)) == "null")
        #expect(try encoded(JSONValue(nil as UInt64?)) == "null")
        #expect(try encoded(JSONValue("x")) == "\"x\"")
        #expect(try encoded(JSONValue(7 as UInt64)) == "7")
    }
}
