import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareNetworkManager

@Suite struct WiFiMachineTests {
    private typealias Machine = WiFiMachine
    private typealias Change = WiFiMachine.ConnectionChange

    private static let network = WiFiNetwork(ssid: "n", passphrase: "12345678")
    private static let address = IPAddress.v4(0x0a2a_0001)
    private static let path = "/active/7"
    private static let device = "/devices/1"
    private static let start = MonotonicInstant(nanoseconds: 1_000_000_000)

    private static func target(replacing profile: String?) throws -> WiFiTarget {
        var facts = WiFiFacts()
        facts.devices = [
            .init(
                path: device, interface: "wlan0", state: profile == nil ? 30 : 100, capabilities: .protectedAccessPoint,
                connection: profile.map { .init(name: "Office", profile: $0) })
        ]
        return try WiFiTarget(facts, interface: nil)
    }

    /// A machine in one of its phases, by what has happened.
    private static func machine(
        replacing profile: String? = "/settings/3", _ steps: (inout Machine) -> Void
    ) throws -> Machine {
        var machine = Machine(try target(replacing: profile))
        steps(&machine)
        _ = machine.drainReactions()
        return machine
    }

    private static func request(_ machine: inout Machine) { machine.start(network, now: start) }

    private static func activate(_ machine: inout Machine) {
        request(&machine)
        machine.requested(path, now: start)
    }

    private static func change(_ machine: inout Machine, _ state: UInt32, reason: UInt32 = 1) {
        machine.connectionChanged(path, Change(state: state, reason: reason), now: start)
    }

    private static func run(_ machine: inout Machine) {
        activate(&machine)
        change(&machine, 2)
        machine.addressFound(address, now: start)
    }

    @Test func `a network is asked for, gets an address, and ends with the old connection`() throws {
        var machine = Machine(try Self.target(replacing: "/settings/3"))
        #expect(machine.drainReactions().isEmpty && machine.deadline == nil)
        machine.start(Self.network, now: Self.start)
        #expect(machine.drainReactions() == [.activate(Self.network, .sharing, machine.target)])
        machine.requested(Self.path, now: Self.start)
        Self.change(&machine, 1)
        #expect(machine.drainReactions().isEmpty && machine.deadline == Self.start + Machine.startTimeout)
        Self.change(&machine, 2)
        #expect(machine.drainReactions() == [.readAddress(connection: Self.path)])
        machine.addressFound(Self.address, now: Self.start)
        #expect(machine.drainReactions() == [.started(Self.address)] && machine.deadline == nil)
        machine.stop(now: Self.start)
        #expect(machine.drainReactions() == [.deactivate(connection: Self.path)])
        Self.change(&machine, 3)
        #expect(machine.drainReactions().isEmpty)
        Self.change(&machine, 4)
        #expect(machine.drainReactions() == [.restore(profile: "/settings/3", device: Self.device)])
        machine.restored()
        #expect(machine.drainReactions() == [.ended(nil)] && machine.isFinished)
    }

    @Test func `a device without a connection has none to return to`() throws {
        var machine = try Self.machine(replacing: nil, Self.run)
        machine.stop(now: Self.start)
        Self.change(&machine, 4)
        #expect(machine.drainReactions() == [.deactivate(connection: Self.path), .ended(nil)])
    }

    @Test func `signals that come before the reply that names the connection are not lost`() throws {
        var machine = try Self.machine(Self.request)
        for number in 0..<40 {
            machine.connectionChanged("/active/9\(number)", Change(state: 4, reason: 1), now: Self.start)
        }
        var other = try Self.machine(Self.request)
        Self.change(&other, 1)
        Self.change(&other, 2)
        other.requested(Self.path, now: Self.start)
        #expect(other.drainReactions() == [.readAddress(connection: Self.path)])
        // Beyond the limit a later signal decides.
        Self.change(&machine, 1)
        machine.requested(Self.path, now: Self.start)
        Self.change(&machine, 2)
        #expect(machine.drainReactions() == [.readAddress(connection: Self.path)])
    }

