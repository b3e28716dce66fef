import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareBluetooth

private typealias F = DeviceFixtures

@Suite("links of centrals")
struct CentralTableTests {
    private let queue = NotificationQueue(onNonEmpty: {})

    private func link(_ device: String) -> GATTServerLink {
        GATTServerLink(
            devicePath: device, maximumFrameByteCount: 182, remote: LinkAddress(host: device, port: 0, medium: .bluetooth),
            queue: queue, onClose: {})
    }

    @Test("writes go to the link of their central, and to no other")
    func delivery() {
        var table = CentralTable()
        let (a, b) = (link("a"), link("b"))
        #expect(table.deliver([1], from: "a", at: F.at(0)) == false)
        table.add(a, for: "a", at: F.at(0))
        table.add(b, for: "b", at: F.at(0))
        #expect(table.deliver([1], from: "a", at: F.at(1)) == true)
        #expect(table.deliver([2], from: "b", at: F.at(1)) == true)
        #expect(a.receive() == [1] && b.receive() == [2])
        #expect(table.paths == ["a", "b"] && table.count == 2 && table.contains("a"))
    }

    @Test("the signal strength of a central goes to its link, and to no other")
    func signal() {
        var table = CentralTable()
        let (a, b) = (link("a"), link("b"))
        table.add(a, for: "a", at: F.at(0))
        table.add(b, for: "b", at: F.at(0))
        let signal = SignalReading(strength: -61, time: F.at(1))
        table.setSignal(signal, of: "b")
        table.setSignal(signal, of: "c")
        #expect(a.signal == nil && b.signal == signal)
    }

    @Test("a central that is silent for 150 seconds loses its link")
    func silence() {
        var table = CentralTable()
        let (a, b) = (link("a"), link("b"))
        table.add(a, for: "a", at: F.at(0))
        table.add(b, for: "b", at: F.at(0))
        _ = table.deliver([1], from: "b", at: F.at(10))
        #expect(table.nextDeadline == F.at(150))
        table.closeSilent(at: F.at(149))
        #expect(!a.isClosed)
        table.closeSilent(at: F.at(150))
        #expect(a.isClosed && !b.isClosed)
        table.removeClosed("a")
        table.removeClosed("b")
        #expect(table.paths == ["b"])
        #expect(table.nextDeadline == F.at(160))
    }

    @Test("the end of an older link leaves a newer one of the same central")
    func replaced() {
        var table = CentralTable()
        table.add(link("a"), for: "a", at: F.at(0))
        table.close("a")
        let newer = link("a")
        table.add(newer, for: "a", at: F.at(1))
        table.removeClosed("a")
        #expect(table.contains("a") && !newer.isClosed)
        table.closeAll()
        #expect(newer.isClosed)
        table.close("unknown")
    }

    @Test("R7: eight centrals have links at the most")
    func full() {
        var table = CentralTable()
        for number in 0..<CentralTable.maximumCount {
            #expect(!table.isFull)
            table.add(link("\(number)"), for: "\(number)", at: F.at(0))
        }
        #expect(table.isFull)
    }
}

@Suite("flow control towards BlueZ")
struct NotificationWindowTests {
    @Test("half of the window is pinged, and the rest waits for the reply")
    func halves() {
        var window = NotificationWindow()
        var pings: [NotificationWindow.Ping] = []
        for number in 1...NotificationWindow.size {
            #expect(window.isOpen)
            if let ping = window.recordSent() { pings.append(ping) }
            #expect(pings.count == number / (NotificationWindow.size / 2))
        }
        #expect(!window.isOpen)
        window.recordEnd(of: pings[0])
        #expect(window.isOpen)
        for _ in 0..<NotificationWindow.size / 2 { _ = window.recordSent() }
        #expect(!window.isOpen)
        for _ in 0..<3 { window.recordEnd(of: pings[1]) }
        #expect(window.isOpen)
    }

    @Test("a reply to a ping from before a reset opens nothing")
    func lateReply() {
        var window = NotificationWindow()
        let pings = (0..<NotificationWindow.size).compactMap { _ in window.recordSent() }
        window.reset()
        for _ in 0..<NotificationWindow.size { _ = window.recordSent() }
        for ping in pings { window.recordEnd(of: ping) }
        #expect(!window.isOpen)
    }

    @Test("the count never exceeds the window, whatever the replies", arguments: 0..<20 as Range<UInt64>)
    func bounded(_ seed: UInt64) {
        var random = SplitMix(state: seed)
        var window = NotificationWindow()
        var (sent, replies) = (0, 0)
        var pings: [NotificationWindow.Ping] = []
        for _ in 0..<1000 {
            if random.next() % 3 == 0, let ping = pings.popLast() {
                replies += 1
                window.recordEnd(of: ping)
            } else if window.isOpen {
                sent += 1
                if let ping = window.recordSent() { pings.append(ping) }
            }
            #expect(sent - replies * NotificationWindow.size / 2 <= NotificationWindow.size, "seed \(seed)")
        }
        #expect(sent > NotificationWindow.size, "replies let it go on")
    }
}

