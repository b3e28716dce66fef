import FoundationEssentials
import Nearshare
import NearshareBundles
import NearshareService
import NearshareTerminal
import Testing

@testable import NearshareCLI

@Suite("the state of a node") struct MeshStatusTests {
    private func status(
        _ bluetooth: NodeStatus.Bluetooth = .notUsed, isDaemon: Bool = true, neighbours: [NodeStatus.Neighbour] = []
    ) throws -> NodeStatus {
        NodeStatus(
            id: try #require(annaID), name: try DisplayName("an\u{1b}na"), process: 42, uptime: 3_725, isDaemon: isDaemon,
            profile: NodeStatus.Profile(
                name: nil, hopLimit: 7, timeToLive: 86_400, sharingTime: 1_000, maximumPropagation: 5, tracklistLimit: 9),
            port: 4000, neighbours: neighbours, storedBundleCount: 3, sessionLifetime: 60,
            secureSessions: neighbours.map(\.contact.id),
            bluetooth: bluetooth, inbox: "/in\u{202e}box")
    }

    private func rows(_ status: NodeStatus) -> [String] { MeshStatusCommand.rows(status).map { $0.joined(separator: ": ") } }

    @Test func `every property of a node has a row, escaped`() throws {
        let rows = rows(try status())
        for row in [
            "name: an\\u{1b}na", "id: 1a2b3c4d5e6f7081", "process: 42, for 1:02:05", "profile: standard", "port: 4000",
            "bluetooth: not used", "inbox: /in\\u{202e}box", "messages stored: 3", "secure sessions: 0, for 60 s each",
        ] { #expect(rows.contains(row), "\(rows)") }
        #expect(self.rows(try status(isDaemon: false)).contains("process: 42, for 1:02:05, until another command ends"))
    }

    @Test func `a trace without decisions names an id only where one was given`() {
        #expect(!MeshTraceCommand.absence(of: nil).contains("that id"))
        #expect(MeshTraceCommand.absence(of: "0011").contains("that id"))
    }

    private static let radios: [(NodeStatus.Bluetooth, String)] = [
        (.starting, "starting"), (.on(channel: 131), "on, channel 131"), (.notUsed, "not used"),
        (.unavailable(reason: "no adapter"), "not available: no adapter"),
    ]

    @Test func `every state of Bluetooth has its words, in text and in JSON`() throws {
        for (bluetooth, text) in Self.radios {
            let status = try status(bluetooth)
            #expect(rows(status).contains("bluetooth: \(text)"))
            #expect(try encoded(.object(MeshStatusCommand.jsonMembers(status))).contains("\"bluetooth\":\"\(text)\""))
        }
    }

    @Test func `the JSON members of a neighbour`() throws {
        let contact = Contact(
            id: try #require(PeerID(hex: "00000000000000bb")), name: try DisplayName("ben"),
            trustStatus: .known(.seen, isFriend: false), isNear: true, software: .phone, hasKeys: false)
        let json = try encoded(
            .object(
                MeshStatusCommand.jsonMembers(try status(neighbours: [NodeStatus.Neighbour(contact: contact, isDirect: true)])))
        )
        #expect(
            json.contains(
                #""near":[{"id":"00000000000000bb","linked":true,"name":"ben","secure":true,"software":"phone","trust":"seen"}]"#
            )
        )
        #expect(json.contains(#""standing":true"#) && json.contains(#""carried":3"#))
    }

    @Test func `the signal strength of a neighbour is shown with its age where it is known`() throws {
        let neighbours = try ["ben", "cleo"].map { name in
            let contact = Contact(
                id: try #require(PeerID(hex: "00000000000000bb")), name: try DisplayName(name), trustStatus: .new, isNear: true,
                software: .nearshare, hasKeys: true)
            let signal = NodeStatus.Signal(strength: -61, age: 125)
            return NodeStatus.Neighbour(contact: contact, isDirect: true, signal: name == "ben" ? signal : nil)
        }
        let status = try status(neighbours: neighbours)
        let rows = MeshStatusCommand.neighbourRows(status)
        #expect(rows[0].last == "Bluetooth -61 dBm 2 min ago" && rows[1].last == "secure session", "\(rows)")
        let json = try encoded(.object(MeshStatusCommand.jsonMembers(status)))
        #expect(json.contains(#""name":"ben","rssi":-61,"rssi_age":125,"secure":true"#), "\(json)")
        #expect(json.contains(#""name":"cleo","secure":true"#), "\(json)")
    }
}
