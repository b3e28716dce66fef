internal import Glibc
internal import NearshareBase
internal import NearshareDBus
internal import NearshareInterfaces

// From a device that is heard to frames that go over it, and the end of what is not wanted any more.
extension AdapterController {
    /// Whether it is worth a connection at some time.
    func mayBegin(_ neighbour: Neighbour) -> Bool {
        guard neighbour.speaksMesh, neighbour.isHeard || neighbour.isConnected, !server.hasLink(neighbour.path) else {
            return false
        }
        switch neighbour.phase {
        case .idle: return linkCount < Self.maximumLinks
        case .attached: return frames != nil && linkCount < Self.maximumLinks
        default: return false
        }
    }

    /// Has BlueZ forget devices of which it may know no longer what they speak; it tells of them anew as soon as they are heard.
    func refreshStale(at now: MonotonicInstant) {
        for neighbour in neighbours.values where neighbour.isStale {
            let isLate = refreshed[neighbour.address].map { now - $0 >= Self.refreshPause } ?? true
            guard isLate, refreshed.count < DeviceTable.capacity else { continue }
            refreshed[neighbour.address] = now
            log("\(BlueZ.name(of: neighbour.path)) is looked at anew")
            try? bus.send(BlueZ.call(adapter.path, BlueZ.adapter, "RemoveDevice", [.objectPath(neighbour.path)]))
        }
        refreshed = refreshed.filter { now - $0.value < Self.refreshPause }
    }

    func connectNext(at now: MonotonicInstant) {
        // An adapter makes one connection at a time, and it is not to be disturbed.
        guard !isConnecting else { return }
        let due = neighbours.values.filter { mayBegin($0) && dueAt($0) <= now }
        // In a crowd, who is near first.
        func rank(_ one: Neighbour) -> (Int, Int, Int, MonotonicInstant) {
            (one.phase.isAttached ? 0 : 1, one.failures, -one.strength, one.dueAt)
        }
        guard let next = due.min(by: { rank($0) < rank($1) }) else { return }
        if case .attached = next.phase { return acquire(next.path) }
        connect(next.path, at: now)
    }

    func connectNextToChat(at now: MonotonicInstant) {
        guard !isConnecting, holds.isEmpty, let path = chat.nextDue(at: now, isReachable: isReachableForChat) else { return }
        stopDiscovery()
        chat.connect(path, wasConnected: neighbours[path]?.isConnected ?? false, at: now)
    }

    /// Two that both advertise must not connect to each other at once: while they try, neither can be heard. And who has connected
    /// to us is about to write; or it is a connection that BlueZ is about to end, in which nothing may be begun.
    func dueAt(_ neighbour: Neighbour) -> MonotonicInstant {
        let isTheirs =
            neighbour.isConnected ? !neighbour.isOurs : server.isAdvertising && adapter.address > neighbour.address
        return isTheirs ? max(neighbour.dueAt, neighbour.since + Neighbour.courtesyTime) : neighbour.dueAt
    }

    private func connect(_ path: String, at now: MonotonicInstant) {
        stopDiscovery()
        log("connecting to \(BlueZ.name(of: path))")
        neighbours[path]!.phase = .connecting(until: now + Self.connectTime)
        let wasConnected = neighbours[path]!.isConnected
        ask(path, BlueZ.call(path, BlueZ.device, "Connect"), Self.connectTime + .seconds(1)) { loop, _ in
            guard case .connecting = loop.neighbours[path]!.phase else { return }
            loop.neighbours[path]!.isConnected = true
            // What was made for a chat is ours, too.
            if !wasConnected { loop.neighbours[path]!.isOurs = true }
            loop.neighbours[path]!.phase = .resolving(until: .now + Self.connectTime)
            loop.post { $0.resolve(path) }
        }
    }

    /// Goes on when BlueZ knows all services of the device. Called again when it says so.
    func resolve(_ path: String) {
        guard let neighbour = neighbours[path], case .resolving(let until) = neighbour.phase, neighbour.isResolved else {
            return
        }
        // It says so before it has told of them all, where it remembers them from the last time.
        neighbours[path]!.phase = .reading(until: until)
        ask(path, BlueZ.getObjects, Self.connectTime) { loop, answer in
            loop.take((answer.objects() ?? [:]).filter { $0.key.hasPrefix(path + "/") })
            guard case .reading = loop.neighbours[path]!.phase else { return }
            loop.read(path)
        }
    }

