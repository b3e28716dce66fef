import NearshareBase
import Testing

@testable import NearshareBluetooth

@Suite("Who is remembered in a crowd")
struct NeighbourhoodTests {
    private func neighbour(_ number: Int, strength: Int) -> Neighbour {
        let address = BluetoothAddress("C0:00:00:00:0\(number >> 8 & 0xF):\(hex(number))", kind: "random")!
        var neighbour = Neighbour(path: "/\(number)", address: address, since: MonotonicInstant(nanoseconds: 0))
        neighbour.strength = strength
        return neighbour
    }

    private func hex(_ number: Int) -> String {
        let text = String(number & 0xFF, radix: 16)
        return text.count == 2 ? text : "0" + text
    }

    private func take(_ new: Neighbour, into all: inout DeviceTable) -> Bool {
        guard let room = all.room(forStrength: new.strength) else { return false }
        if case .taken(let path) = room { all[path] = nil }
        all[new.path] = new
        return true
    }

    @Test(
        "of a thousand, so many are remembered as there is room for, and whoever is near is among them",
        arguments: [0, 500, 999])
    func crowd(_ place: Int) {
        var all = DeviceTable()
        for number in 0..<1000 {
            if number == place { #expect(take(neighbour(5000, strength: -55), into: &all)) }
            _ = take(neighbour(number, strength: -85), into: &all)
            #expect(all.values.count <= DeviceTable.capacity)
        }
        #expect(all["/5000"] != nil)
    }

    @Test("those that something is going on with are kept, however weak they are")
    func busy() {
        var all = DeviceTable()
        for number in 0..<DeviceTable.capacity {
            var one = neighbour(number, strength: -100)
            if number < 10 { one.isConnected = true } else if number < 20 { one.phase = .attached }
            #expect(take(one, into: &all))
        }
        for number in 1000..<2000 { _ = take(neighbour(number, strength: -30), into: &all) }
        #expect((0..<20).allSatisfy { all["/\($0)"] != nil })
        #expect(all.values.count == DeviceTable.capacity)
    }

    @Test("one that could not be reached makes room for anybody")
    func failed() {
        var all = DeviceTable()
        for number in 0..<DeviceTable.capacity { #expect(take(neighbour(number, strength: -40), into: &all)) }
        #expect(!take(neighbour(1000, strength: -90), into: &all))
        all["/7"]!.failures = 1
        #expect(take(neighbour(1000, strength: -90), into: &all))
        #expect(all["/7"] == nil)
    }
}

@Suite("Who has connected to us by themselves")
struct CallerTests {
    private func neighbour(isNew: Bool) -> Neighbour {
        let address = BluetoothAddress("C0:00:00:00:00:01", kind: "random")!
        var neighbour = Neighbour(path: "/1", address: address, since: MonotonicInstant(nanoseconds: 0))
        neighbour.isNew = isNew
        return neighbour
    }

    @Test("one that BlueZ learns of by its connecting, and that stays so when it comes again")
    func caller() {
        var one = neighbour(isNew: true)
        one.wasConnectedTo(at: one.since + .seconds(1))
        #expect(one.isCaller)
        one.wasConnectedTo(at: one.since + .seconds(100))
        #expect(one.isCaller)
    }

    @Test("not one that was known or heard before: another program here may have connected to it")
    func known() {
        var known = neighbour(isNew: false)
        known.wasConnectedTo(at: known.since + .seconds(1))
        #expect(!known.isCaller)
        var late = neighbour(isNew: true)
        late.wasConnectedTo(at: late.since + Neighbour.courtesyTime)
        #expect(!late.isCaller)
    }
}
