import NearshareBase
import NearshareDirect
import NearshareInterfaces
import NearshareLocalSend
import NearshareTesting
import Testing

@testable import NearshareEngine

@Suite("LocalSend devices nearby", .timeLimit(.minutes(1))) struct LocalSendDevicesTests {
    private func device(_ name: String, certificate: UInt8 = 1) throws -> LocalSendDevice {
        let fingerprint = Hex.encode([UInt8](repeating: certificate, count: 32))
        return try LocalSendDevice(decoding: Array(#"{"alias":"\#(name)","fingerprint":"\#(fingerprint)"}"#.utf8))
    }

    @Test("F17: a device that renames itself a thousand times is reported three times, and then once in ten seconds")
    func renaming() async throws {
        let clock = ManualClock()
        let devices = LocalSendDevices(own: [], clock: { clock.now })
        let events = devices.browse()
        devices.receive(try device("phone"), from: "10.0.0.2")
        for number in 0..<1_000 { devices.receive(try device("phone \(number)"), from: "10.0.0.2") }
        // Another one is not affected.
        devices.receive(try device("tablet", certificate: 2), from: "10.0.0.2")
        clock.advance(by: .seconds(10))
        devices.receive(try device("last"), from: "10.0.0.2")
        devices.receive(try device("beyond"), from: "10.0.0.2")
        devices.finish()
        var names: [String] = []
        for try await event in events {
            if case .seen(let sighting) = event, let record = PeerTXTRecord(strings: sighting.txt) {
                names.append(record.name.claimed)
            }
        }
        #expect(names == ["phone", "phone 0", "phone 1", "phone 2", "tablet", "last"])
    }
}
