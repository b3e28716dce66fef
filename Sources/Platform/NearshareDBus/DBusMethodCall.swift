/// A method call to a remote object.
package struct DBusMethodCall {
    package var destination: String
    package var path: String
    package var interface: String
    package var member: String
    package var arguments: [DBusValue]

    package init(destination: String, path: String, interface: String, member: String, arguments: [DBusValue] = []) {
        self.destination = destination
        self.path = path
        self.interface = interface
        self.member = member
        self.arguments = arguments
    }
}

/// The reply of a local object to a method call.
package enum DBusReply {
    case values([DBusValue])
    case error(name: String, text: String)
}
