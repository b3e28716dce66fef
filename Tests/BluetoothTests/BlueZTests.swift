import NearshareDBus
import NearshareInterfaces
import Testing

@testable import NearshareBluetooth

@Suite struct BlueZTests {
    @Test("the daemon's version is part of the adapter's modalias") func versions() {
        #expect(BlueZVersion(modalias: "usb:v1D6Bp0246d0542") == BlueZVersion(major: 5, minor: 66))
        #expect(BlueZVersion(modalias: "usb:v1D6Bp0246d0545") == BlueZVersion(major: 5, minor: 69))
        #expect(BlueZVersion(modalias: "bluetooth:v004Cp0001d0100") == nil)
        #expect(
            BlueZVersion(major: 5, minor: 66) < .acceptingLongWrites
                && !(BlueZVersion(major: 5, minor: 72) < .acceptingLongWrites))
    }

    @Test("the requested adapter is found, or else the first that is powered on") func adapters() throws {
        let objects: BlueZ.Objects = [
            "/org/bluez/hci0": [BlueZ.adapter: ["Powered": .boolean(false)]],
            "/org/bluez/hci1": [BlueZ.adapter: ["Powered": .boolean(true)]],
            "/org/bluez/hci1/dev_00": [BlueZ.device: [:]],
        ]
        #expect(try BlueZ.findAdapter(nil, in: objects).path == "/org/bluez/hci1")
        #expect(try BlueZ.findAdapter("hci0", in: objects).path == "/org/bluez/hci0")
        #expect(throws: BluetoothError.unknownAdapter("hci2", present: ["hci0", "hci1"])) {
            try BlueZ.findAdapter("hci2", in: objects)
        }
        #expect(throws: BluetoothError.noAdapter) { try BlueZ.findAdapter(nil, in: [:]) }
    }

    @Test("each error has its own cause and advice")
    func messages() {
        let errors: [BluetoothError] = [
            .noBus("x"), .noDaemon, .noAdapter, .unknownAdapter("hci9", present: []), .poweredOff("hci0"),
            .blocked("hci0", byHardware: true), .blocked("hci0", byHardware: false), .notPermitted,
            .cannotAdvertise("x"),
        ]
        #expect(Set(errors.map(\.cause)).count == errors.count)
        for error in errors { #expect(error.advice != nil, "\(error)") }
    }

    @Test("addresses are parsed as BlueZ writes them") func addresses() throws {
        let address = try #require(BluetoothAddress("00:AA:01:02:00:fe", kind: "random"))
        #expect(address.description == "00:AA:01:02:00:FE")
        #expect(BluetoothAddress(address.linkAddress(port: 128)) == address)
        for (text, kind) in [("00:AA:01:02:00", "public"), ("00:AA:01:02:00:GG", "public"), ("00:AA:01:02:00:FE", "other")] {
            #expect(BluetoothAddress(text, kind: kind) == nil)
        }
    }

    @Test("an adapter that is powered off, or without an address, cannot be used") func unusable() throws {
        func objects(_ properties: BlueZ.Properties) -> BlueZ.Objects { ["/org/bluez/hci7": [BlueZ.adapter: properties]] }
        let usable: BlueZ.Properties = ["Powered": .boolean(true), "Address": .string("00:AA:01:02:00:01")]
        let adapter = try AdapterProperties.select(nil, in: objects(usable))
        #expect(adapter.controllerName == "hci7" && adapter.isPowered && adapter.address.kind == .`public`)
        var poweredOff = usable
        poweredOff["Powered"] = .boolean(false)
        #expect(throws: BluetoothError.poweredOff("hci7")) { try AdapterProperties.select("hci7", in: objects(poweredOff)) }
        var withoutAddress = usable
        withoutAddress["Address"] = nil
        #expect(throws: BluetoothError.failed("the adapter hci7 has no address; `sudo systemctl restart bluetooth` may help")) {
            try AdapterProperties.select("hci7", in: objects(withoutAddress))
        }
    }

    @Test("object paths name devices and their addresses") func paths() {
        let device = "/org/bluez/hci0/dev_00_AA_01_02_00_FE"
        #expect(BlueZ.devicePath(of: device + "/service0010/char0011") == device)
        #expect(BlueZ.devicePath(of: device) == nil, "the device itself is not below a device")
        #expect(BlueZ.devicePath(of: "/org/bluez/hci0/player0/x") == nil)
        #expect(BlueZ.address(ofDevice: device)?.description == "00:AA:01:02:00:FE")
        #expect(BlueZ.address(ofDevice: device)?.kind == .random)
        #expect(BlueZ.address(ofDevice: "/org/bluez/hci0") == nil)
        #expect(
            BlueZ.name(of: device) == "dev_00_AA_01_02_00_FE" && BlueZ.name(of: "hci0") == "hci0" && BlueZ.name(of: "/") == "")
    }

    @Test("D-Bus errors are converted to the reasons that users see") func errors() {
        #expect(BluetoothError(DBusError(name: "org.freedesktop.DBus.Error.AccessDenied", "x")) == .notPermitted)
        #expect(BluetoothError(DBusError(name: "org.freedesktop.DBus.Error.ServiceUnknown", "x")) == .noDaemon)
        #expect(BluetoothError(DBusError(name: "org.freedesktop.DBus.Error.NameHasNoOwner", "x")) == .noDaemon)
        #expect(BluetoothError(DBusError("x")) == .failed("x"))
        #expect(BlueZ.isAcquiredByOther(DBusError(name: "org.bluez.Error.NotPermitted", "")))
        #expect(BlueZ.isAcquiredByOther(DBusError(name: "org.bluez.Error.InProgress", "")))
        #expect(!BlueZ.isAcquiredByOther(DBusError("NotPermitted")))
    }

    @Test("addresses are ordered by their bytes, and survive a round trip through sockaddr_l2") func order() throws {
        let low = try #require(BluetoothAddress("00:AA:01:02:00:FE", kind: "public"))
        let high = try #require(BluetoothAddress("00:AB:00:00:00:00", kind: "random"))
        #expect(low < high && !(high < low))
        #expect(BluetoothAddress(low.raw) == low && BluetoothAddress(high.raw) == high)
        #expect(BluetoothAddress(LinkAddress(host: "10.0.0.1", port: 1)) == nil)
        #expect(BluetoothAddress(LinkAddress(host: "00:AA:01:02:00:FE", port: 1, medium: .bluetooth)) == nil, "no kind")
    }

    @Test("a frame fits into the MTU, and into what BlueZ accepts", arguments: [(23, 20), (185, 182), (517, 510), (2000, 510)])
    func frames(_ mtu: Int, _ limit: Int) {
        #expect(GATTProfile.frameLimit(mtu: mtu) == limit)
    }
}
