internal import FoundationEssentials

/// What keeps an adapter silent from outside BlueZ (the kernel's rfkill).
enum RFKill {
    case software
    case hardware

    /// - Parameter adapter: such as "hci0".
    static func blocking(_ adapter: String) -> RFKill? {
        let folder = "/sys/class/bluetooth/\(adapter)"
        let entries = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        for entry in entries where entry.hasPrefix("rfkill") {
            func isSet(_ name: String) -> Bool {
                guard let bytes = FileManager.default.contents(atPath: "\(folder)/\(entry)/\(name)") else { return false }
                return bytes.first == UInt8(ascii: "1")
            }
            if isSet("hard") { return .hardware }
            if isSet("soft") { return .software }
        }
        return nil
    }
}
