import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareBluetooth

private typealias F = DeviceFixtures

/// A table with one peer in range, driven through its states.
private struct Rig {
    var table = BlueChatPeerTable()
    var now = F.at(100)
    let number: Int
    var isReachable = true
    var isConnected = false
    var path: String { F.path(number) }
    var address: LinkAddress { LinkAddress(host: F.address(number) + "/random", port: 0, medium: .bluetooth) }

    init(_ number: Int = 1) throws {
        self.number = number
        table.discover(path, try #require(BluetoothAddress(F.address(number), kind: "random")), name: "olive", at: now)
    }

    private func device() -> RemoteDevice? {
        guard isReachable, let address = BluetoothAddress(F.address(number), kind: "random") else { return nil }
        var device = RemoteDevice(path: path, address: address, now: F.at(0))
        device.properties.isConnected = isConnected
        return device
    }

    mutating func connectNext() -> [BlueChatPeerTable.Reaction] {
        let device = device()
        return table.connectNext(at: now) { $0 == device?.path ? device : nil }
    }

    mutating func addCharacteristics() {
        for uuid in [BlueChat.fromCentral, BlueChat.fromPeripheral, BlueChat.disconnectRequest] {
            table.addCharacteristic(path + "/" + uuid, uuid: uuid, of: path)
        }
    }

    mutating func makeLinked() {
        now = F.at(104)
        #expect(connectNext().contains(.connect(path: path)))
        #expect(table.connected(path, at: now) == [.identify(path: path)])
        addCharacteristics()
        #expect(
            table.subscribeIfResolved(path, at: now)
                == [
                    .subscribe(
                        path: path, disconnectRequests: path + "/" + BlueChat.disconnectRequest,
                        texts: path + "/" + BlueChat.fromPeripheral)
                ])
        #expect(table.subscribed(path) == [.linked(path: path)])
    }

    var peer: BlueChatPeer? { table[path] }
}

@Suite("BlueChat's peers")
struct BlueChatPeerTableTests {
    @Test("a peer is connected to after four seconds, subscribed to, and linked")
    func story() throws {
        var rig = try Rig()
        #expect(rig.connectNext().isEmpty, "its other advertisement may follow")
        #expect(rig.table.nextDeadline(after: rig.now) == F.at(104))
        rig.makeLinked()
        #expect(rig.peer?.isLinked == true && rig.peer?.isOutgoing == true)
        #expect(rig.table.linkedPaths == [rig.path])
        #expect(rig.table.path(of: rig.address) == rig.path)
        #expect(rig.connectNext().isEmpty)
        #expect(rig.table.nextDeadline(after: rig.now) == nil)
    }

    @Test("subscribing waits for all three characteristics, in any order")
    func characteristics() throws {
        var rig = try Rig()
        rig.now = F.at(104)
        _ = rig.connectNext()
        _ = rig.table.connected(rig.path, at: rig.now)
        for (index, uuid) in [BlueChat.disconnectRequest, BlueChat.fromCentral, BlueChat.fromPeripheral].enumerated() {
            #expect(rig.table.subscribeIfResolved(rig.path, at: rig.now).isEmpty)
            rig.table.addCharacteristic("/c\(index)", uuid: uuid, of: rig.path)
        }
        #expect(rig.table.subscribeIfResolved(rig.path, at: rig.now).count == 1)
        #expect(rig.table.subscribeIfResolved(rig.path, at: rig.now).isEmpty, "once")
    }

    @Test("a peer that is not reachable now is not connected to, and a connection of others is not this one's")
    func reachable() throws {
        var rig = try Rig()
        rig.now = F.at(104)
        rig.isReachable = false
        #expect(rig.connectNext().isEmpty)
        rig.isReachable = true
        rig.isConnected = true
        #expect(!rig.connectNext().isEmpty)
        _ = rig.table.connected(rig.path, at: rig.now)
        #expect(rig.peer?.isOutgoing == false)
    }

