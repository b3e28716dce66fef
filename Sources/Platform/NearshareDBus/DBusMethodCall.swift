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

/// A service of a bus, under a well-known name.
package protocol DBusService {
    static var name: String { get }
}

extension DBusService {
    package static func call(
        _ member: String, of interface: String, at path: String, with arguments: [DBusValue] = []
    ) -> DBusMethodCall {
        DBusMethodCall(destination: name, path: path, interface: interface, member: member, arguments: arguments)
    }
}

/// The reply of a local object to a method call.
package enum DBusReply {
    case values([DBusValue])
    case error(name: String, text: String)
}
