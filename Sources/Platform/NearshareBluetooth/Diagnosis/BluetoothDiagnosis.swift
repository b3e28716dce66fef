internal import NearshareDBus
package import NearshareInterfaces

/// Diagnoses this machine's Bluetooth without changing anything.
package enum BluetoothDiagnosis {
    /// - Parameter adapter: such as "hci0"; nil for the one that would be used.
    package static func collect(adapter: String? = nil) -> [BluetoothFinding] {
        let bus: DBusConnection
        do throws(DBusError) {
            bus = try DBusConnection()
        } catch {
            return [finding(.noBus(error.text))]
        }
        do throws(BluetoothError) {
            let objects = try BlueZ.objects(over: bus)
            let (path, properties) = try BlueZ.findAdapter(adapter, in: objects)
            return findings(
                about: BlueZ.name(of: path), properties: properties, interfaces: objects[path] ?? [:],
                devices: devices(at: path, in: objects))
        } catch {
            return [finding(error)]
        }
    }

    /// A machine without Bluetooth needs no repair.
    private static func finding(_ error: BluetoothError) -> BluetoothFinding {
        let severity: DiagnosticSeverity =
            switch error {
            case .noBus, .noDaemon, .noAdapter, .poweredOff: .notice
            case .unknownAdapter, .blocked, .notPermitted, .cannotAdvertise, .failed: .error
            }
        return BluetoothFinding(severity, error.cause, advice: error.advice)
    }

    private static func findings(
        about name: String, properties: BlueZ.Properties, interfaces: [String: BlueZ.Properties], devices: [BlueZ.Properties]
    ) -> [BluetoothFinding] {
        guard properties["Powered"]?.bool == true else {
            return [
                finding(RFKill.block(of: name).map { .blocked(name, byHardware: $0 == .hardware) } ?? .poweredOff(name))
            ]
        }
        var found = [BluetoothFinding(.ok, "the adapter \(name) (\(properties["Address"]?.string ?? "?")) is powered on")]
        if let version = properties["Modalias"]?.string.flatMap({ BlueZVersion(modalias: $0) }) {
            if version < BlueZVersion.acceptingLongWrites {
                found.append(
                    BluetoothFinding(
                        .notice, "BlueZ \(version) drops writes of phones that are longer than 510 bytes",
                        advice: "nearshare itself sends shorter ones; BlueZ 5.69 and later accept all"))
            } else {
                found.append(BluetoothFinding(.ok, "BlueZ \(version) has no known limits"))
            }
        }
        found += advertising(interfaces[BlueZ.advertisingManager])
        let bitchatDevices = devices.filter { $0["UUIDs"]?.strings?.contains(GATTProfile.meshService) ?? false }
        let text =
            switch bitchatDevices.count {
            case 0: "no device that offers bitchat's service was seen lately"
            case 1: "one device that offers bitchat's service was seen lately"
            default: "\(bitchatDevices.count) devices that offer bitchat's service were seen lately"
            }
        found.append(BluetoothFinding(.ok, text))
        return found
    }

    private static func advertising(_ manager: BlueZ.Properties?) -> [BluetoothFinding] {
        guard let manager, let used = manager["ActiveInstances"]?.integer, let free = manager["SupportedInstances"]?.integer
        else {
            return [
                BluetoothFinding(
                    .error, "the adapter cannot advertise, so others cannot find this machine over Bluetooth",
                    advice: "use an adapter with Bluetooth Low Energy (4.0 or later)")
            ]
        }
        let text = "\(used == 1 ? "1 advertisement is" : "\(used) advertisements are") on the air, \(free) more possible"
        guard free == 0 else { return [BluetoothFinding(.ok, text)] }
        return [BluetoothFinding(.error, text, advice: "stop another program that advertises")]
    }

    private static func devices(at adapter: String, in objects: BlueZ.Objects) -> [BlueZ.Properties] {
        objects.filter { $0.key.hasPrefix(adapter + "/") }.compactMap { $0.value[BlueZ.device] }
    }
}
