internal import CNearshareShims
internal import CSystemd
internal import Glibc
package import NearshareBase
package import NearshareInterfaces

/// A connection to a message bus through sd-bus. Belongs to the thread that has created it.
package final class DBusConnection {
    private let raw: OpaquePointer
    private var handlers: [Handler] = []
    /// The unique names of the connections that own the names in ``watchedNames``. Clients cannot use the bus's own name.
    private var owners = [DBusConnection.name: DBusConnection.name]
    private var watchedNames: Set<String> = [DBusConnection.name]
    private var servers: [Server] = []
    private var pending: Set<PendingReply> = []
    /// Whether the bus has ended.
    package private(set) var isDisconnected = false

    package enum Bus: Sendable {
        case system
        /// The bus of the user: the one that `DBUS_SESSION_BUS_ADDRESS` names, or `bus` in the run-time directory.
        case session
    }

    /// The name of the bus itself.
    package static let name = "org.freedesktop.DBus"

    /// Connects; fails at once where no bus runs.
    package init(_ kind: Bus = .system) throws(DBusError) {
        if let reason = nearshare_load_systemd() { throw DBusError(String(cString: reason)) }
        var bus: OpaquePointer?
        let code = kind == .system ? sd_bus_open_system(&bus) : sd_bus_open_user(&bus)
        guard code >= 0, let bus else { throw DBusError(code: code) }
        raw = bus
    }

    deinit { sd_bus_flush_close_unref(raw) }

    /// Calls a method and waits for the reply.
    package func call(_ call: DBusMethodCall, timeout: Duration = .seconds(2)) throws(DBusError) -> DBusMessage {
        let message = try message(for: call)
        // A zeroed error is SD_BUS_ERROR_NULL.
        var error = sd_bus_error()
        defer { sd_bus_error_free(&error) }
        var reply: OpaquePointer?
        let code = sd_bus_call(raw, message.raw, UInt64(max(0, timeout.nanoseconds / 1000)), &error, &reply)
        guard code >= 0, let reply else { throw error.name == nil ? DBusError(code: code) : DBusError(error) }
        return DBusMessage(adopting: reply)
    }

    /// Calls a method without waiting.
    /// - Parameter completion: called by ``process()``; never when the connection ends before.
    package func call(
        _ call: DBusMethodCall, timeout: Duration, completion: @escaping (Result<DBusMessage, DBusError>) -> Void
    ) throws(DBusError) {
        let message = try message(for: call)
        let reply = PendingReply(bus: self, completion: completion)
        pending.insert(reply)
        let code = sd_bus_call_async(
            raw, nil, message.raw, onReply, Unmanaged.passUnretained(reply).toOpaque(),
            UInt64(max(0, timeout.nanoseconds / 1000)))
        guard code >= 0 else {
            pending.remove(reply)
            throw DBusError(code: code)
        }
    }

    /// Calls a method without waiting, and asks for no reply.
    package func send(_ call: DBusMethodCall) throws(DBusError) {
        let message = try message(for: call)
        try check(sd_bus_message_set_expect_reply(message.raw, 0))
        try check(sd_bus_send(raw, message.raw, nil))
    }

    /// Writes all queued messages to the socket.
    package func flush() { sd_bus_flush(raw) }

    /// Subscribes to a signal of a service.
    /// - Parameters:
    ///   - sender: the service's well-known name. Signals of other connections are dropped: every user may send any signal to one
    ///     connection, and sd-bus compares unique names only (D9).
    ///   - conditions: more conditions of the match rule, such as `arg0='org.bluez'`.
    package func onSignal(
        _ member: String, of interface: String, from sender: String, where conditions: String? = nil,
        handler handle: @escaping (DBusMessage) -> Void
    ) throws(DBusError) {
        try watchOwner(of: sender)
        try subscribe("type='signal',sender='\(sender)',interface='\(interface)',member='\(member)'", conditions) {
            [unowned self] message in
            if message.sender == owners[sender] { handle(message) }
        }
    }

    private func watchOwner(of name: String) throws(DBusError) {
        guard watchedNames.insert(name).inserted else { return }
        try subscribe(
            "type='signal',sender='\(Self.name)',interface='\(Self.name)',member='NameOwnerChanged'", "arg0='\(name)'"
        ) { [unowned self] message in
            guard message.sender == Self.name, message.string() == name, message.string() != nil, let new = message.string()
            else { return }
            owners[name] = new.isEmpty ? nil : new
        }
        // Asked after the subscription, so that no change is missed; the service may not run.
        owners[name] = try? owner(of: name)
    }

    private func subscribe(
        _ rule: String, _ conditions: String?, handler handle: @escaping (DBusMessage) -> Void
    ) throws(DBusError) {
        let handler = Handler(handle)
        let rule = conditions.map { "\(rule),\($0)" } ?? rule
        try check(sd_bus_add_match(raw, nil, rule, onMessage, Unmanaged.passUnretained(handler).toOpaque()))
        handlers.append(handler)
    }

    /// Serves method calls to all objects at and below a path until the connection ends.
    /// - Parameter handler: called by ``process()``; returns nil for an unknown method.
    package func serve(_ prefix: String, handler: @escaping (DBusMessage) -> DBusReply?) throws(DBusError) {
        let server = Server(bus: self, handler: handler)
        try check(sd_bus_add_fallback(raw, nil, prefix, onCall, Unmanaged.passUnretained(server).toOpaque()))
        servers.append(server)
    }

    /// Sends a signal of a local object to one connection.
    package func emit(
        _ member: String, of interface: String, at path: String, to destination: String, _ arguments: [DBusValue]
    ) throws(DBusError) {
        var new: OpaquePointer?
        try check(sd_bus_message_new_signal(raw, &new, path, interface, member))
        guard let new else { throw DBusError(code: -ENOMEM) }
        let message = DBusMessage(adopting: new)
        try check(sd_bus_message_set_destination(message.raw, destination))
        for argument in arguments { try check(message.append(argument)) }
        try check(sd_bus_send(raw, message.raw, nil))
    }

    /// Returns whether a connection owns the well-known name.
    package func hasOwner(_ name: String, timeout: Duration) throws(DBusError) -> Bool {
        let call = DBusMethodCall(
            destination: Self.name, path: "/org/freedesktop/DBus", interface: Self.name,
            member: "NameHasOwner", arguments: [.string(name)])
        return try self.call(call, timeout: timeout).boolean() ?? false
    }

    /// Returns the unique name of the connection that owns a well-known name.
    package func owner(of name: String) throws(DBusError) -> String {
        let call = DBusMethodCall(
            destination: Self.name, path: "/org/freedesktop/DBus", interface: Self.name,
            member: "GetNameOwner", arguments: [.string(name)])
        guard let owner = try self.call(call).string() else { throw DBusError("unexpected reply from the bus") }
        return owner
    }

    // MARK: Event loop

    /// The descriptor to poll for ``events``.
    package var descriptor: Int32 { sd_bus_get_fd(raw) }

    package var events: DescriptorPoll.Events { DescriptorPoll.Events(rawValue: Int16(clamping: sd_bus_get_events(raw))) }

    /// When ``process()`` is due even if no message arrives.
    package var deadline: MonotonicInstant? {
        var microseconds: UInt64 = 0
        guard sd_bus_get_timeout(raw, &microseconds) >= 0, microseconds < UInt64(Int64.max) / 1000 else { return nil }
        return MonotonicInstant(nanoseconds: Int64(microseconds) * 1000)
    }

    /// Handles all messages that have arrived.
    package func process() throws(DBusError) {
        while true {
            let code = sd_bus_process(raw, nil)
            try check(code)
            if code == 0 { return }
        }
    }

    /// Waits until messages arrive, and handles them; for an ``EventLoop``. After the end of the bus it waits for the wake-up alone.
    /// - Throws: once, at the end of the bus.
    package func wait(wakeup: EventFD, timeout: Duration?) throws(DBusError) {
        guard !isDisconnected else {
            _ = DescriptorPoll.wait(for: wakeup.descriptor, .readable, timeout: timeout)
            return
        }
        _ = DescriptorPoll.wait(for: descriptor, events, wakeup: wakeup, timeout: timeout)
        do throws(DBusError) {
            try process()
        } catch {
            isDisconnected = true
            throw error
        }
    }

    // MARK: Messages

    private func message(for call: DBusMethodCall) throws(DBusError) -> DBusMessage {
        var new: OpaquePointer?
        try check(sd_bus_message_new_method_call(raw, &new, call.destination, call.path, call.interface, call.member))
        guard let new else { throw DBusError(code: -ENOMEM) }
        let message = DBusMessage(adopting: new)
        for argument in call.arguments { try check(message.append(argument)) }
        return message
    }

    private func check(_ code: Int32) throws(DBusError) {
        guard code >= 0 else { throw DBusError(code: code) }
    }

    fileprivate func complete(_ reply: PendingReply, with raw: OpaquePointer) {
        guard pending.remove(reply) != nil else { return }
        if let error = sd_bus_message_get_error(raw) {
            reply.completion(.failure(DBusError(error.pointee)))
        } else {
            reply.completion(.success(DBusMessage(retaining: raw)))
        }
    }

    fileprivate func send(_ reply: DBusReply, to call: OpaquePointer) throws(DBusError) {
        var new: OpaquePointer?
        switch reply {
        case .values(let values):
            try check(sd_bus_message_new_method_return(call, &new))
            guard let new else { throw DBusError(code: -ENOMEM) }
            let message = DBusMessage(adopting: new)
            for value in values { try check(message.append(value)) }
            try check(sd_bus_send(raw, message.raw, nil))
        case .error(let name, let text):
            let code = name.withCString { name in
                text.withCString { text in
                    // Both texts are copied into the message.
                    var error = sd_bus_error(name: name, message: text, _need_free: 0)
                    return sd_bus_message_new_method_error(call, &new, &error)
                }
            }
            try check(code)
            guard let new else { throw DBusError(code: -ENOMEM) }
            try check(sd_bus_send(raw, DBusMessage(adopting: new).raw, nil))
        }
    }

    fileprivate final class Server {
        unowned let bus: DBusConnection
        let handler: (DBusMessage) -> DBusReply?

        init(bus: DBusConnection, handler: @escaping (DBusMessage) -> DBusReply?) {
            self.bus = bus
            self.handler = handler
        }
    }

    fileprivate final class Handler {
        let handle: (DBusMessage) -> Void
        init(_ handle: @escaping (DBusMessage) -> Void) { self.handle = handle }
    }

    fileprivate final class PendingReply: Hashable {
        unowned let bus: DBusConnection
        let completion: (Result<DBusMessage, DBusError>) -> Void

        init(bus: DBusConnection, completion: @escaping (Result<DBusMessage, DBusError>) -> Void) {
            self.bus = bus
            self.completion = completion
        }

        static func == (left: PendingReply, right: PendingReply) -> Bool { left === right }
        func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
    }
}

// MARK: Callbacks

// sd-bus passes the message and the context that was registered, which belongs to the bus; neither is null.

private let onMessage: sd_bus_message_handler_t = { raw, context, _ in
    guard let raw, let context else { return 0 }
    Unmanaged<DBusConnection.Handler>.fromOpaque(context).takeUnretainedValue().handle(DBusMessage(retaining: raw))
    return 0
}

private let onReply: sd_bus_message_handler_t = { raw, context, _ in
    guard let raw, let context else { return 0 }
    let reply = Unmanaged<DBusConnection.PendingReply>.fromOpaque(context).takeUnretainedValue()
    reply.bus.complete(reply, with: raw)
    return 0
}

private let onCall: sd_bus_message_handler_t = { raw, context, _ in
    // Signals are delivered here, too.
    guard let raw, let context, sd_bus_message_is_method_call(raw, nil, nil) > 0 else { return 0 }
    let server = Unmanaged<DBusConnection.Server>.fromOpaque(context).takeUnretainedValue()
    guard let reply = server.handler(DBusMessage(retaining: raw)) else { return 0 }
    // A caller that cannot be answered times out.
    try? server.bus.send(reply, to: raw)
    return 1
}
