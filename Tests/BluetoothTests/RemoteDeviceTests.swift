import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareBluetooth

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
        #expect(one.origin.hasConnectedByItself)
        one.recordIncomingConnection(at: DeviceFixtures.at(100))
        #expect(one.origin.hasConnectedByItself)
        #expect(one.lastActivity == DeviceFixtures.at(100))
    }

    @Test("not one that was known or in range before: another local program may have connected to it")
    func known() throws {
        var known = try device()
        known.recordIncomingConnection(at: DeviceFixtures.at(1))
        #expect(!known.origin.hasConnectedByItself)
        var late = try device(isNew: true)
        late.recordIncomingConnection(at: DeviceFixtures.at(4))
        #expect(!late.origin.hasConnectedByItself)
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
