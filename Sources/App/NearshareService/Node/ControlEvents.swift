internal import Nearshare

/// The events of a node for the commands that use it.
struct ControlEvents: Sendable {
    private let broadcast: Broadcast<ControlEvent>
    private let observe: @Sendable (ControlEvent) -> Void

    /// - Parameter observe: called with each event before its subscribers receive it.
    init(_ broadcast: Broadcast<ControlEvent>, observe: @escaping @Sendable (ControlEvent) -> Void) {
        (self.broadcast, self.observe) = (broadcast, observe)
    }

    func subscribe() -> AsyncStream<ControlEvent> { broadcast.subscribe() }

    func publish(_ event: ControlEvent) {
        observe(event)
        broadcast.publish(event)
    }

    /// Ends the streams of all subscribers.
    func finish() { broadcast.finish() }
}
