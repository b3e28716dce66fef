import NearshareBase
import Testing

@testable import NearshareInterfaces

@Suite("untrusted claims about services")
struct SightingTests {
    private func claim(
        instance: [UInt8] = Array("anna".utf8), address: IPAddress = .v4(0x0a00_0001), port: UInt16 = 1, txt: [[UInt8]] = [],
        isOnLoopback: Bool = false
    ) -> ServiceClaim {
        ServiceClaim(
            instance: instance, address: address, port: port, txt: txt, interfaceIndex: 3, interfaceName: "eth0",
            isOnLoopback: isOnLoopback, isIPv6: address.isIPv6, isOwn: false)
    }

    @Test("an honest claim becomes a sighting")
    func honest() throws {
        let sighting = try #require(ServiceSighting(claim(txt: [[1, 2]])))
        #expect(sighting.address == LinkAddress(host: "10.0.0.1", port: 1))
        #expect(sighting.key == ServiceSighting.Key(instance: "anna", interfaceIndex: 3, isIPv6: false))
        #expect(sighting.txt == [[1, 2]])
    }

    @Test("a link-local IPv6 address gets its zone, another does not")
    func zone() throws {
        let local = try #require(IPAddress(bytes: [0xfe, 0x80] + [UInt8](repeating: 0, count: 13) + [1]))
        #expect(ServiceSighting(claim(address: local))?.address.host == "fe80::1%eth0")
        let global = try #require(IPAddress(bytes: [0x20, 0x01, 0x0d, 0xb8] + [UInt8](repeating: 0, count: 11) + [1]))
        #expect(ServiceSighting(claim(address: global))?.address.host == "2001:db8::1")
    }

    @Test(
        "D7: addresses that no machine on the link can have are dropped",
        arguments: [
            .v4(0), .v4(0x0001_0203), .v4(0xe000_00fb), .v4(0xffff_ffff), .v4(0xf000_0001), .v4(0x7f00_0001), .v6(0, 0),
            .v6(0, 1), .v6(0xff02 << 48, 0xfb), .v6(0, 0xffff_0a00_0001), .v6(0, 0x0a00_0001),
        ] as [IPAddress])
    func unreachable(_ address: IPAddress) {
        #expect(ServiceSighting(claim(address: address)) == nil)
    }

    @Test("D7: loopback is believed over loopback only")
    func loopback() {
        #expect(ServiceSighting(claim(address: .v4(0x7f00_0001), isOnLoopback: true)) != nil)
        #expect(ServiceSighting(claim(address: .v6(0, 1), isOnLoopback: true)) != nil)
        #expect(ServiceSighting(claim(address: .v6(0, 0), isOnLoopback: true)) == nil)
    }

