import FoundationEssentials
import Nearshare
import NearshareBundles
import NearshareService
import NearshareTerminal
import Testing

@testable import NearshareCLI

@Suite("structured values as JSON") struct StructuredJSONTests {
    @Test(
        "JSON and structured values correspond",
        arguments: ["null", "true", "17", "-3", "21.5", "\"text\"", "[1,2,[]]", "{\"a\":{\"b\":[null]}}"])
    func roundTrip(_ json: String) throws {
        #expect(StructuredJSON.text(try StructuredJSON.value(of: json)) == json)
    }

    @Test func `bytes are base64 in an object of their own`() throws {
        let value = try StructuredJSON.value(of: "{\"data\":{\"$base64\":\"AAEC\"}}")
        #expect(value == .object(["data": .binary([0, 1, 2])]))
        #expect(StructuredJSON.text(value) == "{\"data\":{\"$base64\":\"AAEC\"}}")
    }

    @Test func `an object with more members is an object`() throws {
        let value = try StructuredJSON.value(of: "{\"$base64\":\"AAEC\",\"b\":1}")
        #expect(value == .object(["$base64": .string("AAEC"), "b": .integer(1)]))
    }

    @Test(
        "invalid JSON is a usage error",
        arguments: ["", "{", "temperature", "{\"a\":}", "[1,]x", "{\"$base64\":\"not base64!\"}"])
    func invalid(_ json: String) {
        #expect {
            try StructuredJSON.value(of: json)
        } throws: {
            CommandFailure($0).status == .usage
        }
    }
}
