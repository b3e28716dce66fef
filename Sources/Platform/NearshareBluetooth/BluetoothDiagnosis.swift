internal import NearshareDBus
package import NearshareInterfaces

/// Looks at this machine's Bluetooth, and changes nothing.
package enum BluetoothDiagnosis {
    /// - Parameter adapter: such as "hci0"; nil for the one that would be used.
    package static func collect(adapter: String? = nil) -> [RadioDiagnostic] {
        let bus: SystemBus
        do throws(BusError) {
            bus = try SystemBus()
        } catch {
            return [finding(.noBus(error.text))]
        }
        do throws(BluetoothError) {
            let objects = try BlueZ.objects(over: bus)
            let (path, properties) = try BlueZ.findAdapter(adapter, in: objects)
            return findings(BlueZ.name(of: path), properties, objects[path] ?? [:], devices(at: path, in: objects))
        } catch {
            return [finding(error)]
        }
    }

    /// A machine without Bluetooth is nothing to be repaired.
    private static func finding(_ error: BluetoothError) -> RadioDiagnostic {
        let severity: RadioDiagnostic.Severity =
            switch error {
            case .noBus, .noDaemon, .noAdapter, .poweredOff: .note
            case .unknownAdapter, .blocked, .notPermitted, .cannotAdvertise, .failed: .problem
            }
        return RadioDiagnostic(severity, error.cause, advice: error.advice)
    }

    private static func findings(
        _ name: String, _ properties: BlueZ.Properties, _ interfaces: [String: BlueZ.Properties], _ devices: [BlueZ.Properties]
    ) -> [RadioDiagnostic] {
        guard properties["Powered"]?.flag == true else {
            return [
                finding(RFKill.blocking(name).map { .blocked(name, byHardware: $0 == .hardware) } ?? .poweredOff(name))
            ]
        }
        var found = [RadioDiagnostic(.fine, "the adapter \(name) (\(properties["Address"]?.text ?? "?")) is switched on")]
        if let version = properties["Modalias"]?.text.flatMap({ BlueZ.Version(modalias: $0) }) {
            if version < BlueZ.Version.takesLongWrites {
                found.append(
                    RadioDiagnostic(
                        .note, "BlueZ \(version) drops what phones write in pieces of more than 510 bytes",
                        advice: "nearshare itself sends smaller ones; BlueZ 5.69 and later take all"))
            } else {
                found.append(RadioDiagnostic(.fine, "BlueZ \(version) has no limits that are known to hurt"))
            }
        }
        found += advertising(interfaces[BlueZ.advertisingManager])
        let near = devices.filter { $0["UUIDs"]?.texts?.contains(GATTProfile.meshService) ?? false }
        let text =
            switch near.count {
            case 0: "nobody who speaks bitchat's service was heard lately"
            case 1: "one device that speaks bitchat's service was heard lately"
            default: "\(near.count) devices that speak bitchat's service were heard lately"
            }
        found.append(RadioDiagnostic(.fine, text))
        return found
    }

    private static func advertising(_ manager: BlueZ.Properties?) -> [RadioDiagnostic] {
        guard let manager, let taken = manager["ActiveInstances"]?.integer, let free = manager["SupportedInstances"]?.integer
        else {
            return [
                RadioDiagnostic(
                    .problem, "the adapter does not advertise, so nobody finds this machine over Bluetooth",
                    advice: "Bluetooth 4.0 and Low Energy are needed; another adapter may have them")
            ]
        }
        let text = "\(taken == 1 ? "1 advertisement is" : "\(taken) advertisements are") on the air, \(free) more possible"
        guard free == 0 else { return [RadioDiagnostic(.fine, text)] }
        return [RadioDiagnostic(.problem, text, advice: "end a program that advertises")]
    }

    private static func devices(at adapter: String, in objects: BlueZ.Objects) -> [BlueZ.Properties] {
        objects.filter { $0.key.hasPrefix(adapter + "/") }.compactMap { $0.value[BlueZ.device] }
    }
}
