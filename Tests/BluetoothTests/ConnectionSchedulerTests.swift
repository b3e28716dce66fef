import NearshareBase
import NearshareDBus
import NearshareInterfaces
import Testing

@testable import NearshareBluetooth

private typealias F = DeviceFixtures

/// A scheduler with one device, driven through the states of a connection.
private struct Rig {
    var scheduler = ConnectionScheduler()
    var context: ConnectionScheduler.Context
    var now = F.at(100)
    let number: Int
    var path: String { F.path(number) }

    init(_ number: Int = 1, context: ConnectionScheduler.Context? = nil) throws {
        self.number = number
        self.context = try context ?? .fixture()
        #expect(add(number).isEmpty)
    }

    @discardableResult
    mutating func add(_ number: Int, _ properties: BlueZ.Properties? = nil, isNew: Bool = false) -> [ConnectionReaction] {
        scheduler.add(F.path(number), properties ?? F.properties(number), isNew: isNew, at: now, in: context)
    }

    mutating func tick() -> [ConnectionReaction] { scheduler.tick(at: now, in: context).calls }

    mutating func update(_ changed: BlueZ.Properties, invalidated: [String] = []) -> [ConnectionReaction] {
        scheduler.update(path, changed, invalidated: invalidated, at: now, in: context).calls
    }

    mutating func reply(_ reply: DeviceReply, attempt: Int) -> [ConnectionReaction] {
        scheduler.handle(reply, attempt: attempt, of: path, at: now, in: context).calls
    }

    mutating func addCharacteristics(withRecord: Bool = true) {
        scheduler.addCharacteristic(F.framesPath(number), uuid: GATTProfile.meshCharacteristic, of: path)
        if withRecord {
            scheduler.addCharacteristic(F.recordPath(number), uuid: GATTProfile.recordCharacteristic, of: path)
        }
    }

