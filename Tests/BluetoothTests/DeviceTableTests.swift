import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareBluetooth

@Suite("devices that are remembered in a crowd")
struct DeviceTableTests {
    private func device(_ number: Int, rssi: Int) throws -> RemoteDevice {
        let address = try #require(BluetoothAddress(DeviceFixtures.address(number), kind: "random"))
        var device = RemoteDevice(path: "/\(number)", address: address, now: MonotonicInstant(nanoseconds: 0))
        device.properties.rssi = rssi
        return device
    }

    private func add(_ new: RemoteDevice, to table: inout DeviceTable) -> Bool {
        guard let admission = table.admission(rssi: new.properties.rssi) else { return false }
        if case .replacing(let path) = admission { table.remove(path) }
        table.insert(new)
        return true
    }

    @Test("of a thousand, the table keeps as many as it has room for, the near one among them", arguments: [0, 500, 999])
    func crowd(_ place: Int) throws {
        var table = DeviceTable()
        for number in 0..<1000 {
            if number == place { #expect(add(try device(5000, rssi: -55), to: &table)) }
            _ = add(try device(number, rssi: -85), to: &table)
            #expect(table.count <= DeviceTable.capacity)
        }
        #expect(table["/5000"] != nil)
    }

    @Test("connected devices, and those being connected to, are kept however weak they are")
    func busy() throws {
        var table = DeviceTable()
        for number in 0..<DeviceTable.capacity {
            var one = try device(number, rssi: -100)
            if number < 10 { one.properties.isConnected = true } else if number < 20 { one.connection = .ready }
            #expect(add(one, to: &table))
        }
        for number in 1000..<2000 { _ = add(try device(number, rssi: -30), to: &table) }
        #expect((0..<20).allSatisfy { table["/\($0)"] != nil })
        #expect(table.count == DeviceTable.capacity)
    }

    @Test("a device that could not be reached makes room for any other")
    func failed() throws {
        var table = DeviceTable()
        for number in 0..<DeviceTable.capacity { #expect(add(try device(number, rssi: -40), to: &table)) }
        #expect(!add(try device(1000, rssi: -90), to: &table))
        table.update("/7") { $0.recordFailure(at: MonotonicInstant(nanoseconds: 0)) }
        #expect(add(try device(1000, rssi: -90), to: &table))
        #expect(table["/7"] == nil)
    }

    @Test("an unknown path is neither updated nor removed")
    func unknown() {
        var table = DeviceTable()
        #expect(table.update("/x") { $0.path } == nil)
        #expect(table.remove("/x") == nil)
        #expect(table.admission(rssi: -100) == .free)
    }
}

@Suite("remote devices")
struct RemoteDeviceTests {
    private func device(isNew: Bool = false) throws -> RemoteDevice {
        let address = try #require(BluetoothAddress("C0:00:00:00:00:03", kind: "random"))
        var device = RemoteDevice(path: "/1", address: address, now: DeviceFixtures.at(0))
        device.origin.isNewToBlueZ = isNew
        return device
    }

    @Test("a device that BlueZ learns of by its connecting has connected by itself, also when it comes again")
    func incoming() throws {
        var one = try device(isNew: true)
        one.recordIncomingConnection(at: DeviceFixtures.at(1))
        #expect(one.origin.hasConnectedToUs)
        one.recordIncomingConnection(at: DeviceFixtures.at(100))
        #expect(one.origin.hasConnectedToUs)
        #expect(one.lastActivity == DeviceFixtures.at(100))
    }

    @Test("not one that was known or in range before: another local program may have connected to it")
    func known() throws {
        var known = try device()
        known.recordIncomingConnection(at: DeviceFixtures.at(1))
        #expect(!known.origin.hasConnectedToUs)
        var late = try device(isNew: true)
        late.recordIncomingConnection(at: DeviceFixtures.at(4))
        #expect(!late.origin.hasConnectedToUs)
    }

    @Test("attempts have numbers of their own")
    func attempts() throws {
        var one = try device()
        let attempts = (0..<3).map { one.makeAttempt(deadline: DeviceFixtures.at(Double($0))) }
        #expect(attempts.map(\.number) == [1, 2, 3])
        #expect(attempts[2].with(deadline: DeviceFixtures.at(9)).number == 3)
    }

    @Test("devices that fail at one time do not retry at one time")
    func jitter() throws {
        var one = try device()
        one.recordFailure(at: DeviceFixtures.at(10))
        #expect(one.backoff.nextAttempt == DeviceFixtures.at(11) + .milliseconds(150), "the last byte of the address is 3")
    }

    @Test("a sighting needs a record with a channel")
    func sighting() throws {
        var one = try device()
        #expect(one.sighting == nil)
        one.record = ServiceRecord(psm: 0, txt: [])
        #expect(one.sighting == nil)
        one.record = ServiceRecord(psm: 0x90, txt: [[1]])
        let sighting = try #require(one.sighting)
        #expect(sighting.address == LinkAddress(host: "C0:00:00:00:00:03/random", port: 0x90, medium: .bluetooth))
        #expect(!sighting.isOwn && sighting.txt == [[1]] && sighting.key.interfaceIndex < 0)
    }

    @Test("characteristics are found by UUID, and removed by path")
    func characteristics() {
        var paths = RemoteCharacteristics()
        paths.add("/a", uuid: GATTProfile.meshCharacteristic)
        paths.add("/b", uuid: GATTProfile.recordCharacteristic)
        paths.add("/c", uuid: "00002a00-0000-1000-8000-00805f9b34fb")
        #expect(paths == RemoteCharacteristics(frames: "/a", record: "/b"))
        paths.remove("/a")
        #expect(paths == RemoteCharacteristics(frames: nil, record: "/b"))
        paths.remove("/b")
        #expect(paths == RemoteCharacteristics())
    }

    @Test("properties are applied as BlueZ reports them")
    func properties() {
        var properties = DeviceProperties()
        properties.apply(
            [
                "Name": .string("anna"), "RSSI": .int16(-44), "Trusted": .boolean(true),
                "UUIDs": .strings([GATTProfile.meshService.uppercased(), GATTProfile.attributeService]),
            ], invalidated: [])
        #expect(properties.name == "anna" && properties.rssi == -44 && properties.isInRange && properties.isKeptByUser)
        #expect(properties.offersMesh && properties.hasCachedServices && !properties.offersBlueChat)
        properties.apply(["UUIDs": .strings([BlueChat.service])], invalidated: ["RSSI"])
        #expect(!properties.offersMesh && properties.offersBlueChat && !properties.isInRange)
        #expect(properties.rssi == -44, "the last value stays, to order devices by")
        properties.apply(["RSSI": .string("loud"), "UUIDs": .boolean(true)], invalidated: [])
        #expect(!properties.isInRange && properties.offersBlueChat, "values of other types are ignored")
        properties.apply(["Paired": .boolean(true)], invalidated: [])
        properties.apply(["Trusted": .boolean(false)], invalidated: [])
        #expect(properties.isKeptByUser, "paired, though no longer trusted")
        properties.apply(["Paired": .boolean(false)], invalidated: [])
        #expect(!properties.isKeptByUser)
    }

    @Test("only states that wait for a reply have a deadline")
    func states() throws {
        var one = try device()
        let attempt = one.makeAttempt(deadline: DeviceFixtures.at(5))
        let waiting: [ConnectionState] = [
            .connecting(attempt, wasConnected: false), .resolvingServices(attempt), .listingServices(attempt),
            .readingRecord(attempt), .acquiringNotifications(attempt),
            .acquiringWrites(attempt, notifications: OwnedDescriptor(-1)),
        ]
        #expect(waiting.allSatisfy { $0.isInProgress && $0.deadline == DeviceFixtures.at(5) && !$0.isIdle })
        let others: [ConnectionState] = [.idle, .ready, .linked(attempt: 1, since: DeviceFixtures.at(1))]
        #expect(others.allSatisfy { !$0.isInProgress && $0.deadline == nil })
        #expect(Set((waiting + others).map(\.label)).count == 9, "logs tell them apart")
    }
}

@Suite("back-off")
struct RetryBackoffTests {
    @Test("delays double from one second to a minute, and start again after success")
    func delays() {
        var backoff = RetryBackoff(firstAttempt: DeviceFixtures.at(0))
        #expect(backoff.nextAttempt == DeviceFixtures.at(0))
        var delays: [Double] = []
        for _ in 0..<9 {
            backoff.recordFailure(at: DeviceFixtures.at(100))
            delays.append((backoff.nextAttempt - DeviceFixtures.at(100)).inSeconds)
        }
        #expect(delays == [1, 2, 4, 8, 16, 32, 60, 60, 60])
        #expect(backoff.failureCount == 9)
        backoff.recordSuccess()
        backoff.recordFailure(at: DeviceFixtures.at(100), jitter: .milliseconds(50))
        #expect(backoff.nextAttempt == DeviceFixtures.at(101) + .milliseconds(50))
    }

    @Test("a time can be set without a failure")
    func scheduled() {
        var backoff = RetryBackoff(firstAttempt: DeviceFixtures.at(0))
        backoff.schedule(at: DeviceFixtures.at(7))
        #expect(backoff.failureCount == 0 && backoff.nextAttempt == DeviceFixtures.at(7))
    }
}
