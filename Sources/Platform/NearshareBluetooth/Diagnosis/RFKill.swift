internal import FoundationEssentials

/// A block of a radio outside BlueZ, in the kernel's rfkill subsystem.
enum RFKill {
    case software
    case hardware

    /// Returns the block of an adapter; nil where there is none.
    /// - Parameter adapter: such as "hci0".
    static func block(of adapter: String) -> RFKill? {
        let directory = "/sys/class/bluetooth/\(adapter)"
        let entries = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        for entry in entries where entry.hasPrefix("rfkill") {
            func isSet(_ name: String) -> Bool {
                guard let bytes = FileManager.default.contents(atPath: "\(directory)/\(entry)/\(name)") else { return false }
                return bytes.first == UInt8(ascii: "1")
            }
            if isSet("hard") { return .hardware }
            if isSet("soft") { return .software }
        }
        return nil
    }
}