    @Test("D3: port 0 is dropped")
    func port() { #expect(ServiceSighting(claim(port: 0)) == nil) }

    @Test(
        "D4: instance names that are empty, too long, hold NUL or are not UTF-8 are dropped",
        arguments: [[], [UInt8](repeating: 97, count: 64), [97, 0, 98], [0xff, 0xfe], [0xc3]] as [[UInt8]])
    func badNames(_ name: [UInt8]) { #expect(ServiceSighting(claim(instance: name)) == nil) }

    @Test("D4: names with slashes, dots and quotes stay what they are: text", arguments: ["../x", "/etc/passwd", "\"'`$(id)"])
    func text(_ name: String) { #expect(ServiceSighting(claim(instance: Array(name.utf8)))?.key.instance == name) }

    @Test("D3: TXT is bounded in count, in length and in all; empty strings say nothing")
    func txt() {
        #expect(ServiceSighting.bounded([[], [1], []]) == [[1]])
        #expect(ServiceSighting.bounded(.init(repeating: [1], count: 1000)).count == 16)
        #expect(ServiceSighting.bounded([[1], [UInt8](repeating: 2, count: 256), [3]]) == [[1]])
        #expect(ServiceSighting.bounded(.init(repeating: [UInt8](repeating: 2, count: 255), count: 16)).count == 5)
    }

    @Test(
        "addresses are written as RFC 5952 says",
        arguments: [
            (IPAddress.v6(0, 0), "::"), (.v6(0, 1), "::1"), (.v6(0x2001_0db8 << 32, 1), "2001:db8::1"),
            (.v6(0x2001_0db8_0000_0001, 0x0001_0001_0001_0001), "2001:db8:0:1:1:1:1:1"),
            (.v6(0x2001_0db8_0000_0000, 0x0001_0000_0000_0001), "2001:db8::1:0:0:1"),
            (.v6(0x2001_0000_0000_0001, 0x0000_0000_0000_0001), "2001:0:0:1::1"), (.v6(1 << 48, 0), "1::"),
            (.v4(0x7f00_0001), "127.0.0.1"),
        ])
    func written(_ address: IPAddress, _ text: String) {
        #expect(address.description == text)
        #expect(IPAddress(bytes: address.bytes) == address)
    }

    @Test("two addresses share a link when their first bits do")
    func prefixes() {
        #expect(IPAddress.v4(0x0a00_0001).shares(prefixLength: 24, with: .v4(0x0a00_00ff)))
        #expect(!IPAddress.v4(0x0a00_0001).shares(prefixLength: 24, with: .v4(0x0a00_0101)))
        #expect(IPAddress.v4(0x0a00_0001).shares(prefixLength: 23, with: .v4(0x0a00_0101)))
        #expect(IPAddress.v4(1).shares(prefixLength: 0, with: .v4(0xff00_0000)))
        #expect(!IPAddress.v4(1).shares(prefixLength: 33, with: .v4(1)))
        #expect(!IPAddress.v4(1).shares(prefixLength: 0, with: .v6(0, 1)))
    }
}

@Suite("the table of sightings")
struct SightingTableTests {
    private func sighting(_ number: Int, port: UInt16 = 1) -> ServiceSighting {
        ServiceSighting(
            key: .init(instance: "\(number)", interfaceIndex: 2, isIPv6: false),
            address: LinkAddress(host: "10.0.0.1", port: port),
            txt: [], isOwn: false)
    }

    private func at(_ seconds: Int64) -> MonotonicInstant { MonotonicInstant(nanoseconds: seconds * 1_000_000_000) }

    @Test("says a thing once, and again when it has changed")
    func changes() {
        var table = SightingTable()
        #expect(table.insert(sighting(1)) == [.seen(sighting(1))])
        #expect(table.insert(sighting(1)) == [])
        #expect(table.insert(sighting(1, port: 2)) == [.seen(sighting(1, port: 2))])
        #expect(table.remove(sighting(1).key) == [.gone(sighting(1).key)])
        #expect(table.remove(sighting(1).key) == [])
    }

    @Test("what only a quick answer said is gone at its deadline, unless the engine confirms it")
    func deadlines() {
        var table = SightingTable()
        #expect(table.insert(sighting(1), until: at(10)).count == 1)
        #expect(table.insert(sighting(2), until: at(10)).count == 1)
        #expect(table.insert(sighting(1)) == [])
        #expect(table.nextDeadline == at(10))
        #expect(table.expire(at: at(9)) == [])
        #expect(table.expire(at: at(10)) == [.gone(sighting(2).key)])
        #expect(table.nextDeadline == nil)
    }

    @Test("D1: a quick answer does not change what the engine has confirmed")
    func lateAnswer() {
        var table = SightingTable()
        _ = table.insert(sighting(1))
        #expect(table.insert(sighting(1, port: 666), until: at(10)) == [])
        #expect(table.insert(sighting(1)) == [])
    }

    @Test("an engine that starts anew has to confirm what is to stay")
    func doubt() {
        var table = SightingTable()
        _ = table.insert(sighting(1))
        _ = table.insert(sighting(2))
        table.markUnconfirmed(until: at(5))
        #expect(table.insert(sighting(2)) == [])
        #expect(table.expire(at: at(5)) == [.gone(sighting(1).key)])
    }

    @Test("R6: past its capacity the one not heard of for longest goes")
    func capacity() {
        var table = SightingTable()
        for number in 0..<SightingTable.capacity { _ = table.insert(sighting(number)) }
        _ = table.insert(sighting(0, port: 2))
        #expect(table.insert(sighting(5000)) == [.gone(sighting(1).key), .seen(sighting(5000))])
        #expect(table.count == SightingTable.capacity)
    }

    @Test("R6: a flood of 2000 services leaves a bounded table and a bounded buffer")
    func flood() async throws {
        let segment = InMemorySegment()
        let host = segment.join(host: "10.0.0.1")
        let stream = try host.browse(for: .nearshare, interface: nil)
        for number in 0..<2000 {
            segment.claim(
                ServiceClaim(
                    instance: Array("flood \(number)".utf8), address: .v4(0x0a00_0002), port: 9, txt: [], interfaceIndex: 2,
                    interfaceName: "memory0", isOnLoopback: false, isIPv6: false, isOwn: false), type: .nearshare)
        }
        let last = try host.advertise(Advertisement(instance: "last", type: .nearshare, port: 1, txt: []))
        var events: [DiscoveryEvent] = []
        for try await event in stream {
            events.append(event)
            if case .seen(let sighting) = event, sighting.key.instance == "last" { break }
        }
        #expect(events.count == DiscoveryEvent.bufferLimit)
        last.stop()
    }

    @Test("a host without its cable is gone for others, and back with it")
    func cable() async throws {
        let segment = InMemorySegment()
        let (one, two) = (segment.join(host: "10.0.0.1"), segment.join(host: "10.0.0.2"))
        let advertisement = try one.advertise(Advertisement(instance: "a", type: .nearshare, port: 1, txt: []))
        var events = try two.browse(for: .nearshare, interface: nil).makeAsyncIterator()
        let sighting = try await events.next()
        #expect(try await events.next() == .settled)
        segment.setConnected(false, host: "10.0.0.2")
        guard case .seen(let seen)? = sighting else {
            Issue.record("not seen")
            return
        }
        #expect(try await events.next() == .gone(seen.key))
        segment.setConnected(true, host: "10.0.0.2")
        #expect(try await events.next() == sighting)
        withExtendedLifetime(advertisement) {}
    }
}