    private func read(_ path: String) {
        guard let neighbour = neighbours[path], neighbour.meshPath != nil else { return fail(path) }
        guard let recordPath = neighbour.recordPath else { return attach(path) }
        neighbours[path]!.phase = .reading(until: .now + Self.connectTime)
        ask(path, BlueZ.call(recordPath, BlueZ.characteristic, "ReadValue", [.dictionary([:])]), Self.connectTime) {
            loop, answer in
            guard case .reading = loop.neighbours[path]!.phase else { return }
            loop.neighbours[path]!.record = answer.bytes().flatMap { ServiceRecord($0) }
            if let sighting = loop.neighbours[path]!.sighting { loop.tell(.seen(sighting)) }
            loop.attach(path)
        }
    }

    private func attach(_ path: String) {
        neighbours[path]!.phase = .attached
        neighbours[path]!.dueAt = .now
        // It can be reached, and nothing more is wanted.
        if frames == nil { neighbours[path]!.failures = 0 }
    }

    private func acquire(_ path: String) {
        guard let mesh = neighbours[path]?.meshPath else { return fail(path) }
        neighbours[path]!.phase = .acquiring(until: .now + Self.connectTime)
        // First the way back: the other side answers the first thing that we write.
        ask(path, BlueZ.call(mesh, BlueZ.characteristic, "AcquireNotify", [.dictionary([:])]), Self.connectTime) {
            loop, answer in
            guard let notified = answer.descriptor() else { return loop.fail(path) }
            guard case .acquiring = loop.neighbours[path]!.phase else {
                Glibc.close(notified)
                return
            }
            loop.neighbours[path]!.acquired = AcquiredDescriptor(notified)
            let call = BlueZ.call(mesh, BlueZ.characteristic, "AcquireWrite", [.dictionary([:])])
            loop.ask(path, call, Self.connectTime) { loop, answer in
                guard let writing = answer.descriptor(), let mtu = answer.uint16() else { return loop.fail(path) }
                loop.link(path, writing: writing, mtu: Int(mtu))
            }
        }
    }

    /// Twice in a row, because BlueZ may hold on to what the last connection had.
    private func isTaken(_ path: String) {
        guard let neighbour = neighbours[path], neighbour.failures == 1 else { return }
        warn(
            "another program on this machine exchanges frames with \(neighbour.address) over \(adapter.name), and BlueZ lets only one; "
                + "end it, or use another adapter with --adapter")
    }

    func link(_ path: String, writing: Int32, mtu: Int) {
        guard let neighbour = neighbours[path], case .acquiring = neighbour.phase, let notified = neighbour.acquired?.take(),
            let frames
        else {
            Glibc.close(writing)
            return
        }
        let link = CentralLink(
            writing: writing, notified: notified,
            maximumFrameByteCount: min(mtu - GATTProfile.headerByteCount, GATTProfile.maximumFrameByteCount),
            remote: neighbour.address.linkAddress(port: 0),
            onClose: { [post] in post { $0.linkEnded(path) } })
        log("frames go to \(BlueZ.name(of: path)), \(mtu) bytes at once")
        neighbours[path]!.phase = .linked(link, since: .now)
        frames.yield(link)
    }

    private func linkEnded(_ path: String) {
        guard let neighbour = neighbours[path], case .linked(_, let since) = neighbour.phase else { return }
        // One that held for a while was a good one.
        if MonotonicInstant.now - since > Neighbour.longestPause { neighbours[path]!.failures = 0 }
        neighbours[path]!.rest(at: .now)
        // The way of the other side may go over the same connection.
        if !server.hasLink(path) { disconnect(neighbour) }
    }

