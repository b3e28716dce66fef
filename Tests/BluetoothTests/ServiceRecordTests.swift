import NearshareTesting
import Testing

@testable import NearshareBluetooth

@Suite struct ServiceRecordTests {
    private func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

    @Test("what is told over GATT comes back") func roundTrip() {
        let record = ServiceRecord(psm: 0x85, txt: [bytes("v=1"), bytes("n=Ada")])
        #expect(record.bytes == [1, 0, 0x85, 3] + bytes("v=1") + [5] + bytes("n=Ada"))
        #expect(ServiceRecord(record.bytes) == record)
        #expect(ServiceRecord(ServiceRecord(psm: 0, txt: []).bytes) == ServiceRecord(psm: 0, txt: []))
    }

    @Test(
        "what is cut, of another version or too long is nothing",
        arguments: [
            [], [1], [1, 0], [2, 0, 0x80], [1, 0, 0x80, 5, 1, 2], [1, 0, 0x80] + [UInt8](repeating: 0, count: 17),
            [1, 0, 0x80] + [UInt8](repeating: 0, count: 510),
        ] as [[UInt8]]) func refused(_ bytes: [UInt8])
    {
        #expect(ServiceRecord(bytes) == nil)
    }

    @Test("P9: made-up bytes never trap, and what is taken is bounded") func madeUp() {
        let seed = UInt64.random(in: .min ... .max)
        var random = SeededRandom(seed: seed)
        for _ in 0..<5_000 {
            var bytes = random.bytes(Int(random.next() % 40))
            if !bytes.isEmpty { bytes[0] = 1 }
            guard let record = ServiceRecord(bytes) else { continue }
            #expect(record.txt.count <= ServiceRecord.maximumStringCount, "seed \(seed)")
            #expect(record.bytes == bytes, "seed \(seed)")
        }
    }

    @Test("what does not fit is left out") func tooMuch() throws {
        let long = [UInt8](repeating: 0x61, count: 255)
        let record = try #require(ServiceRecord(ServiceRecord(psm: 1, txt: [long, long]).bytes))
        #expect(record.txt == [long])
    }
}

@Suite struct BlueZTests {
    @Test("the daemon's version stands in what the adapter says that it is") func versions() {
        #expect(BlueZ.Version(modalias: "usb:v1D6Bp0246d0542") == BlueZ.Version(5, 66))
        #expect(BlueZ.Version(modalias: "usb:v1D6Bp0246d0545") == BlueZ.Version(5, 69))
        #expect(BlueZ.Version(modalias: "bluetooth:v004Cp0001d0100") == nil)
        #expect(BlueZ.Version(5, 66) < .takesLongWrites && !(BlueZ.Version(5, 72) < .takesLongWrites))
    }

    @Test("the adapter asked for, else the first that is switched on") func adapters() throws {
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

    @Test("each cause has a sentence of its own, and says what to try")
    func sentences() {
        let errors: [BluetoothError] = [
            .noBus("x"), .noDaemon, .noAdapter, .unknownAdapter("hci9", present: []), .poweredOff("hci0"),
            .blocked("hci0", byHardware: true), .blocked("hci0", byHardware: false), .notPermitted,
            .cannotAdvertise("x"),
        ]
        #expect(Set(errors.map(\.cause)).count == errors.count)
        for error in errors { #expect(error.advice != nil, "\(error)") }
    }

    @Test("addresses as BlueZ writes them, and back") func addresses() throws {
        let address = try #require(BluetoothAddress("00:AA:01:02:00:fe", kind: "random"))
        #expect(address.description == "00:AA:01:02:00:FE")
        #expect(BluetoothAddress(address.linkAddress(port: 128)) == address)
        for (text, kind) in [("00:AA:01:02:00", "public"), ("00:AA:01:02:00:GG", "public"), ("00:AA:01:02:00:FE", "other")] {
            #expect(BluetoothAddress(text, kind: kind) == nil)
        }
    }
}
