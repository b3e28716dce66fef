// The system's message bus through sd-bus, whose calls without variable arguments do all that is needed.

internal import CNearshareShims
internal import CSystemd
internal import Glibc
package import NearshareBase

/// What went wrong on the bus: the error name that the other side sent, where one did, and what it means.
package struct BusError: Error {
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

    fileprivate init(code: Int32) {
        name = nil
        text = String(cString: strerror(-code)).lowercased()
    }

    fileprivate init(_ error: sd_bus_error) {
        name = error.name.map { String(cString: $0) }
        text = error.message.map { String(cString: $0) } ?? name ?? "unknown error"
    }
}

/// A method of an object, and what it is given.
package struct BusCall {
    package var destination: String
    package var path: String
    package var interface: String
    package var member: String
    package var arguments: [BusValue]

    package init(destination: String, path: String, interface: String, member: String, arguments: [BusValue] = []) {
        self.destination = destination
        self.path = path
        self.interface = interface
        self.member = member
        self.arguments = arguments
    }
}

/// What one of our objects answers to a call.
package enum BusAnswer {
    case values([BusValue])
    case error(name: String, text: String)
}

/// A connection to the system bus. Belongs to the thread that has made it.
package final class SystemBus {
    private let raw: OpaquePointer
    private var handlers: [Handler] = []
    private var servers: [Server] = []
    private var pending: Set<Reply> = []

    /// Connects. Where no bus runs this fails at once.
    package init() throws(BusError) {
        if let reason = nearshare_load_systemd() { throw BusError(String(cString: reason)) }
        var bus: OpaquePointer?
        let code = sd_bus_open_system(&bus)
        guard code >= 0, let bus else { throw BusError(code: code) }
        raw = bus
    }

    deinit { sd_bus_flush_close_unref(raw) }

    /// Waits for the answer.
    package func call(_ call: BusCall, timeout: Duration = .seconds(2)) throws(BusError) -> BusMessage {
        let message = try message(for: call)
        // A zeroed one is SD_BUS_ERROR_NULL.
        var error = sd_bus_error()
        defer { sd_bus_error_free(&error) }
        var reply: OpaquePointer?
        let code = sd_bus_call(raw, message.raw, UInt64(max(0, timeout.nanoseconds / 1000)), &error, &reply)
        guard code >= 0, let reply else { throw error.name == nil ? BusError(code: code) : BusError(error) }
        return BusMessage(adopting: reply)
    }

    /// Does not wait: `then` is called by ``process()``, or never when the connection ends before.
    package func call(_ call: BusCall, timeout: Duration, then: @escaping (Result<BusMessage, BusError>) -> Void)
        throws(BusError)
    {
        let message = try message(for: call)
        let reply = Reply(bus: self, then: then)
        pending.insert(reply)
        let code = sd_bus_call_async(
            raw, nil, message.raw, onReply, Unmanaged.passUnretained(reply).toOpaque(),
            UInt64(max(0, timeout.nanoseconds / 1000)))
        guard code >= 0 else {
            pending.remove(reply)
            throw BusError(code: code)
        }
    }

    /// Does not wait, and wants no answer.
    package func send(_ call: BusCall) throws(BusError) {
        let message = try message(for: call)
        try check(sd_bus_message_set_expect_reply(message.raw, 0))
        try check(sd_bus_send(raw, message.raw, nil))
    }

    /// Writes out all that has been sent.
    package func flush() { sd_bus_flush(raw) }

    /// - Parameter sender: the well-known name of who may send it.
    package func onSignal(
        _ member: String, of interface: String, from sender: String, do handle: @escaping (BusMessage) -> Void
    ) throws(BusError) {
        let handler = Handler(handle)
        try check(
            sd_bus_match_signal(
                raw, nil, sender, nil, interface, member, onMessage, Unmanaged.passUnretained(handler).toOpaque()))
        handlers.append(handler)
    }

    /// - Parameter rule: a match rule as the D-Bus specification writes them.
    package func onSignal(matching rule: String, do handle: @escaping (BusMessage) -> Void) throws(BusError) {
        let handler = Handler(handle)
        try check(sd_bus_add_match(raw, nil, rule, onMessage, Unmanaged.passUnretained(handler).toOpaque()))
        handlers.append(handler)
    }

    /// Answers calls to all objects at and below a path, for as long as the connection lasts. Called by ``process()``.
    /// - Parameter answer: gives nil for a method that there is not.
    package func serve(_ prefix: String, answer: @escaping (BusMessage) -> BusAnswer?) throws(BusError) {
        let server = Server(bus: self, answer: answer)
        try check(sd_bus_add_fallback(raw, nil, prefix, onCall, Unmanaged.passUnretained(server).toOpaque()))
        servers.append(server)
    }

    /// Sends a signal of an object of ours to one connection only.
    package func emit(
        _ member: String, of interface: String, at path: String, to destination: String, _ arguments: [BusValue]
    ) throws(BusError) {
        var new: OpaquePointer?
        try check(sd_bus_message_new_signal(raw, &new, path, interface, member))
        guard let new else { throw BusError(code: -ENOMEM) }
        let message = BusMessage(adopting: new)
        try check(sd_bus_message_set_destination(message.raw, destination))
        for argument in arguments { try check(message.append(argument)) }
        try check(sd_bus_send(raw, message.raw, nil))
    }

    /// Whether somebody has the well-known name at the moment.
    package func hasOwner(_ name: String, timeout: Duration) throws(BusError) -> Bool {
        let call = BusCall(
            destination: "org.freedesktop.DBus", path: "/org/freedesktop/DBus", interface: "org.freedesktop.DBus",
            member: "NameHasOwner", arguments: [.string(name)])
        return try self.call(call, timeout: timeout).boolean() ?? false
    }

    /// The unique name of whoever has a well-known one at the moment.
    package func owner(of name: String) throws(BusError) -> String {
        let call = BusCall(
            destination: "org.freedesktop.DBus", path: "/org/freedesktop/DBus", interface: "org.freedesktop.DBus",
            member: "GetNameOwner", arguments: [.string(name)])
        guard let owner = try self.call(call).string() else { throw BusError("the bus' answer makes no sense") }
        return owner
    }

    // MARK: The owner's event loop

    package var descriptor: Int32 { sd_bus_get_fd(raw) }

    /// What to poll(2) the descriptor for.
    package var events: Int16 { Int16(clamping: sd_bus_get_events(raw)) }

    /// When ``process()`` is wanted even if nothing comes.
    package var deadline: MonotonicInstant? {
        var microseconds: UInt64 = 0
        guard sd_bus_get_timeout(raw, &microseconds) >= 0, microseconds < UInt64(Int64.max) / 1000 else { return nil }
        return MonotonicInstant(nanoseconds: Int64(microseconds) * 1000)
    }

    /// Handles all that has come.
    package func process() throws(BusError) {
        while true {
            let code = sd_bus_process(raw, nil)
            try check(code)
            if code == 0 { return }
        }
    }

    // MARK: Messages

    private func message(for call: BusCall) throws(BusError) -> BusMessage {
        var new: OpaquePointer?
        try check(sd_bus_message_new_method_call(raw, &new, call.destination, call.path, call.interface, call.member))
        guard let new else { throw BusError(code: -ENOMEM) }
        let message = BusMessage(adopting: new)
        for argument in call.arguments { try check(message.append(argument)) }
        return message
    }

    private func check(_ code: Int32) throws(BusError) {
        guard code >= 0 else { throw BusError(code: code) }
    }

    fileprivate func replied(_ reply: Reply, _ raw: OpaquePointer) {
        guard pending.remove(reply) != nil else { return }
        if let error = sd_bus_message_get_error(raw) {
            reply.then(.failure(BusError(error.pointee)))
        } else {
            reply.then(.success(BusMessage(retaining: raw)))
        }
    }

    fileprivate func answer(_ call: OpaquePointer, _ answer: BusAnswer) throws(BusError) {
        var new: OpaquePointer?
        switch answer {
        case .values(let values):
            try check(sd_bus_message_new_method_return(call, &new))
            guard let new else { throw BusError(code: -ENOMEM) }
            let message = BusMessage(adopting: new)
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
            guard let new else { throw BusError(code: -ENOMEM) }
            try check(sd_bus_send(raw, BusMessage(adopting: new).raw, nil))
        }
    }

    fileprivate final class Server {
        unowned let bus: SystemBus
        let answer: (BusMessage) -> BusAnswer?

        init(bus: SystemBus, answer: @escaping (BusMessage) -> BusAnswer?) {
            self.bus = bus
            self.answer = answer
        }
    }

    fileprivate final class Handler {
        let handle: (BusMessage) -> Void
        init(_ handle: @escaping (BusMessage) -> Void) { self.handle = handle }
    }

    fileprivate final class Reply: Hashable {
        unowned let bus: SystemBus
        let then: (Result<BusMessage, BusError>) -> Void

        init(bus: SystemBus, then: @escaping (Result<BusMessage, BusError>) -> Void) {
            self.bus = bus
            self.then = then
        }

        static func == (left: Reply, right: Reply) -> Bool { left === right }
        func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
    }
}

// MARK: Callbacks

private let onMessage: sd_bus_message_handler_t = { raw, context, _ in
    Unmanaged<SystemBus.Handler>.fromOpaque(context!).takeUnretainedValue().handle(BusMessage(retaining: raw!))
    return 0
}

private let onReply: sd_bus_message_handler_t = { raw, context, _ in
    let reply = Unmanaged<SystemBus.Reply>.fromOpaque(context!).takeUnretainedValue()
    reply.bus.replied(reply, raw!)
    return 0
}

private let onCall: sd_bus_message_handler_t = { raw, context, _ in
    let server = Unmanaged<SystemBus.Server>.fromOpaque(context!).takeUnretainedValue()
    // Signals come here too.
    guard sd_bus_message_is_method_call(raw, nil, nil) > 0 else { return 0 }
    guard let answer = server.answer(BusMessage(retaining: raw!)) else { return 0 }
    // Whoever asked, and cannot be answered, runs out of time; there is nobody else to tell.
    try? server.bus.answer(raw!, answer)
    return 1
}
