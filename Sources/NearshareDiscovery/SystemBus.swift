// The system's message bus through sd-bus, whose calls without variable arguments do all that is needed.

internal import CNearshareShims
internal import CSystemd
internal import Glibc
internal import NearshareBase

/// What went wrong on the bus: the error name that the other side sent, where one did, and what it means.
struct BusError: Error {
    let name: String?
    let text: String

    init(_ text: String) {
        name = nil
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
struct BusCall {
    enum Argument {
        case string(String)
        case int32(Int32)
        case uint32(UInt32)
        case uint16(UInt16)
        /// Type `aay`.
        case byteArrays([[UInt8]])
    }

    var destination: String
    var path: String
    var interface: String
    var member: String
    var arguments: [Argument] = []
}

/// A connection to the system bus. Belongs to the thread that has made it.
final class SystemBus {
    private let raw: OpaquePointer
    private var handlers: [Handler] = []
    private var pending: Set<Reply> = []

    /// Connects. Where no bus runs this fails at once.
    init() throws(BusError) {
        if let reason = nearshare_load_systemd() { throw BusError(String(cString: reason)) }
        var bus: OpaquePointer?
        let code = sd_bus_open_system(&bus)
        guard code >= 0, let bus else { throw BusError(code: code) }
        raw = bus
    }

    deinit { sd_bus_flush_close_unref(raw) }

    /// Waits for the answer.
    func call(_ call: BusCall, timeout: Duration = .seconds(2)) throws(BusError) -> BusMessage {
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
    func call(_ call: BusCall, timeout: Duration, then: @escaping (Result<BusMessage, BusError>) -> Void) throws(BusError) {
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
    func send(_ call: BusCall) throws(BusError) {
        let message = try message(for: call)
        try check(sd_bus_message_set_expect_reply(message.raw, 0))
        try check(sd_bus_send(raw, message.raw, nil))
    }

    /// Writes out all that has been sent.
    func flush() { sd_bus_flush(raw) }

    /// - Parameter sender: the well-known name of who may send it.
    func onSignal(
        _ member: String, of interface: String, from sender: String, do handle: @escaping (BusMessage) -> Void
    ) throws(BusError) {
        let handler = Handler(handle)
        try check(
            sd_bus_match_signal(
                raw, nil, sender, nil, interface, member, onMessage, Unmanaged.passUnretained(handler).toOpaque()))
        handlers.append(handler)
    }

    /// Whether somebody has the well-known name at the moment.
    func hasOwner(_ name: String, timeout: Duration) throws(BusError) -> Bool {
        let call = BusCall(
            destination: "org.freedesktop.DBus", path: "/org/freedesktop/DBus", interface: "org.freedesktop.DBus",
            member: "NameHasOwner", arguments: [.string(name)])
        return try self.call(call, timeout: timeout).boolean() ?? false
    }

    // MARK: The owner's event loop

    var descriptor: Int32 { sd_bus_get_fd(raw) }

    /// What to poll(2) the descriptor for.
    var events: Int16 { Int16(clamping: sd_bus_get_events(raw)) }

    /// When ``process()`` is wanted even if nothing comes.
    var deadline: MonotonicInstant? {
        var microseconds: UInt64 = 0
        guard sd_bus_get_timeout(raw, &microseconds) >= 0, microseconds < UInt64(Int64.max) / 1000 else { return nil }
        return MonotonicInstant(nanoseconds: Int64(microseconds) * 1000)
    }

    /// Handles all that has come.
    func process() throws(BusError) {
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

/// A message being read from its beginning, or being written. Reading past what is there, or another type, gives nil.
final class BusMessage {
    fileprivate let raw: OpaquePointer

    fileprivate init(adopting raw: OpaquePointer) { self.raw = raw }

    fileprivate init(retaining raw: OpaquePointer) { self.raw = sd_bus_message_ref(raw) }

    deinit { sd_bus_message_unref(raw) }

    /// The object that it comes from.
    var path: String { sd_bus_message_get_path(raw).map { String(cString: $0) } ?? "" }

    func string() -> String? { text("s") }

    func objectPath() -> String? { text("o") }

    func int32() -> Int32? { number("i", Int32.self) }

    func uint32() -> UInt32? { number("u", UInt32.self) }

    func uint16() -> UInt16? { number("q", UInt16.self) }

    /// D-Bus writes them as four bytes.
    func boolean() -> Bool? { number("b", Int32.self).map { $0 != 0 } }

    /// Type `aay`.
    func byteArrays() -> [[UInt8]]? {
        guard sd_bus_message_enter_container(raw, Self.type("a"), "ay") > 0 else { return nil }
        var arrays: [[UInt8]] = []
        while true {
            var bytes: UnsafeRawPointer?
            var count = 0
            guard sd_bus_message_read_array(raw, Self.type("y"), &bytes, &count) > 0 else { break }
            arrays.append(Array(UnsafeRawBufferPointer(start: bytes, count: count)))
        }
        sd_bus_message_exit_container(raw)
        return arrays
    }

    fileprivate func append(_ argument: BusCall.Argument) -> Int32 {
        switch argument {
        // Of strings the pointer itself is handed over, of numbers one to the number.
        case .string(let value): value.withCString { sd_bus_message_append_basic(raw, Self.type("s"), $0) }
        case .int32(var value): sd_bus_message_append_basic(raw, Self.type("i"), &value)
        case .uint32(var value): sd_bus_message_append_basic(raw, Self.type("u"), &value)
        case .uint16(var value): sd_bus_message_append_basic(raw, Self.type("q"), &value)
        case .byteArrays(let arrays):
            [
                sd_bus_message_open_container(raw, Self.type("a"), "ay"),
                arrays.map { sd_bus_message_append_array(raw, Self.type("y"), $0, $0.count) }.min() ?? 0,
                sd_bus_message_close_container(raw),
            ].min() ?? 0
        }
    }

    private func text(_ type: Unicode.Scalar) -> String? {
        var pointer: UnsafePointer<CChar>?
        guard sd_bus_message_read_basic(raw, Self.type(type), &pointer) > 0 else { return nil }
        return pointer.map { String(cString: $0) }
    }

    private func number<Number: FixedWidthInteger>(_ type: Unicode.Scalar, _: Number.Type) -> Number? {
        var value: Number = 0
        return sd_bus_message_read_basic(raw, Self.type(type), &value) > 0 ? value : nil
    }

    private static func type(_ letter: Unicode.Scalar) -> CChar { CChar(bitPattern: UInt8(ascii: letter)) }
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
