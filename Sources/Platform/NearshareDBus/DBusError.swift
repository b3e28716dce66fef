internal import CSystemd
internal import Glibc

/// A failed call on the bus: the error name that the other side has replied with, if it has replied, and a text.
package struct DBusError: Error {
    package let name: String?
    package let text: String

    package init(_ text: String) {
        name = nil
        self.text = text
    }

    package init(name: String, _ text: String) {
        self.name = name
        self.text = text
    }

    /// - Parameter code: a negative error number of sd-bus.
    init(code: Int32) {
        name = nil
        text = String(cString: strerror(-code)).lowercased()
    }

    init(_ error: sd_bus_error) {
        name = error.name.map { String(cString: $0) }
        text = error.message.map { String(cString: $0) } ?? name ?? "unknown error"
    }
}
