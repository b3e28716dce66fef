internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// The lines of `receive` at its start, and when its port changes.
struct ReceiverNotice: Sendable {
    let node: Node
    let destination: ReceiveDestination
    /// The name of the service that announces this machine on the network; nil for none.
    let discoveryEngine: String?
    /// The port that the user has chosen.
    let chosenPort: UInt16?
    /// The page for browsers; nil for none.
    let page: PageServer?
    /// The Wi-Fi network for the page; nil for none.
    let hotspot: Hotspot?
    /// The server for LocalSend devices; nil for none.
    let localSend: LocalSendServer?
    /// The interface at whose addresses the page is shown; nil for all.
    let pageInterface: String?
    let reporter: any CommandReporter
    /// Whether the node had no network at its start.
    let isNetworkAbsent: Bool
    /// The last state; nil before the first.
    let shown: Monitor<ReceiverPort.State?>

    func show(_ state: ReceiverPort.State) {
        let last = shown.withLock { shown in
            defer { shown = state }
            return shown
        }
        guard last != state else { return }
        let isFirst = last == nil
        let isMoved = last.map { ($0.port, $0.node) != (state.port, state.node) } ?? true
        if isMoved { report(state, isFirst: isFirst) }
        if isFirst, let inbox = destination.inbox { InboxNotice(inbox).show(to: reporter) }
        let action = "send files to this machine"
        if isFirst, let page, hotspot == nil {
            PageNotice.show(page, at: PageHosts.all(on: pageInterface), purpose: action, to: reporter)
        }
        if isFirst, let localSend { LocalSendNotice.show(localSend, to: reporter) }
        // Last: two codes fill a terminal, and other lines would scroll them away.
        if isFirst, let page, let hotspot { HotspotNotice.show(hotspot, page, purpose: action, to: reporter) }
        if isMoved || state.other != nil, let warning = Self.warning(about: state, chosenPort: chosenPort) {
            Console.warn(warning)
        }
    }

    /// The warning about another process that also receives, or about a port that is not the usual one; nil for none.
    static func warning(about state: ReceiverPort.State, chosenPort: UInt16?) -> String? {
        guard let other = state.other else {
            return state.node == nil ? Node.fallbackNotice(port: state.port, chosen: chosenPort) : nil
        }
        let start = "another `nearshare receive` of this user is running"
        let either = "peers see one machine, and what they send arrives at either of the two, in its inbox; end one of them"
        return switch other {
        case .node(let process): "\(start) (process \(process)): \(either)"
        case .besideNode where state.node == nil: "\(start): \(either)"
        case .besideNode:
            "\(start): what peers send arrives at this one while it runs, and at the other one after that; end one of them"
        }
    }

    private func report(_ state: ReceiverPort.State, isFirst: Bool) {
        var members: [String: JSONValue] = ["port": .number(UInt64(state.port))]
        if let process = state.node { members["node"] = .number(UInt64(max(0, process))) }
        if isFirst {
            (members["name"], members["id"]) = (.string(node.name.claimed), .string(node.id.hex))
            members["discovery"] = JSONValue(discoveryEngine)
        }
        reporter.emit(isFirst ? "ready" : "port", members) { write(state, isFirst: isFirst) }
    }

    private func write(_ state: ReceiverPort.State, isFirst: Bool) {
        let place = "on port \(state.port)" + (state.node.map { " of the running node (process \($0))" } ?? "")
        guard isFirst else { return Console.notice("now \(place)") }
        let condition = isNetworkAbsent ? " once there is a network" : ""
        Console.notice("\(node.name.unquoted) (\(node.id.hex)) is visible to those nearby\(condition), \(place)")
        if case .standardOutput = destination {
            Console.notice("received content goes to standard output; Ctrl-C ends this")
        }
    }

    /// Writes whether peers find this machine over Bluetooth, once that is known.
    /// - Parameter isRequested: whether the user has named an adapter; otherwise a machine without Bluetooth is not worth a
    ///   message.
    static func showRadio(of listener: Listener, isRequested: Bool, to reporter: any CommandReporter) async {
        switch await listener.radio {
        case .on(let channel)?:
            reporter.emit("bluetooth", ["state": .string("on"), "channel": .number(UInt64(channel))]) {
                Console.notice("peers in range find this machine over Bluetooth, too")
            }
        case .unavailable(let reason)?:
            reporter.emit("bluetooth", ["state": .string("unavailable"), "reason": .string(reason)]) {
                if isRequested { Console.warn("Bluetooth is not available: \(reason)") }
            }
        case nil: break
        }
    }
}