    @Test("failures are followed by longer and longer pauses")
    func failures() throws {
        var rig = try Rig()
        rig.now = F.at(104)
        _ = rig.connectNext()
        #expect(rig.table.isConnecting)
        #expect(
            rig.table.fail(rig.path, at: rig.now) == [.cancelTexts(path: rig.path), .disconnect(path: rig.path)],
            "BlueZ's own attempt has to end")
        #expect(!rig.table.isConnecting)
        #expect(rig.table.nextDeadline(after: rig.now) == F.at(105))
        rig.now = F.at(105)
        _ = rig.connectNext()
        rig.now = F.at(115)
        #expect(rig.table.tick(at: rig.now).contains(.disconnect(path: rig.path)), "the step has taken too long")
        #expect(rig.table.nextDeadline(after: rig.now) == F.at(117))
        #expect(rig.table.connected(rig.path, at: rig.now).isEmpty, "a late reply")
        #expect(rig.table.subscribed(rig.path).isEmpty)
    }

    @Test("a lost link is reported, with its texts")
    func lost() throws {
        var rig = try Rig()
        rig.makeLinked()
        #expect(
            rig.table.disconnected(rig.path, at: rig.now) == [.cancelTexts(path: rig.path), .unlinked(rig.address)])
        #expect(rig.peer?.isIdle == true && rig.peer?.backoff.failureCount == 1)
        #expect(rig.table.disconnected(rig.path, at: rig.now) == [.cancelTexts(path: rig.path)])
        #expect(rig.table.disconnected("/unknown", at: rig.now).isEmpty)
    }

    @Test("a peer that asks to be left is disconnected, and left alone for a minute")
    func leaving() throws {
        var rig = try Rig()
        rig.makeLinked()
        #expect(
            rig.table.pause(rig.path, at: rig.now)
                == [.cancelTexts(path: rig.path), .unlinked(rig.address), .disconnect(path: rig.path)])
        #expect(rig.table.nextDeadline(after: rig.now) == F.at(164))
        #expect(rig.peer?.backoff.failureCount == 0)
    }

    @Test("indications and disconnect requests are told apart by their characteristics")
    func indications() throws {
        var rig = try Rig()
        rig.addCharacteristics()
        #expect(rig.table.linkedPeer(ofCharacteristic: rig.path + "/" + BlueChat.fromPeripheral) == nil, "not linked yet")
        rig.makeLinked()
        let text = rig.table.linkedPeer(ofCharacteristic: rig.path + "/" + BlueChat.fromPeripheral)
        #expect(text?.path == rig.path && text?.isRequest == false)
        #expect(rig.table.linkedPeer(ofCharacteristic: rig.path + "/" + BlueChat.disconnectRequest)?.isRequest == true)
        #expect(rig.table.linkedPeer(ofCharacteristic: "/other") == nil)
    }

    // MARK: The mesh

    @Test("a device that offers the mesh, too, is left to it with its connection")
    func mesh() throws {
        var rig = try Rig()
        rig.makeLinked()
        let (isOutgoing, reactions) = rig.table.yieldToMesh(rig.path)
        #expect(isOutgoing)
        #expect(reactions == [.cancelTexts(path: rig.path), .unlinked(rig.address)])
        #expect(rig.peer == nil)
        #expect(!rig.table.yieldToMesh(rig.path).isOutgoing)
    }

    @Test("but not while it is being connected to, or is served")
    func meshLater() throws {
        var rig = try Rig()
        rig.now = F.at(104)
        _ = rig.connectNext()
        #expect(!rig.table.yieldToMesh(rig.path).isOutgoing)
        #expect(rig.peer != nil)
        var served = try Rig(2)
        _ = served.table.serve(served.path, name: nil, at: served.now)
        #expect(served.table.yieldToMesh(served.path).reactions.isEmpty)
        #expect(served.peer?.state == .served)
    }

    // MARK: As a peripheral

    @Test("a central that writes is served, and gone when it disconnects")
    func served() throws {
        var rig = try Rig()
        let path = F.path(9)
        #expect(rig.table.serve(path, name: nil, at: rig.now) == [.linked(path: path)])
        #expect(rig.table.serve(path, name: "pia", at: rig.now).isEmpty, "it is linked already")
        #expect(rig.table[path]?.name == "pia" && rig.table[path]?.state == .served)
        let address = try #require(rig.table[path]?.linkAddress)
        #expect(rig.table.disconnected(path, at: rig.now) == [.cancelTexts(path: path), .unlinked(address)])
        #expect(rig.table[path] == nil)
        #expect(rig.table.serve("/org/bluez/hci0", name: nil, at: rig.now).isEmpty, "no address in the path")
    }

    @Test("a central that was asked to leave and stays is disconnected after three seconds")
    func asked() throws {
        var rig = try Rig()
        rig.isReachable = false
        let path = F.path(9)
        _ = rig.table.serve(path, name: nil, at: rig.now)
        rig.table.expectDisconnect(path, at: rig.now)
        #expect(rig.table.nextDeadline(after: rig.now) == F.at(103))
        #expect(rig.table.tick(at: F.at(102)).isEmpty)
        #expect(rig.table.tick(at: F.at(103)) == [.disconnect(path: path)])
        #expect(rig.table.tick(at: F.at(104)).isEmpty)
        rig.table.expectDisconnect(path, at: rig.now)
        _ = rig.table.disconnected(path, at: rig.now)
        #expect(rig.table.tick(at: F.at(200)).isEmpty, "it has left")
    }

    // MARK: Bounds and ends

    @Test("32 peers are remembered; one that could not be reached makes room")
    func capacity() throws {
        var rig = try Rig()
        func discover(_ number: Int) throws {
            rig.table.discover(
                F.path(number), try #require(BluetoothAddress(F.address(number), kind: "random")), name: nil, at: rig.now)
        }
        for number in 2...100 { try discover(number) }
        #expect((1...BlueChatPeerTable.capacity).allSatisfy { rig.table[F.path($0)] != nil })
        #expect(rig.table[F.path(BlueChatPeerTable.capacity + 1)] == nil)
        #expect(rig.table.serve(F.path(200), name: nil, at: rig.now).isEmpty)
        _ = rig.table.fail(F.path(5), at: rig.now)
        try discover(99)
        #expect(rig.table[F.path(5)] == nil && rig.table[F.path(99)] != nil)
    }

    @Test("a name that comes later is kept, and none does not replace it")
    func names() throws {
        var rig = try Rig()
        rig.table.discover(rig.path, try #require(rig.peer?.address), name: nil, at: rig.now)
        #expect(rig.peer?.name == "olive")
        rig.table.discover(rig.path, try #require(rig.peer?.address), name: "oliver", at: rig.now)
        #expect(rig.peer?.name == "oliver")
    }

    @Test("no more than four peers are linked as a central")
    func links() throws {
        var table = BlueChatPeerTable()
        for number in 1...BlueChatPeerTable.maximumLinkCount { _ = table.serve(F.path(number), name: nil, at: F.at(0)) }
        var rig = try Rig(9)
        rig.now = F.at(200)
        var one = rig
        one.table = table
        one.table.discover(one.path, try #require(BluetoothAddress(F.address(9), kind: "random")), name: nil, at: F.at(0))
        #expect(one.connectNext().isEmpty)
        #expect(!rig.connectNext().isEmpty)
    }

    @Test("leaving disconnects own connections only, and drops all texts")
    func leave() throws {
        var rig = try Rig()
        rig.makeLinked()
        _ = rig.table.serve(F.path(9), name: nil, at: rig.now)
        let reactions = rig.table.leave()
        #expect(reactions.count { $0 == .disconnect(path: rig.path) } == 1)
        #expect(!reactions.contains(.disconnect(path: F.path(9))))
        #expect(reactions.contains(.cancelTexts(path: F.path(9))))
        #expect(rig.peer == nil && rig.table.linkedPaths.isEmpty)
    }

    @Test("peers that BlueZ removes are gone")
    func removed() throws {
        var rig = try Rig()
        rig.makeLinked()
        #expect(rig.table.removeAll() == [.cancelTexts(path: rig.path), .unlinked(rig.address)])
        #expect(rig.table.remove(rig.path).isEmpty)
    }
}

@Suite("texts on their way")
struct TextQueueTests {
    /// Counts completions by outcome.
    private final class Outcomes: Sendable {
        let counts = Monitor<(delivered: Int, failed: Int)>((0, 0))

        func completion() -> TextQueue.Completion {
            { error in self.counts.update { if error == nil { $0.delivered += 1 } else { $0.failed += 1 } } }
        }
    }

    @Test("values go one after the other, and a text is done with its last one")
    func order() {
        let outcomes = Outcomes()
        var queue = TextQueue()
        #expect(queue.append([[1], [2]], for: "/a", completion: outcomes.completion()) == true)
        #expect(queue.append([[3]], for: "/a", completion: outcomes.completion()) == false, "one is under way")
        #expect(queue.append([[9]], for: "/b", completion: outcomes.completion()) == true, "to another peer")
        var sent: [[UInt8]] = []
        while let value = queue.next(for: "/a") {
            sent.append(value)
            queue.confirm(for: "/a")?(nil)
        }
        #expect(sent == [[1], [2], [3]])
        #expect(outcomes.counts.withLock { $0.delivered } == 2)
        #expect(queue.confirm(for: "/a") == nil, "nothing is under way")
        #expect(queue.next(for: "/b") == [9])
    }

    @Test("texts to a peer that is lost are lost")
    func lost() {
        let outcomes = Outcomes()
        var queue = TextQueue()
        for _ in 0..<3 { _ = queue.append([[1]], for: "/a", completion: outcomes.completion()) }
        for completion in queue.removeAll(for: "/a") { completion(LinkError(.broken, "x")) }
        #expect(outcomes.counts.withLock { $0.failed } == 3)
        #expect(queue.next(for: "/a") == nil)
        #expect(queue.removeAll(for: "/a").isEmpty)
    }

    @Test("16 texts wait for one peer at the most")
    func capacity() {
        var queue = TextQueue()
        for _ in 0..<TextQueue.capacity {
            #expect(!queue.isFull(for: "/a"))
            _ = queue.append([[1]], for: "/a") { _ in }
        }
        #expect(queue.isFull(for: "/a") && !queue.isFull(for: "/b"))
    }
}