    /// Asks the daemon about a neighbour that is still there when the answer comes; without one, the attempt has failed.
    private func ask(
        _ path: String, _ call: BusCall, _ timeout: Duration, then: @escaping (AdapterController, BusMessage) -> Void
    ) {
        do throws(BusError) {
            try bus.call(call, timeout: timeout) { [unowned self] result in
                guard neighbours[path] != nil else { return }
                switch result {
                case .success(let answer): then(self, answer)
                case .failure(let error):
                    log("\(call.member) of \(BlueZ.name(of: path)) fails: \(error.text)")
                    if call.member.hasPrefix("Acquire"), BlueZ.isTakenElsewhere(error) { isTaken(path) }
                    fail(path)
                }
            }
        } catch {
            fail(path)
        }
    }

    // MARK: Letting go

    func disconnected(_ path: String) {
        server.disconnected(path)
        chat.disconnected(path, at: .now)
        guard let neighbour = neighbours[path] else { return }
        neighbours[path]!.isResolved = false
        neighbours[path]!.isOurs = false
        switch neighbour.phase {
        case .idle, .connecting: break
        default: fail(path)
        }
    }

    func forget(_ path: String) {
        server.disconnected(path)
        chat.forget(path)
        guard let neighbour = neighbours[path] else { return }
        neighbours[path] = nil
        neighbour.link?.close()
        tellGone(neighbour)
    }

    /// The attempt, or the link, is over; another one comes after a pause that grows.
    func fail(_ path: String) {
        guard let neighbour = neighbours[path] else { return }
        log("\(BlueZ.name(of: path)) is left alone for a while (\(neighbour.phase))")
        neighbour.link?.close()
        // BlueZ may hold on to what was half done; the next attempt begins with a connection of its own.
        if neighbour.phase.isConnecting { disconnect(neighbour) }
        neighbours[path]!.rest(at: .now)
        if neighbours[path]!.failures >= Neighbour.givesUpAfter { tellGone(neighbour) }
    }

    /// Whether frames that a central writes to us make a link. Between two nodes that have each connected to the other, the way of
    /// the one with the lower address stays.
    func mayServe(_ device: String) -> Bool {
        guard let neighbour = neighbours[device], neighbour.link != nil, neighbour.record != nil else { return true }
        guard adapter.address > neighbour.address else { return false }
        neighbour.link?.close()
        return true
    }

    func giveUp(_ path: String) {
        if neighbours[path]?.isConnected == false {
            // Ends BlueZ's own attempt, which would go on for half a minute.
            try? bus.send(BlueZ.call(path, BlueZ.device, "Disconnect"))
        }
        fail(path)
    }

    /// Nobody wants to know of anybody any more. Not at once: whoever has found a peer opens a channel to it next, over the same
    /// connection.
    func letGoIfUnwanted(at now: MonotonicInstant) {
        guard !wantsNeighbours, neighbours.values.contains(where: { $0.phase.isAttached }) else {
            unwantedSince = nil
            return
        }
        let since = unwantedSince ?? now
        unwantedSince = since
        guard now - since >= Self.graceTime else { return }
        for (path, neighbour) in neighbours.all where neighbour.phase.isAttached && holds[neighbour.address] == nil {
            disconnect(neighbour)
            neighbours[path]!.phase = .idle
        }
    }

    /// Has connected to us and wants nothing: neither frames, nor a channel, nor a chat. A controller has room for a few connections.
    func isSilent(_ neighbour: Neighbour) -> Bool {
        neighbour.isCaller && neighbour.isConnected && !neighbour.isOurs && neighbour.phase.isIdle && !neighbour.isBonded
            && holds[neighbour.address] == nil && !server.hasLink(neighbour.path) && !chat.isLinked(neighbour.path)
    }

    func dropSilent(at now: MonotonicInstant) {
        for neighbour in neighbours.values where isSilent(neighbour) && now - neighbour.since >= Self.silence {
            log("\(BlueZ.name(of: neighbour.path)) has connected and says nothing")
            // Not again at once.
            neighbours[neighbour.path]!.since = now
            try? bus.send(BlueZ.call(neighbour.path, BlueZ.device, "Disconnect"))
        }
    }

    /// Ends a connection that we have made, unless a channel is open on it.
    func disconnect(_ neighbour: Neighbour) {
        guard neighbour.isOurs, neighbour.isConnected, holds[neighbour.address] == nil else { return }
        neighbours[neighbour.path]?.isOurs = false
        try? bus.send(BlueZ.call(neighbour.path, BlueZ.device, "Disconnect"))
    }
}
