import NearshareBase
import Testing

@testable import NearshareDiscovery

@Suite("answers to one-shot questions")
struct DNSMessageTests {
    private static let type = DNSName("_nearshare._tcp.local")

    /// An answer as a responder sends it: PTR, SRV, TXT, A and AAAA, compressed.
    private static let answer: [UInt8] = {
        var bytes: [UInt8] = [0x12, 0x34, 0x84, 0x00, 0, 1, 0, 5, 0, 0, 0, 0]
        bytes += label("_nearshare") + label("_tcp") + label("local") + [0, 0, 12, 0, 1]
        // The type's name stands at 12, "local" at 28.
        func record(_ name: [UInt8], _ type: UInt8, _ data: [UInt8]) {
            bytes += name + [0, type, 0x80, 1, 0, 0, 0, 10, 0, UInt8(data.count)] + data
        }
        record([0xc0, 12], 12, label("Anna's") + [0xc0, 12])
        let instance = UInt8(bytes.count - 9)
        record([0xc0, instance], 33, [0, 0, 0, 0, 0x10, 0x92] + label("host") + [0xc0, 28])
        let host = UInt8(bytes.count - 7)
        record([0xc0, instance], 16, label("v=1") + label("id=2"))
        record([0xc0, host], 1, [10, 0, 0, 1])
        record([0xc0, host], 28, [0xfe, 0x80] + [UInt8](repeating: 0, count: 13) + [1])
        return bytes
    }()

    private static func label(_ text: String) -> [UInt8] { [UInt8(text.utf8.count)] + Array(text.utf8) }

    @Test("the question asks for pointers of the type")
    func question() {
        let message = DNSMessage.question(id: 0x1234, ptrOf: Self.type)
        #expect(message.prefix(12) == [0x12, 0x34, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0])
        #expect(message.dropFirst(12).elementsEqual(Self.answer[12..<39]))
    }

    @Test("an answer yields the whole service, with the address of the family asked over")
    func service() throws {
        let records = try DNSMessage.records(of: Self.answer, answering: 0x1234)
        #expect(records.count == 5)
        let expected = DNSService(
            instance: "Anna's", address: .v4(0x0a00_0001), port: 4242,
            txt: [Array("v=1".utf8), Array("id=2".utf8)])
        #expect(DNSService.services(of: Self.type, in: records, isIPv6: false, sender: .v4(0x0a00_0009)) == [expected])
        let over6 = DNSService.services(
            of: DNSName("_NearShare._TCP.local"), in: records, isIPv6: true, sender: .v6(0, 0))
        #expect(over6.map(\.address.description) == ["fe80::1"])
        #expect(
            DNSService.services(of: DNSName("_other._tcp.local"), in: records, isIPv6: false, sender: .v4(1)).isEmpty)
    }

    @Test("of several addresses the one that answered is taken")
    func sender() {
        let (name, host) = (DNSName([[97]] + Self.type.labels), DNSName("h.local"))
        let records = [
            DNSRecord(name: Self.type, content: .ptr(name)),
            DNSRecord(name: name, content: .srv(port: 1, host: host)), DNSRecord(name: name, content: .txt([])),
            DNSRecord(name: host, content: .address(.v4(1))), DNSRecord(name: host, content: .address(.v4(2))),
        ]
        let found = DNSService.services(of: Self.type, in: records, isIPv6: false, sender: .v4(2))
        #expect(found.map(\.address) == [.v4(2)])
        #expect(
            DNSService.services(of: Self.type, in: Array(records.dropLast(2)), isIPv6: false, sender: .v4(2)).isEmpty)
    }

    @Test("an answer to another question, a question, and an error are no answers")
    func others() {
        #expect(throws: DNSMessage.Malformed.self) { try DNSMessage.records(of: Self.answer, answering: 1) }
        for flags: UInt8 in [0x00, 0x8f & 0x7f] {
            var message = Self.answer
            message[2] = flags
            #expect(throws: DNSMessage.Malformed.self) { try DNSMessage.records(of: message, answering: 0x1234) }
        }
        var refused = Self.answer
        refused[3] = 5
        #expect(throws: DNSMessage.Malformed.self) { try DNSMessage.records(of: refused, answering: 0x1234) }
    }

    @Test("D3: cut off anywhere, or with anything behind it, it is malformed")
    func truncated() {
        for length in 0..<Self.answer.count {
            #expect(throws: DNSMessage.Malformed.self) {
                try DNSMessage.records(of: Array(Self.answer.prefix(length)), answering: 0x1234)
            }
        }
        #expect(throws: DNSMessage.Malformed.self) { try DNSMessage.records(of: Self.answer + [0], answering: 0x1234) }
    }

    @Test(
        "D3: names that refer to themselves, forward or in a circle are malformed",
        arguments: [
            [0xc0, 12], [0xc0, 14], [0xc0, 13], [1, 97, 0xc0, 12], [0xff, 0xff], [0x40, 0], [0x80, 0],
        ] as [[UInt8]])
    func circles(_ name: [UInt8]) {
        let message: [UInt8] = [0, 1, 0x84, 0, 0, 0, 0, 1, 0, 0, 0, 0] + name + [0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4]
        #expect(throws: DNSMessage.Malformed.self) { try DNSMessage.records(of: message, answering: 1) }
    }

    @Test("D3: names longer than 255 bytes and counts beyond reason are malformed")
    func bounds() {
        let long = [[UInt8]](repeating: [63] + [UInt8](repeating: 97, count: 63), count: 4).flatMap(\.self) + [0]
        let record: [UInt8] = [0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4]
        #expect(throws: DNSMessage.Malformed.self) {
            try DNSMessage.records(of: [0, 1, 0x84, 0, 0, 0, 0, 1, 0, 0, 0, 0] + long + record, answering: 1)
        }
        let many =
            [UInt8]([0, 1, 0x84, 0, 0, 0, 0, 129, 0, 0, 0, 0]) + [[UInt8]](repeating: [0] + record, count: 129).flatMap(\.self)
        #expect(throws: DNSMessage.Malformed.self) { try DNSMessage.records(of: many, answering: 1) }
        #expect(throws: DNSMessage.Malformed.self) {
            try DNSMessage.records(of: [0, 1, 0x84, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0], answering: 1)
        }
        #expect(throws: DNSMessage.Malformed.self) {
            try DNSMessage.records(of: [UInt8](repeating: 0, count: 9001), answering: 0)
        }
    }

    @Test("D3: whatever bytes come, reading them ends", arguments: 0..<20)
    func noise(_ seed: UInt64) {
        var random = SplitMix(state: seed)
        for _ in 0..<500 {
            var message = Self.answer
            for _ in 0..<Int(random.next() % 8) + 1 {
                message[Int(random.next() % UInt64(message.count))] = UInt8(truncatingIfNeeded: random.next())
            }
            message[0] = 0x12
            message[1] = 0x34
            guard let records = try? DNSMessage.records(of: message, answering: 0x1234) else { continue }
            for service in DNSService.services(of: Self.type, in: records, isIPv6: false, sender: .v4(1)) {
                #expect(service.instance.utf8.count <= 63, "seed \(seed)")
            }
        }
    }
}

/// Sebastiano Vigna's splitmix64: small, and the same everywhere.
private struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var z = state
        z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
        z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
        return z ^ (z >> 31)
    }
}
