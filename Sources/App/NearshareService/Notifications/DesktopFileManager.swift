internal import Nearshare
internal import NearshareDBus

/// The user's file manager, by the interface `org.freedesktop.FileManager1` of the session bus.
enum DesktopFileManager {
    private static let name = "org.freedesktop.FileManager1"

    /// Shows a file in its folder.
    /// - Parameters:
    ///   - timeout: also for the start of a file manager.
    ///   - failure: called when there is none.
    static func show(
        _ path: LocalPath, on bus: DBusConnection, timeout: Duration, failure: @escaping @Sendable () -> Void
    ) {
        let call = DBusMethodCall(
            destination: name, path: "/org/freedesktop/FileManager1", interface: name, member: "ShowItems",
            arguments: [.strings([path.address]), .string("")])
        do {
            try bus.call(call, timeout: timeout) { if case .failure = $0 { failure() } }
        } catch {
            failure()
        }
    }
}