@Suite("subscribers")
struct SubscriberTests {
    private func sighting() throws -> ServiceSighting {
        var device = RemoteDevice(
            path: F.path(1), address: try #require(BluetoothAddress(F.address(1), kind: "random")), now: F.at(0))
        device.record = ServiceRecord(psm: 0x80, txt: [])
        return try #require(device.sighting)
    }

    @Test("a browser is told what is known, what comes, and after three seconds that it has settled")
    func browsing() async throws {
        let (stream, continuation) = DiscoveryEvent.makeStream()
        var table = BrowserTable()
        let sighting = try sighting()
        let id = table.add(continuation, sightings: [sighting], at: F.at(0))
        #expect(!table.isEmpty && table.nextDeadline == F.at(3))
        table.tick(at: F.at(2))
        table.emit(.gone(sighting.key))
        table.tick(at: F.at(3))
        table.tick(at: F.at(4))
        #expect(table.nextDeadline == nil)
        table.finish()
        #expect(table.isEmpty)
        table.remove(id)
        var events: [DiscoveryEvent] = []
        for try await event in stream { events.append(event) }
        #expect(events == [.seen(sighting), .gone(sighting.key), .settled])
    }

    @Test("an error ends all browsers")
    func broken() async throws {
        let (stream, continuation) = DiscoveryEvent.makeStream()
        var table = BrowserTable()
        _ = table.add(continuation, sightings: [], at: F.at(0))
        table.finish(throwing: DiscoveryError("gone"))
        await #expect(throws: DiscoveryError.self) {
            for try await _ in stream {}
        }
    }

    private func link(_ closings: Monitor<Int>) -> GATTClientLink {
        GATTClientLink(
            writing: -1, notifications: -1, maximumFrameByteCount: 182,
            remote: LinkAddress(host: "a", port: 0, medium: .bluetooth), onClose: { closings.update { $0 += 1 } })
    }

    @Test("links go to the subscriber, and end with it; an older subscription does not end a newer one")
    func links() async throws {
        let closings = Monitor(0)
        var frames = FrameLinks()
        let (first, firstContinuation) = AsyncStream.makeStream(of: (any FrameLink).self)
        let (second, secondContinuation) = AsyncStream.makeStream(of: (any FrameLink).self)
        frames.subscribe(1, firstContinuation)
        frames.add(link(closings), for: "/a")
        frames.subscribe(2, secondContinuation)
        #expect(frames.unsubscribe(1) == false)
        #expect(frames.isSubscribed)
        frames.add(link(closings), for: "/b")
        #expect(frames.unsubscribe(2) == true)
        #expect(!frames.isSubscribed)
        #expect(closings.withLock { $0 } == 2)
        var counts = [0, 0]
        for await _ in first { counts[0] += 1 }
        for await _ in second { counts[1] += 1 }
        #expect(counts == [1, 1])
    }

    @Test("the signal strength of a device goes to the link that was opened to it")
    func signal() {
        let closings = Monitor(0)
        let (a, b) = (link(closings), link(closings))
        var frames = FrameLinks()
        frames.add(a, for: "/a")
        frames.add(b, for: "/b")
        let signal = SignalReading(strength: -61, time: F.at(1))
        frames.setSignal(signal, of: "/b")
        frames.setSignal(signal, of: "/c")
        #expect(a.signal == nil && b.signal == signal)
    }

    @Test("a link without a subscriber is closed at once")
    func unsubscribed() {
        let closings = Monitor(0)
        var frames = FrameLinks()
        frames.add(link(closings), for: "/a")
        #expect(closings.withLock { $0 } == 1)
        #expect(!frames.emit(link(closings)))
    }

    @Test("a closed link is removed, a newer one to the same device stays")
    func replaced() {
        let closings = Monitor(0)
        var frames = FrameLinks()
        let (stream, continuation) = AsyncStream.makeStream(of: (any FrameLink).self)
        frames.subscribe(1, continuation)
        frames.add(link(closings), for: "/a")
        frames.close("/a")
        frames.close("/unknown")
        #expect(closings.withLock { $0 } == 1)
        frames.add(link(closings), for: "/a")
        frames.removeClosed("/a")
        frames.close("/a")
        #expect(closings.withLock { $0 } == 2)
        frames.removeClosed("/a")
        withExtendedLifetime(stream) {}
    }

    @Test("a hold on discovery is released once, and tells whether a channel was open", arguments: [true, false])
    func hold(channelWasOpen: Bool) {
        let releases = Monitor([Bool]())
        let hold = DiscoveryHold { wasOpen in releases.update { $0.append(wasOpen) } }
        hold.release(channelWasOpen: channelWasOpen)
        hold.release(channelWasOpen: true)
        #expect(releases.withLock { $0 } == [channelWasOpen])
    }
}