    @Test func `a refusal changes nothing, so nothing is restored`() throws {
        var machine = try Self.machine(Self.request)
        machine.requestFailed(.notPermitted)
        #expect(machine.drainReactions() == [.ended(.notPermitted)] && machine.isFinished)
    }

    /// (reason of the connection, reason of the device, error of a network that did not start)
    private static let failures: [(UInt32, UInt32, WiFiError)] = [
        (3, 18, .noAddresses), (3, 19, .noAddresses), (3, 35, .notStarted(interface: "wlan0", code: 35)),
        (0, 0, .notStarted(interface: "wlan0", code: 0)),
    ]

    @Test("what a device says of its failure is what the user is told", arguments: failures)
    func failure(reason: UInt32, deviceReason: UInt32, error: WiFiError) throws {
        var machine = try Self.machine(Self.activate)
        machine.deviceChanged(Self.device, reason: deviceReason)
        machine.deviceChanged("/devices/2", reason: 36)
        Self.change(&machine, 4, reason: reason)
        #expect(machine.drainReactions() == [.restore(profile: "/settings/3", device: Self.device)])
        // A restoration without an answer ends as well.
        machine.advance(to: Self.start + Machine.stopTimeout)
        #expect(machine.drainReactions() == [.ended(error)])
    }

    @Test("a network that wpa_supplicant has not started is asked for once more", arguments: 8...11)
    func retry(deviceReason: UInt32) throws {
        var machine = try Self.machine(Self.activate)
        machine.deviceChanged(Self.device, reason: deviceReason)
        Self.change(&machine, 3, reason: 3)
        #expect(machine.drainReactions().isEmpty)
        Self.change(&machine, 4, reason: 3)
        #expect(machine.drainReactions() == [.activate(Self.network, .sharing, machine.target)])
        #expect(machine.deadline == Self.start + Machine.startTimeout)
        machine.requested("/active/8", now: Self.start)
        machine.deviceChanged(Self.device, reason: deviceReason)
        machine.connectionChanged("/active/8", Change(state: 4, reason: 3), now: Self.start)
        #expect(machine.drainReactions() == [.restore(profile: "/settings/3", device: Self.device)])
        machine.restored()
        #expect(machine.drainReactions() == [.ended(.notStarted(interface: "wlan0", code: deviceReason))])
    }

    @Test func `a network that has run is not asked for again`() throws {
        var machine = try Self.machine(Self.run)
        machine.deviceChanged(Self.device, reason: 10)
        Self.change(&machine, 3, reason: 3)
        #expect(machine.drainReactions() == [.restore(profile: "/settings/3", device: Self.device)])
        machine.restored()
        #expect(machine.drainReactions() == [.ended(.lost(interface: "wlan0", code: 10))])
    }

    /// (reason of the connection, reason of the device, error of a network that was there)
    private static let losses: [(UInt32, UInt32, WiFiError)] = [
        (3, 60, .replaced(interface: "wlan0")), (2, 39, .replaced(interface: "wlan0")), (2, 0, .replaced(interface: "wlan0")),
        (3, 36, .deviceGone(interface: "wlan0")), (14, 0, .deviceGone(interface: "wlan0")), (3, 37, .suspended),
        (4, 0, .serviceGone),
    ]

    @Test("a network that others have ended leaves the device to them", arguments: losses)
    func loss(reason: UInt32, deviceReason: UInt32, error: WiFiError) throws {
        var machine = try Self.machine(Self.run)
        machine.deviceChanged(Self.device, reason: deviceReason)
        Self.change(&machine, 3, reason: reason)
        #expect(machine.drainReactions() == [.ended(error)])
        Self.change(&machine, 4, reason: reason)
        machine.stop(now: Self.start)
        #expect(machine.drainReactions().isEmpty)
    }

