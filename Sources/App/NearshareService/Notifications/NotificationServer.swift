package import Nearshare
package import NearshareDBus

/// The desktop's notification server, on the session bus. Belongs to the thread of its `EventLoopThread`.
package final class NotificationServer: EventLoop {
    package enum Event: Sendable {
        /// A server answers, or another one does.
        case available(NotificationCapabilities)
        /// No server answers any more.
        case unavailable
        case shown(UInt32, token: Int)
        case closed(UInt32)
        case invoked(String, UInt32)
        case replied(String, UInt32)
        /// The session bus has ended.
        case ended
    }

    private let bus: DBusConnection
    private let wakeup: EventFD
    private let emit: @Sendable (Event) -> Void
    private var capabilities = NotificationCapabilities(hasActions: false, hasBodyMarkup: false, hasInlineReply: false)

    private static let name = "org.freedesktop.Notifications"
    private static let path = "/org/freedesktop/Notifications"
    /// A server that is started by the call needs its time.
    private static let startTimeout = Duration.seconds(20)
    private static let timeout = Duration.seconds(5)

    /// - Parameter emit: called on the thread.
    package init(wakeup: EventFD, emit: @escaping @Sendable (Event) -> Void) throws(DBusError) {
        self.wakeup = wakeup
        self.emit = emit
        bus = try DBusConnection(.session)
        let bus = bus
        try bus.onSignal("ActionInvoked", of: Self.name, from: Self.name) { message in
            if let (id, key) = Self.idAndText(of: message) { emit(.invoked(key, id)) }
        }
        try bus.onSignal("NotificationReplied", of: Self.name, from: Self.name) { message in
            if let (id, text) = Self.idAndText(of: message) { emit(.replied(text, id)) }
        }
        try bus.onSignal("NotificationClosed", of: Self.name, from: Self.name) { message in
            if let id = message.uint32() { emit(.closed(id)) }
        }
        try bus.onSignal(
            "NameOwnerChanged", of: DBusConnection.name, from: DBusConnection.name, where: "arg0='\(Self.name)'"
        ) { [unowned self] message in
            // The arguments in their order: the name, its former owner, and the present one.
            guard message.string() == Self.name, message.string() != nil, let owner = message.string() else { return }
            owner.isEmpty ? checkActivation() : readCapabilities()
        }
        readCapabilities()
    }

    /// The arguments of a signal with a notification's number and a text; nil for a signal with others, or more, of which an
    /// answer must not be read.
    private static func idAndText(of message: DBusMessage) -> (UInt32, String)? {
        guard message.hasSignature("us"), let id = message.uint32(), let text = message.string() else { return nil }
        return (id, text)
    }

    /// Asks the server for its features, which starts one where the bus can.
    private func readCapabilities() {
        call("GetCapabilities", [], timeout: Self.startTimeout) { [unowned self] reply in
            guard case .success(let message) = reply, case .strings(let names)? = message.value() else {
                return emit(.unavailable)
            }
            capabilities = NotificationCapabilities(names)
            emit(.available(capabilities))
        }
    }

    /// Some servers end when they have nothing to show, and are started again by the next call.
    private func checkActivation() {
        let call = DBusMethodCall(
            destination: DBusConnection.name, path: "/org/freedesktop/DBus", interface: DBusConnection.name,
            member: "ListActivatableNames")
        do {
            try bus.call(call, timeout: Self.timeout) { [emit] reply in
                if case .success(let message) = reply, message.value()?.strings?.contains(Self.name) == true { return }
                emit(.unavailable)
            }
        } catch {
            emit(.unavailable)
        }
    }

    package func show(_ notification: DesktopNotification, token: Int) {
        call("Notify", notification.arguments(capabilities), timeout: Self.startTimeout) { [emit] reply in
            guard case .success(let message) = reply, let id = message.uint32() else { return emit(.unavailable) }
            emit(.shown(id, token: token))
        }
    }

    package func close(_ id: UInt32) { call("CloseNotification", [.uint32(id)], timeout: Self.timeout) { _ in } }

    /// Shows a file in the user's file manager.
    /// - Parameter failure: called when there is none.
    package func showInFolder(_ path: String, failure: @escaping @Sendable () -> Void) {
        DesktopFileManager.show(LocalPath(path), on: bus, timeout: Self.startTimeout, failure: failure)
    }

    private func call(
        _ member: String, _ arguments: [DBusValue], timeout: Duration,
        completion: @escaping (Result<DBusMessage, DBusError>) -> Void
    ) {
        let call = DBusMethodCall(
            destination: Self.name, path: Self.path, interface: Self.name, member: member, arguments: arguments)
        do {
            try bus.call(call, timeout: timeout, completion: completion)
        } catch {
            completion(.failure(error))
        }
    }

    // MARK: EventLoop

    package func nextDeadline(after now: MonotonicInstant) -> MonotonicInstant? { bus.isDisconnected ? nil : bus.deadline }

    package func tick(at now: MonotonicInstant) {}

    package func wait(timeout: Duration?) {
        do throws(DBusError) {
            try bus.wait(wakeup: wakeup, timeout: timeout)
        } catch {
            emit(.ended)
        }
    }

    package func close() {}
}
