internal import NearshareBase
internal import NearshareInterfaces

/// A device that offers BlueChat's service or has connected to this machine's.
struct BlueChatPeer {
    /// The progress towards texts in both directions.
    ///
    ///     idle → connecting → resolvingServices → subscribing → linked (as central);   idle → served (as peripheral)
    enum State: Equatable {
        case idle
        case connecting(deadline: MonotonicInstant, wasConnected: Bool)
        case resolvingServices(deadline: MonotonicInstant)
        case subscribing(deadline: MonotonicInstant)
        case linked
        case served
    }

    /// The object paths of the service's characteristics; subscribing needs all of them.
    struct Characteristics: Equatable {
        var text: String?
        var indication: String?
        var disconnectRequest: String?

        mutating func add(_ path: String, uuid: String) {
            switch uuid {
            case BlueChat.fromCentral: text = path
            case BlueChat.fromPeripheral: indication = path
            case BlueChat.disconnectRequest: disconnectRequest = path
            default: break
            }
        }
    }

    let address: BluetoothAddress
    var name: String?
    var state = State.idle
    /// This process has connected, so it may also disconnect.
    var isOutgoing = false
    var backoff: RetryBackoff
    var characteristics = Characteristics()

    var linkAddress: LinkAddress { address.linkAddress(port: 0) }

    var isIdle: Bool { state == .idle }

    /// Whether texts can be exchanged.
    var isLinked: Bool { state == .linked || state == .served }

    var deadline: MonotonicInstant? {
        switch state {
        case .connecting(let deadline, _), .resolvingServices(let deadline), .subscribing(let deadline): deadline
        case .idle, .linked, .served: nil
        }
    }
}
