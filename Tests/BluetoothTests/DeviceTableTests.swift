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
        #expect(table.count == DeviceTable.capacity)
        #expect(table["/5000"] != nil)
    }

    @Test("connected devices, and those being connected to, are kept however weak they are")
    func busy() throws {
        let attempt = ConnectionAttempt(number: 1, deadline: DeviceFixtures.at(9))
        let states: [ConnectionState] = [
            .connecting(attempt, wasConnected: false), .resolvingServices(attempt), .listingServices(attempt),
            .readingRecord(attempt), .ready,
        ]
        var table = DeviceTable()
        for number in 0..<DeviceTable.capacity {
            var one = try device(number, rssi: -100)
            if number < 10 { one.properties.isConnected = true } else if number < 20 { one.connection = states[number % 5] }
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
