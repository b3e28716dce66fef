import NearshareBase
import NearshareDBus
import NearshareInterfaces
import Testing

@testable import NearshareBluetooth

/// Devices and adapters as BlueZ would report them.
enum DeviceFixtures {
    static let adapterPath = "/org/bluez/hci0"
    static let localAddress = "00:AA:01:00:00:00"

    static func at(_ seconds: Double) -> MonotonicInstant { MonotonicInstant(nanoseconds: Int64(seconds * 1e9)) }

    static func address(_ number: Int) -> String {
        func hex(_ value: Int) -> String {
            let text = String(value & 0xFF, radix: 16, uppercase: true)
            return text.count == 2 ? text : "0" + text
        }
        return "C0:00:00:00:\(hex(number >> 8)):\(hex(number))"
    }

    static func path(_ number: Int) -> String {
        adapterPath + "/dev_" + address(number).replacing(":", with: "_")
    }

    static func framesPath(_ number: Int) -> String { path(number) + "/service0010/char0011" }
    static func recordPath(_ number: Int) -> String { path(number) + "/service0020/char0021" }

    /// The properties of a device that advertises bitchat's service.
    static func properties(
        _ number: Int, rssi: Int16? = -60, services: [String] = [GATTProfile.meshService], address text: String? = nil
    ) -> BlueZ.Properties {
        var properties: BlueZ.Properties = [
            "Address": .string(text ?? address(number)), "AddressType": .string("random"), "UUIDs": .strings(services),
        ]
        if let rssi { properties["RSSI"] = .int16(rssi) }
        return properties
    }
}

extension ConnectionScheduler.Context {
    /// An adapter with a low address, powered on, of which a subscriber takes frames.
    static func fixture(_ change: (inout Self) -> Void = { _ in }) throws -> Self {
        var context = Self(
            localAddress: try #require(BluetoothAddress(DeviceFixtures.localAddress, kind: "public")), adapterName: "hci0")
        context.wantsFrames = true
        change(&context)
        return context
    }
}

extension [ConnectionReaction] {
    /// The calls to BlueZ, without logs.
    var calls: [ConnectionReaction] {
        filter { if case .log = $0 { false } else { true } }
    }

    /// The number of the attempt that the only call starts.
    var attempt: Int? {
        for case .call(_, _, let attempt) in self { return attempt }
        return nil
    }
}