    @Test func `a network without an address is taken down again`() throws {
        var machine = try Self.machine(Self.activate)
        Self.change(&machine, 2)
        machine.addressFound(nil, now: Self.start)
        #expect(machine.drainReactions() == [.readAddress(connection: Self.path), .deactivate(connection: Self.path)])
        Self.change(&machine, 4)
        machine.restored()
        #expect(
            machine.drainReactions() == [.restore(profile: "/settings/3", device: Self.device), .ended(.noAddresses)])
    }

    @Test("each phase with a deadline ends at it", arguments: [0, 1, 2, 3])
    func deadlines(phase: Int) throws {
        let error = WiFiError.timedOut(interface: "wlan0")
        var machine = try Self.machine { machine in
            Self.request(&machine)
            if phase > 0 { machine.requested(Self.path, now: Self.start) }
            if phase > 1 { Self.change(&machine, 2) }
            if phase > 2 { machine.stop(now: Self.start) }
        }
        var ended: [Machine.Reaction] = []
        var count = 0
        while let deadline = machine.deadline {
            machine.advance(to: deadline + .nanoseconds(-1))
            #expect(!machine.hasReactions)
            machine.advance(to: deadline)
            ended += machine.drainReactions()
            count += 1
        }
        #expect(count <= 3 && ended.last == .ended(phase > 2 ? nil : error))
    }

    @Test func `a network that a scan has missed is looked for once more, and then the reason is told`() throws {
        let role = WiFiRole.station(Self.address, prefixLength: 24, nil)
        var machine = Machine(try Self.target(replacing: "/settings/3"))
        machine.start(Self.network, as: role, now: Self.start)
        for isLast in [false, true] {
            #expect(machine.drainReactions() == [.activate(Self.network, role, machine.target)])
            machine.requested(Self.path, now: Self.start)
            machine.deviceChanged(Self.device, reason: 53)
            Self.change(&machine, 4, reason: 1)
            if isLast { #expect(machine.drainReactions() == [.restore(profile: "/settings/3", device: Self.device)]) }
        }
        machine.restored()
        #expect(machine.drainReactions() == [.ended(.notJoined(interface: "wlan0", code: 53))])
    }

    @Test func `an end before the reply takes down what the reply names`() throws {
        var machine = try Self.machine(Self.request)
        machine.stop(now: Self.start)
        #expect(!machine.hasReactions)
        machine.requested(Self.path, now: Self.start)
        #expect(machine.drainReactions() == [.deactivate(connection: Self.path)])
        var refused = try Self.machine(Self.request)
        refused.stop(now: Self.start)
        refused.requestFailed(.notPermitted)
        #expect(refused.drainReactions() == [.ended(nil)])
    }

    /// The steps to each phase.
    private static let phases: [@Sendable (inout Machine) -> Void] = [
        { _ in }, { request(&$0) }, { activate(&$0) },
        {
            activate(&$0)
            change(&$0, 2)
        }, { run(&$0) },
        {
            run(&$0)
            $0.stop(now: start)
        },
        {
            run(&$0)
            $0.stop(now: start)
            change(&$0, 4)
        },
    ]

    @Test("a device or service that is gone ends every phase at once", arguments: phases.indices, [false, true])
    func gone(phase: Int, isDevice: Bool) throws {
        var machine = try Self.machine(Self.phases[phase])
        machine.deviceRemoved("/devices/2")
        #expect(!machine.hasReactions)
        isDevice ? machine.deviceRemoved(Self.device) : machine.serviceEnded()
        let error: WiFiError = isDevice ? .deviceGone(interface: "wlan0") : .serviceGone
        #expect(machine.drainReactions() == [.ended(phase >= 5 ? nil : error)])
        machine.serviceEnded()
        #expect(!machine.hasReactions && machine.deadline == nil)
    }

    @Test func `what is said of another connection has no effect`() throws {
        var machine = try Self.machine(Self.run)
        machine.connectionChanged("/active/8", Change(state: 4, reason: 1), now: Self.start)
        machine.requested("/active/9", now: Self.start)
        machine.addressFound(nil, now: Self.start)
        machine.start(Self.network, now: Self.start)
        machine.restored()
        #expect(!machine.hasReactions && !machine.isFinished)
    }
}