    /// Connects and reads the record.
    mutating func makeReady(record: ServiceRecord? = ServiceRecord(psm: 0x80, txt: [])) throws {
        let connecting = try #require(tick().attempt)
        #expect(update(["Connected": .boolean(true)]).isEmpty)
        #expect(reply(.connected, attempt: connecting).isEmpty)
        addCharacteristics(withRecord: record != nil)
        let listing = try #require(update(["ServicesResolved": .boolean(true)]).attempt)
        let reading = reply(.servicesListed, attempt: listing)
        if let record { _ = reply(.record(record.bytes), attempt: try #require(reading.attempt)) }
        #expect(device.connection.isReady)
    }

    /// Acquires both sockets.
    mutating func makeLinked() throws {
        try makeReady()
        let notifying = try #require(tick().attempt)
        let writing = try #require(reply(.notifications(OwnedDescriptor(-1)), attempt: notifying).attempt)
        let opened = reply(.writing(OwnedDescriptor(-1), mtu: 517), attempt: writing)
        #expect(opened.count == 1)
        #expect(device.connection.isLinked)
    }

    var device: RemoteDevice { scheduler.devices[path] ?? RemoteDevice(path: path, address: context.localAddress, now: now) }
}

@Suite("connections as a central")
struct ConnectionSchedulerTests {
    @Test("a device with bitchat's service is connected to, its record read, and its sockets acquired")
    func story() throws {
        var rig = try Rig()
        #expect(rig.tick() == [.stopDiscovery, .call(.connect, path: rig.path, attempt: 1)])
        #expect(rig.tick().isEmpty, "one connection at a time")
        #expect(rig.update(["Connected": .boolean(true)]).isEmpty, "an own connection changes nothing for advertising")
        #expect(rig.reply(.connected, attempt: 1).isEmpty)
        #expect(rig.device.origin.isOutgoing)
        rig.addCharacteristics()
        #expect(
            rig.update(["ServicesResolved": .boolean(true)]) == [.call(.listServices, path: rig.path, attempt: 1)])
        #expect(
            rig.reply(.servicesListed, attempt: 1)
                == [.call(.readRecord(characteristic: F.recordPath(1)), path: rig.path, attempt: 2)])
        let record = ServiceRecord(psm: 0x85, txt: [[1]])
        let reactions = rig.reply(.record(record.bytes), attempt: 2)
        guard case .emit(.seen(let sighting))? = reactions.first, reactions.count == 1 else {
            Issue.record("no sighting: \(reactions)")
            return
        }
        #expect(sighting.address.port == 0x85)
        #expect(sighting.txt == [[1]])
        #expect(rig.device.connection.isReady)
        #expect(
            rig.tick() == [.call(.acquireNotify(characteristic: F.framesPath(1)), path: rig.path, attempt: 3)])
        let (notifications, writing) = (OwnedDescriptor(-1), OwnedDescriptor(-1))
        #expect(
            rig.reply(.notifications(notifications), attempt: 3)
                == [.call(.acquireWrite(characteristic: F.framesPath(1)), path: rig.path, attempt: 4)])
        #expect(
            rig.reply(.writing(writing, mtu: 185), attempt: 4)
                == [
                    .openLink(
                        path: rig.path, attempt: 4,
                        .init(writing: writing, notifications: notifications, mtu: 185))
                ])
        #expect(rig.scheduler.linkCount == 1)
        #expect(rig.tick().isEmpty)
    }

    @Test("services that were resolved before the reply to Connect are listed at once")
    func resolvedEarly() throws {
        var rig = try Rig()
        let attempt = try #require(rig.tick().attempt)
        _ = rig.update(["Connected": .boolean(true)])
        #expect(rig.update(["ServicesResolved": .boolean(true)]).isEmpty)
        #expect(rig.reply(.connected, attempt: attempt) == [.call(.listServices, path: rig.path, attempt: attempt)])
    }

    @Test("a phone without nearshare's record is ready at once")
    func withoutRecord() throws {
        var rig = try Rig()
        try rig.makeReady(record: nil)
        #expect(rig.device.sighting == nil)
        #expect(rig.tick().attempt != nil, "frames go to it all the same")
    }

    @Test("a device without bitchat's characteristic fails")
    func withoutCharacteristic() throws {
        var rig = try Rig()
        let attempt = try #require(rig.tick().attempt)
        _ = rig.update(["Connected": .boolean(true)])
        _ = rig.reply(.connected, attempt: attempt)
        _ = rig.update(["ServicesResolved": .boolean(true)])
        #expect(rig.reply(.servicesListed, attempt: attempt) == [.disconnect(path: rig.path)])
        #expect(rig.device.connection.isIdle)
        #expect(rig.device.backoff.failureCount == 1)
    }

    @Test("where only peers are browsed for, a device stays ready without frames")
    func browsingOnly() throws {
        var rig = try Rig(
            context: .fixture {
                $0.wantsFrames = false
                $0.wantsPeers = true
            })
        try rig.makeReady()
        #expect(rig.tick().isEmpty)
        rig.context.wantsFrames = true
        #expect(rig.tick().attempt != nil)
    }

    @Test("a record that is malformed is none, and the device is used for frames")
    func malformedRecord() throws {
        var rig = try Rig()
        let connecting = try #require(rig.tick().attempt)
        _ = rig.update(["Connected": .boolean(true)])
        _ = rig.reply(.connected, attempt: connecting)
        rig.addCharacteristics()
        _ = rig.update(["ServicesResolved": .boolean(true)])
        let reading = try #require(rig.reply(.servicesListed, attempt: connecting).attempt)
        #expect(rig.reply(.record([9, 9]), attempt: reading).isEmpty)
        #expect(rig.device.record == nil)
        #expect(rig.device.connection.isReady)
    }

    @Test("sockets no longer needed are closed, and the device stays ready")
    func unsubscribedMeanwhile() throws {
        var rig = try Rig()
        try rig.makeReady()
        let notifying = try #require(rig.tick().attempt)
        let writing = try #require(rig.reply(.notifications(OwnedDescriptor(-1)), attempt: notifying).attempt)
        rig.context.wantsFrames = false
        #expect(rig.reply(.writing(OwnedDescriptor(-1), mtu: 100), attempt: writing).isEmpty)
        #expect(rig.device.connection.isReady)
    }

    @Test("without a descriptor in the reply, the attempt fails", arguments: [true, false])
    func noDescriptor(_ isNotification: Bool) throws {
        var rig = try Rig()
        try rig.makeReady()
        var attempt = try #require(rig.tick().attempt)
        if isNotification {
            #expect(rig.reply(.notifications(nil), attempt: attempt) == [.disconnect(path: rig.path)])
        } else {
            attempt = try #require(rig.reply(.notifications(OwnedDescriptor(-1)), attempt: attempt).attempt)
            #expect(rig.reply(.writing(nil, mtu: 0), attempt: attempt) == [.disconnect(path: rig.path)])
        }
        #expect(rig.device.connection.isIdle)
    }

    // MARK: Who is connected to

    @Test("devices without bitchat's service, out of range, served by this machine, or past the limit are not connected to")
    func eligibility() throws {
        var other = try Rig()
        _ = other.update(["UUIDs": .strings([BlueChat.service])])
        #expect(other.tick().isEmpty)
        var away = try Rig()
        _ = away.update([:], invalidated: ["RSSI"])
        #expect(away.tick().isEmpty)
        var served = try Rig()
        served.context.servedPaths = [served.path]
        #expect(served.tick().isEmpty)
        var off = try Rig()
        off.context.isPowered = false
        #expect(off.tick().isEmpty)
        var unwanted = try Rig()
        unwanted.context.wantsFrames = false
        #expect(unwanted.tick().isEmpty)
        var busy = try Rig()
        busy.context.isBlueChatConnecting = true
        #expect(busy.tick().isEmpty)
    }

    @Test("no more than six links are opened")
    func limit() throws {
        var rig = try Rig()
        for number in 1...ConnectionScheduler.maximumLinkCount {
            var one = try Rig(number)
            one.scheduler = rig.scheduler
            one.add(number)
            try one.makeLinked()
            rig.scheduler = one.scheduler
        }
        #expect(rig.scheduler.linkCount == ConnectionScheduler.maximumLinkCount)
        rig.add(99)
        #expect(rig.tick().isEmpty)
    }

    @Test("while only browsing, six connections are ready at most: the one that has been for longest makes room, for a minute")
    func browsingInACrowd() throws {
        var rig = try Rig(
            context: .fixture {
                $0.wantsFrames = false
                $0.wantsPeers = true
            })
        let limit = ConnectionScheduler.maximumLinkCount
        func isReady(_ number: Int) -> Bool { rig.scheduler.devices[F.path(number)]?.connection.isReady == true }
        for number in 1...limit {
            var one = try Rig(number, context: rig.context)
            one.scheduler = rig.scheduler
            one.now = F.at(Double(100 + number))
            one.add(number)
            try one.makeReady()
            rig.scheduler = one.scheduler
        }
        rig.now = F.at(110)
        #expect(rig.tick().isEmpty, "all that there are")
        rig.context.heldAddresses = [try #require(rig.scheduler.devices[F.path(1)]).address]
        rig.add(99)
        #expect(
            rig.tick() == [.disconnect(path: F.path(2)), .stopDiscovery, .call(.connect, path: F.path(99), attempt: 1)],
            "a channel keeps its connection")
        #expect(!isReady(2) && isReady(1) && (3...limit).allSatisfy(isReady))
        #expect(rig.scheduler.devices[F.path(2)]?.sighting != nil, "its record is known")
        _ = rig.scheduler.update(
            F.path(2), ["Connected": .boolean(false)], invalidated: [], at: rig.now, in: rig.context)
        _ = rig.scheduler.handle(
            .failed("x", isAcquiredByOther: false), attempt: 1, of: F.path(99), at: rig.now, in: rig.context)
        _ = rig.scheduler.remove(F.path(99))
        rig.now = F.at(169)
        #expect(rig.tick().isEmpty)
        rig.now = F.at(170)
        #expect(rig.tick().attempt != nil, "it is looked at again")
    }

    @Test("of several, a ready device comes first, then the one with fewer failures, then the nearest")
    func order() throws {
        var rig = try Rig()
        rig.add(2, F.properties(2, rssi: -40))
        rig.add(3, F.properties(3, rssi: -80))
        var connecting = rig.tick()
        #expect(connecting.last == .call(.connect, path: F.path(2), attempt: 1), "the nearest")
        // It fails; then the next nearest is tried although the first is due again.
        _ = rig.scheduler.handle(
            .failed("x", isAcquiredByOther: false), attempt: 1, of: F.path(2), at: rig.now, in: rig.context)
        rig.now = F.at(200)
        connecting = rig.tick()
        #expect(connecting.last == .call(.connect, path: F.path(1), attempt: 1), "without failures")
    }

    @Test("of two that advertise, the one with the lower address connects, and the other waits for it")
    func courtesy() throws {
        var lower = try Rig()
        lower.context.isAdvertising = true
        #expect(lower.tick().attempt == 1, "the own address is lower")
        var higher = try Rig(
            context: .fixture { context in
                context.isAdvertising = true
                context.localAddress = BluetoothAddress("FF:00:00:00:00:00", kind: "random") ?? context.localAddress
            })
        #expect(higher.tick().isEmpty)
        #expect(higher.scheduler.nextDeadline(after: higher.now, in: higher.context) == F.at(104))
        higher.now = F.at(104)
        #expect(higher.tick().attempt == 1)
    }

    @Test("a device that has just connected by itself is about to write: it has four seconds")
    func incoming() throws {
        var rig = try Rig()
        rig.now = F.at(110)
        #expect(rig.update(["Connected": .boolean(true)]) == [.adapterConnectionsChanged])
        #expect(rig.tick().isEmpty)
        rig.now = F.at(114)
        let attempt = try #require(rig.tick().attempt)
        _ = rig.reply(.connected, attempt: attempt)
        #expect(!rig.device.origin.isOutgoing, "the connection is the other side's")
    }

    // MARK: Ends

    @Test("an attempt ends with its deadline, and BlueZ's own attempt with it")
    func timeout() throws {
        var rig = try Rig()
        _ = rig.tick()
        #expect(rig.scheduler.nextDeadline(after: rig.now, in: rig.context) == F.at(110))
        rig.now = F.at(110)
        #expect(rig.tick() == [.disconnect(path: rig.path)])
        #expect(rig.device.connection.isIdle)
        #expect(rig.device.backoff.failureCount == 1)
    }

    @Test("a reply that comes after its attempt has ended changes nothing")
    func lateReply() throws {
        var rig = try Rig()
        let first = try #require(rig.tick().attempt)
        rig.now = F.at(110)
        _ = rig.tick()
        #expect(rig.reply(.connected, attempt: first).isEmpty)
        #expect(rig.reply(.failed("late", isAcquiredByOther: false), attempt: first).isEmpty)
        #expect(rig.device.backoff.failureCount == 1, "one failure, not two")
        rig.now = F.at(130)
        let second = try #require(rig.tick().attempt)
        #expect(second != first)
        #expect(rig.reply(.connected, attempt: first).isEmpty)
        guard case .connecting = rig.device.connection else {
            Issue.record("the new attempt has been disturbed")
            return
        }
    }

    @Test("a reply of a device that was removed changes nothing")
    func removedMeanwhile() throws {
        var rig = try Rig()
        let attempt = try #require(rig.tick().attempt)
        #expect(rig.scheduler.remove(rig.path) == [.removed(path: rig.path)])
        #expect(rig.reply(.connected, attempt: attempt).isEmpty)
        #expect(rig.scheduler.devices.count == 0)
    }

    @Test("a lost connection ends what was being done with it", arguments: ["ready", "linked", "reading"])
    func lost(_ state: String) throws {
        var rig = try Rig()
        switch state {
        case "ready": try rig.makeReady()
        case "linked": try rig.makeLinked()
        default:
            let attempt = try #require(rig.tick().attempt)
            _ = rig.update(["Connected": .boolean(true)])
            _ = rig.reply(.connected, attempt: attempt)
        }
        let reactions = rig.update(["Connected": .boolean(false)])
        #expect(reactions.first == .adapterConnectionsChanged)
        #expect(reactions.contains(.closeLink(path: rig.path)) == (state == "linked"))
        #expect(rig.device.connection.isIdle)
        #expect(!rig.device.properties.isConnected && !rig.device.properties.hasResolvedServices)
        #expect(!rig.device.origin.isOutgoing)
        #expect(rig.tick().isEmpty, "not again at once")
    }

    @Test("while connecting, only the reply to Connect says how it ended")
    func lostWhileConnecting() throws {
        var rig = try Rig()
        _ = rig.tick()
        _ = rig.update(["Connected": .boolean(true)])
        _ = rig.update(["Connected": .boolean(false)])
        #expect(rig.device.connection.isInProgress)
    }

    @Test("after three failures the sighting ends, once")
    func lostSighting() throws {
        var rig = try Rig()
        try rig.makeLinked()
        let key = try #require(rig.device.sighting?.key)
        var ended = 0
        for failure in 1...4 {
            let reactions = rig.update(["Connected": .boolean(false)])
            ended += reactions.count { $0 == .emit(.gone(key)) }
            #expect(ended == (failure >= 3 ? 1 : 0))
            rig.now = rig.now + .seconds(100)
            let attempt = try #require(rig.tick().attempt)
            _ = rig.update(["Connected": .boolean(true)])
            _ = rig.reply(.connected, attempt: attempt)
        }
    }

    @Test("a closed link is followed by the end of its connection, unless the device uses it as a central")
    func closed() throws {
        for isServed in [false, true] {
            var rig = try Rig()
            try rig.makeLinked()
            guard case .linked(let attempt, _) = rig.device.connection else { return }
            if isServed { rig.context.servedPaths = [rig.path] }
            #expect(
                rig.scheduler.linkClosed(rig.path, attempt: attempt + 1, at: rig.now, in: rig.context).isEmpty, "an older link")
            #expect(
                rig.scheduler.linkClosed(rig.path, attempt: attempt, at: rig.now, in: rig.context)
                    == (isServed ? [] : [.disconnect(path: rig.path)]))
            #expect(rig.device.connection.isIdle)
        }
    }

    @Test("a link that has lasted for more than a minute resets the back-off")
    func lasting() throws {
        var rig = try Rig()
        try rig.makeLinked()
        guard case .linked(let attempt, let since) = rig.device.connection else { return }
        _ = rig.scheduler.linkClosed(rig.path, attempt: attempt, at: since + .seconds(61), in: rig.context)
        #expect(rig.device.backoff.failureCount == 1)
    }

    @Test("a characteristic that another program holds is reported at the second refusal, and not again")
    func heldElsewhere() throws {
        var rig = try Rig()
        var warnings: [String] = []
        for _ in 0..<4 {
            try rig.makeReady(record: nil)
            let attempt = try #require(rig.tick().attempt)
            for case .warn(let text) in rig.reply(.failed("in use", isAcquiredByOther: true), attempt: attempt) {
                warnings.append(text)
            }
            _ = rig.update(["Connected": .boolean(false)])
            rig.now = rig.now + .seconds(100)
        }
        #expect(warnings.count == 1)
        #expect(warnings.first?.contains("another program on this machine exchanges frames") == true)
        #expect(warnings.first?.contains("hci0") == true)
    }

    @Test("other failures between the refusals neither hide nor hasten the warning about another program")
    func heldElsewhereAmongFailures() throws {
        var rig = try Rig()
        var warnings = 0
        for isRefusal in [false, true, false, true, true] {
            try rig.makeReady(record: nil)
            let attempt = try #require(rig.tick().attempt)
            for case .warn in rig.reply(.failed("x", isAcquiredByOther: isRefusal), attempt: attempt) { warnings += 1 }
            #expect(warnings == (rig.device.refusalCount >= 2 ? 1 : 0))
            _ = rig.update(["Connected": .boolean(false)])
            rig.now = rig.now + .seconds(100)
        }
        #expect(warnings == 1)
    }

    @Test(
        "browsers hear when a device no longer accepts channels",
        arguments: [[9, 9], ServiceRecord(psm: 0, txt: []).bytes, nil])
    func recordWithdrawn(_ bytes: [UInt8]?) throws {
        var rig = try Rig()
        rig.context.wantsFrames = false
        rig.context.wantsPeers = true
        try rig.makeReady()
        let key = try #require(rig.device.sighting?.key)
        _ = rig.update(["Connected": .boolean(false)])
        #expect(rig.device.sighting != nil, "one broken connection is no departure")
        rig.now = rig.now + .seconds(100)
        let connecting = try #require(rig.tick().attempt)
        _ = rig.update(["Connected": .boolean(true)])
        _ = rig.reply(.connected, attempt: connecting)
        let listing = try #require(rig.update(["ServicesResolved": .boolean(true)]).attempt)
        if bytes == nil { rig.scheduler.removeCharacteristic(F.recordPath(1), of: rig.path) }
        var reactions = rig.reply(.servicesListed, attempt: listing)
        if let reading = reactions.attempt { reactions = rig.reply(.record(bytes), attempt: reading) }
        #expect(reactions == [.emit(.gone(key))])
        #expect(rig.device.sighting == nil && rig.device.connection.isReady)
    }

    @Test("all devices go with the daemon, links and sightings with them")
    func removeAll() throws {
        var rig = try Rig()
        try rig.makeLinked()
        rig.add(2)
        let key = try #require(rig.device.sighting?.key)
        let reactions = rig.scheduler.removeAll()
        #expect(reactions.contains(.removed(path: F.path(1))) && reactions.contains(.removed(path: F.path(2))))
        #expect(reactions.contains(.closeLink(path: F.path(1))) && reactions.contains(.emit(.gone(key))))
        #expect(rig.scheduler.devices.count == 0)
        #expect(rig.scheduler.remove(F.path(7)) == [.removed(path: F.path(7))], "other parts may know it")
    }

    // MARK: Unneeded and silent connections

    @Test("a ready connection outlives its last subscriber by ten seconds, and longer with a channel")
    func unneeded() throws {
        var rig = try Rig()
        try rig.makeReady()
        rig.context.wantsFrames = false
        #expect(rig.tick().isEmpty)
        #expect(rig.scheduler.nextDeadline(after: rig.now, in: rig.context) == F.at(110))
        rig.now = F.at(109)
        #expect(rig.tick().isEmpty)
        rig.context.heldAddresses = [rig.device.address]
        rig.now = F.at(120)
        #expect(rig.tick().isEmpty, "a channel is open")
        #expect(rig.scheduler.nextDeadline(after: rig.now, in: rig.context) == nil, "its end is an event")
        rig.context.heldAddresses = []
        #expect(rig.tick() == [.disconnect(path: rig.path)])
        #expect(rig.device.connection.isIdle)
    }

    @Test("a subscriber that comes back in time finds its connection")
    func neededAgain() throws {
        var rig = try Rig()
        try rig.makeReady()
        rig.context.wantsFrames = false
        _ = rig.tick()
        rig.now = F.at(105)
        rig.context.wantsPeers = true
        #expect(rig.tick().isEmpty)
        rig.context.wantsPeers = false
        rig.now = F.at(114)
        #expect(rig.tick().isEmpty, "the grace period starts again")
    }

    @Test("a device that connects and stays silent is disconnected after a minute")
    func silent() throws {
        var rig = try Rig()
        rig.context.wantsFrames = false
        rig.add(5, F.properties(5, rssi: nil, services: []), isNew: true)
        let path = F.path(5)
        _ = rig.scheduler.update(path, ["Connected": .boolean(true)], invalidated: [], at: rig.now, in: rig.context)
        #expect(rig.scheduler.nextDeadline(after: rig.now, in: rig.context) == F.at(160))
        rig.now = F.at(160)
        #expect(rig.tick() == [.disconnect(path: path)])
        #expect(rig.tick().isEmpty, "not again at once")
    }

    @Test("one that writes, chats, has a channel, is paired or was known before is left alone", arguments: 0..<5)
    func notSilent(_ reason: Int) throws {
        var rig = try Rig()
        rig.context.wantsFrames = false
        let path = F.path(5)
        rig.add(5, F.properties(5, rssi: reason == 4 ? -50 : nil, services: []), isNew: reason != 4)
        var changed: BlueZ.Properties = ["Connected": .boolean(true)]
        switch reason {
        case 0: rig.context.servedPaths = [path]
        case 1: rig.context.chattingPaths = [path]
        case 2: rig.context.heldAddresses = [try #require(BluetoothAddress(F.address(5), kind: "random"))]
        case 3: changed["Paired"] = .boolean(true)
        default: break
        }
        _ = rig.scheduler.update(path, changed, invalidated: [], at: rig.now, in: rig.context)
        rig.now = F.at(200)
        #expect(rig.tick().isEmpty)
    }

    // MARK: Stale services and the crowd

    @Test("a device whose cached services lack bitchat's is removed from BlueZ, once a minute")
    func stale() throws {
        var rig = try Rig()
        _ = rig.update(["UUIDs": .strings([GATTProfile.attributeService])])
        #expect(rig.tick() == [.removeFromBlueZ(path: rig.path)])
        rig.now = F.at(130)
        #expect(rig.tick().isEmpty)
        #expect(rig.scheduler.nextDeadline(after: rig.now, in: rig.context) == F.at(160))
        rig.now = F.at(160)
        #expect(rig.tick() == [.removeFromBlueZ(path: rig.path)])
    }

    @Test("a paired, connected or chatting device is not removed", arguments: 0..<3)
    func notStale(_ reason: Int) throws {
        var rig = try Rig()
        var changed: BlueZ.Properties = ["UUIDs": .strings([GATTProfile.attributeService])]
        switch reason {
        case 0: changed["Trusted"] = .boolean(true)
        case 1: changed["Connected"] = .boolean(true)
        default: changed["UUIDs"] = .strings([GATTProfile.attributeService, BlueChat.service])
        }
        _ = rig.update(changed)
        #expect(rig.tick().isEmpty)
    }

    @Test("devices outside the full table are reconsidered when they come near, four times a second at most")
    func crowd() throws {
        var rig = try Rig()
        for number in 2...DeviceTable.capacity { rig.add(number, F.properties(number, rssi: -80)) }
        #expect(rig.scheduler.devices.count == DeviceTable.capacity)
        rig.add(5000, F.properties(5000, rssi: -90))
        #expect(rig.scheduler.devices[F.path(5000)] == nil)
        func hear(_ number: Int, _ rssi: Int16) -> [ConnectionReaction] {
            rig.scheduler.update(
                F.path(number), ["RSSI": .int16(rssi)], invalidated: [], at: rig.now, in: rig.context)
        }
        #expect(hear(5000, -95).isEmpty, "not worth it")
        #expect(hear(5000, -50) == [.readProperties(path: F.path(5000))])
        #expect(hear(5001, -50).isEmpty, "the limit of reads")
        rig.now = rig.now + ConnectionScheduler.propertyReadInterval
        #expect(hear(5001, -50) == [.readProperties(path: F.path(5001))])
        let replaced = rig.add(5000, F.properties(5000, rssi: -50))
        #expect(replaced.count == 1, "another one was removed: \(replaced)")
        #expect(rig.scheduler.devices.count == DeviceTable.capacity)
    }

    // MARK: Signal strength

    @Test("an advertisement has a strength and a time; what BlueZ had received before has no time, and is left out")
    func signal() throws {
        var rig = try Rig()
        #expect(rig.device.signal == nil, "when it was received is not known")
        #expect(rig.update(["RSSI": .int16(-61)]).isEmpty, "there is no link to report it for")
        let first = SignalReading(strength: -61, time: rig.now)
        #expect(rig.device.signal == first)
        rig.now = rig.now + .seconds(12)
        _ = rig.update(["RSSI": .int16(127)])
        _ = rig.update([:], invalidated: ["RSSI"])
        rig.add(1, F.properties(1, rssi: -40))
        #expect(rig.device.signal == first, "neither a report without a value nor what was read is an advertisement")
        #expect(rig.device.properties.rssi == -40)
        _ = rig.update(["RSSI": .int16(-300)])
        #expect(rig.device.signal == SignalReading(strength: -127, time: rig.now))
        _ = rig.update(["RSSI": .int16(60)])
        #expect(rig.device.signal == SignalReading(strength: 20, time: rig.now))
        rig.add(2, F.properties(2, rssi: -70), isNew: true)
        #expect(rig.scheduler.devices[F.path(2)]?.signal == SignalReading(strength: -70, time: rig.now))
    }

    @Test("an advertisement during a link is reported for it, in both roles")
    func signalOfLink() throws {
        var rig = try Rig()
        try rig.makeLinked()
        rig.now = rig.now + .seconds(30)
        let signal = SignalReading(strength: -85, time: rig.now)
        #expect(rig.update(["RSSI": .int16(-85)]) == [.signalChanged(path: rig.path, signal)])
        #expect(rig.update(["RSSI": .int16(127)]).isEmpty)
        #expect(rig.device.signal == signal)
        var served = try Rig()
        served.context.servedPaths = [served.path]
        let other = SignalReading(strength: -55, time: served.now)
        #expect(served.update(["RSSI": .int16(-55)]) == [.signalChanged(path: served.path, other)])
    }

    @Test("a device whose strength the controller does not know is not the nearest one")
    func unknownStrength() throws {
        var rig = try Rig()
        rig.add(2, F.properties(2, rssi: 127))
        #expect(rig.scheduler.devices[F.path(2)]?.properties.rssi == DeviceProperties.minimumRSSI)
        #expect(rig.scheduler.devices[F.path(2)]?.properties.isInRange == true)
        #expect(rig.tick() == [.stopDiscovery, .call(.connect, path: rig.path, attempt: 1)])
    }

    @Test("properties without an address, or with a malformed one, are ignored")
    func noAddress() throws {
        var rig = try Rig()
        rig.add(8, ["RSSI": .int16(-40)])
        rig.add(9, F.properties(9, address: "nonsense"))
        #expect(rig.scheduler.devices.count == 1)
    }

    // MARK: Two links to one device

    @Test("of two links between two nodes, the one of the lower address stays")
    func frameAdmission() throws {
        var rig = try Rig()
        let low = rig.context.localAddress
        let high = try #require(BluetoothAddress("FF:00:00:00:00:00", kind: "random"))
        #expect(rig.scheduler.admission(ofFramesFrom: rig.path, localAddress: low) == .accepted, "there is no link yet")
        try rig.makeLinked()
        #expect(rig.scheduler.admission(ofFramesFrom: rig.path, localAddress: low) == .rejected)
        #expect(rig.scheduler.admission(ofFramesFrom: rig.path, localAddress: high) == .replacesLocalLink)
        #expect(rig.scheduler.admission(ofFramesFrom: "/other", localAddress: low) == .accepted)
    }

    @Test("the end of a channel starts the courtesy time again")
    func channelClosed() throws {
        var rig = try Rig()
        rig.scheduler.channelClosed(rig.device.address, at: F.at(150))
        #expect(rig.device.lastActivity == F.at(150))
    }

    @Test("a connection for BlueChat is taken over while it lasts")
    func adoption() throws {
        var rig = try Rig()
        rig.scheduler.adoptConnection(rig.path)
        #expect(!rig.device.origin.isOutgoing, "there is no connection")
        _ = rig.update(["Connected": .boolean(true)])
        rig.scheduler.adoptConnection(rig.path)
        #expect(rig.device.origin.isOutgoing)
        #expect(rig.scheduler.disconnectAll(in: rig.context) == [.disconnect(path: rig.path)])
        #expect(rig.scheduler.disconnectAll(in: rig.context).isEmpty)
    }

    @Test("whatever replies and reports come in whatever order, states and bounds hold", arguments: 0..<20 as Range<UInt64>)
    func noise(_ seed: UInt64) throws {
        var random = SplitMix(state: seed)
        var rig = try Rig(context: .fixture { $0.wantsPeers = true })
        var attempts: [Int] = []
        for step in 0..<300 {
            rig.now = rig.now + .milliseconds(Int(random.next() % 4000))
            var reactions: [ConnectionReaction] = []
            switch random.next() % 12 {
            case 0: reactions = rig.update(["Connected": .boolean(random.next() % 2 == 0)])
            case 1: reactions = rig.update(["ServicesResolved": .boolean(random.next() % 2 == 0)])
            case 2: reactions = rig.update(["RSSI": .int16(-50)])
            case 3: rig.addCharacteristics()
            case 4: reactions = rig.reply(.connected, attempt: attempts.last ?? 0)
            case 5: reactions = rig.reply(.servicesListed, attempt: attempts.last ?? 0)
            case 6: reactions = rig.reply(.record(ServiceRecord(psm: 1, txt: []).bytes), attempt: attempts.last ?? 0)
            case 7: reactions = rig.reply(.notifications(OwnedDescriptor(-1)), attempt: attempts.last ?? 0)
            case 8: reactions = rig.reply(.writing(OwnedDescriptor(-1), mtu: 100), attempt: attempts.last ?? 0)
            case 9:
                reactions = rig.reply(
                    .failed("x", isAcquiredByOther: random.next() % 2 == 0),
                    attempt: attempts.randomElement(using: &random) ?? 0)
            case 10: rig.context.wantsFrames.toggle()
            default: reactions = rig.tick()
            }
            for case .call(_, _, let attempt) in reactions { attempts.append(attempt) }
            #expect(attempts == attempts.sorted(), "attempts are numbered in order, seed \(seed), step \(step)")
            #expect(rig.scheduler.linkCount <= 1)
            if let deadline = rig.device.connection.deadline {
                #expect(deadline <= rig.now + ConnectionScheduler.connectTimeout, "seed \(seed), step \(step)")
            }
        }
    }
}

/// Sebastiano Vigna's splitmix64: small, and the same everywhere.
struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var z = state
        z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
        z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
        return z ^ (z >> 31)
    }
}
