import FoundationEssentials
import Nearshare
import NearshareBase
import NearshareCrypto
import NearshareDirect
import NearshareEngine
import NearshareInterfaces
import NearshareTesting
import Testing

/// Values: they can be made, read and coded without a node.
extension WorstCall {
    /// Decodes malformed and unusual texts.
    private static func decodeJSON<Value: Codable>(_ type: Value.Type) {
        var texts = ["", "null", "{}", "[]", "0", "-1e999", "9223372036854775808", "\"\\u0000\"", "\"\\ud800\"", "\u{feff}1"]
        texts += Worst.texts.map { "\"\($0)\"" }
        texts.append(String(repeating: "[", count: 100_000))
        texts.append(String(repeating: "[", count: 400) + String(repeating: "]", count: 400))
        for text in texts {
            guard let value = attempt({ try JSONDecoder().decode(Value.self, from: Data(text.utf8)) }) ?? nil else { continue }
            attempt { try JSONEncoder().encode([value]) }
        }
    }

    static let values: [WorstCall] = [
        WorstCall("DisplayName.init(_:)", "DisplayName.init(truncating:)", "DisplayName.description") {
            for text in Worst.texts {
                for name in [attempt { try DisplayName(text) }, DisplayName(truncating: text)] { _ = name?.description }
            }
        },
        WorstCall("DisplayName.init(from:)", "DisplayName.encode(to:)") { decodeJSON(DisplayName.self) },
        WorstCall("Fingerprint.init(_:)", "Fingerprint.description") {
            for text in Worst.texts + [String(repeating: "g", count: 64), String(repeating: "É", count: 32)] {
                #expect(Fingerprint(text) == nil)
            }
            for digit in ["f", "F", "0"] { _ = Fingerprint(String(repeating: digit, count: 64))?.description }
        },
        WorstCall("Fingerprint.init(from:)", "Fingerprint.encode(to:)") { decodeJSON(Fingerprint.self) },
        WorstCall("PeerID.init(_:)", "PeerID.description", "PeerID.<(_:_:)") {
            for text in Worst.texts + [String(repeating: "g", count: 16), String(repeating: "É", count: 8)] {
                #expect(PeerID(text) == nil)
            }
            let ids = ["f", "F", "0"].compactMap { PeerID(String(repeating: $0, count: 16)) }
            #expect(ids.sorted().map(\.description).count == 3)
            #expect(!(ids[0] < ids[1]))
        },
        WorstCall("PeerID.init(from:)", "PeerID.encode(to:)") { decodeJSON(PeerID.self) },
        WorstCall("ServiceType.init(_:)") {
            for text in Worst.texts + ["-", "a-", "A", "a--b", String(repeating: "a", count: 16)] {
                attempt { try ServiceType(text) }
            }
        },
        WorstCall("PeerDestination.init(addresses:id:)") {
            _ = PeerDestination(addresses: [])
            _ = PeerDestination(addresses: Worst.texts.map { (host: $0, port: .max) } + Worst.texts.map { (host: $0, port: 0) })
        },
        WorstCall("ClaimedFileName.description") {
            for text in Worst.texts { _ = ClaimedFileName(text)?.description }
            for byte: UInt8 in [0, 0x0a, 0x1b, 0x80, 0xff] {
                _ = ClaimedFileName(bytes: [UInt8](repeating: byte, count: 255))?.description
            }
        },
        WorstCall("TerminalText.escaped(_:columns:)") {
            for text in Worst.texts {
                for columns in Worst.integers { _ = TerminalText.escaped(text, columns: columns) }
                _ = TerminalText.escaped(text)
            }
        },
        WorstCall("NodeLimits.init()", "NodeLimits.links", "NodeLimits.linksPerAddress") {
            var limits = NodeLimits()
            for number in Worst.integers {
                (limits.links, limits.linksPerAddress) = (number, number)
                #expect(limits.links >= 1 && limits.linksPerAddress >= 1)
            }
        },
        WorstCall("NearbyPeer.id", "NearbyPeer.name", "NearbyPeer.info", "NearbyPeer.destination") {
            var peer = NearbyPeer(id: TestNetwork.identity(1).peerID, name: try DisplayName("x"), addresses: [])
            for pairs in Worst.pairs { peer.info = pairs }
            peer.name = try DisplayName("\0")
            peer.id = TestNetwork.identity(2).peerID
            #expect(peer.destination.id == peer.id)
        },
        WorstCall("NodeError.description", "SessionError.description", "StreamError.description", "MemberState.description") {
            let id = TestNetwork.identity(1).peerID
            let peers = (0..<1000).compactMap { number in
                DisplayName(truncating: "\u{1b}\(number)").map { NearbyPeer(id: id, name: $0, addresses: []) }
            }
            for text in Worst.texts {
                for error: NodeError in [
                    .notFound(text, nearby: peers), .notFound(text, nearby: []), .ambiguous(text, peers), .ambiguous(text, []),
                    .unreachable(text), .timedOut(text), .incompatible(text), .identityMismatch(text), .blocked(text),
                    .refused(text), .connectionLost(text), .invalidParameter(text), .unavailable(text),
                ] { _ = error.description }
                for error: SessionError in [.invalidParameter(text), .timedOut(text), .unavailable(text)] {
                    _ = error.description
                }
            }
            for error: SessionError in [
                .notConnected(id), .notDelivered(to: [id]), .notDelivered(to: []), .cancelled, .removed,
            ] {
                _ = error.description
            }
            for error: StreamError in [.notOpen, .reset, .refused, .tooMany] { _ = error.description }
            for state: MemberState in [.notConnected, .connecting, .connected(via: nil), .connected(via: id)] {
                _ = state.description
            }
        },
        WorstCall("MemberState.isConnected", "TrustStatus.isFriend") {
            #expect(!MemberState.connecting.isConnected)
            #expect(!TrustStatus.known(.blocked, isFriend: true).isFriend)
        },
        WorstCall(
            "Offer.items", "Offer.totalSize", "OfferedItem.kind", "OfferedItem.name", "OfferedItem.size"
        ) {
            guard let name = ClaimedFileName("") else { return }
            var item = InMemorySource(MemoryContent(file: "a", [1])).offer.items[0]
            (item.kind, item.name, item.size) = (.folder, name, .max)
            var offer = InMemorySource(MemoryContent(file: "a", [1])).offer
            (offer.items, offer.entryCount, offer.totalSize) = ([OfferedItem](repeating: item, count: 10_000), .max, nil)
            offer.items = []
        },
        WorstCall(
            "DeliveredItem.path", "DeliveredItem.size", "DeliveredItem.detectedType", "DeliveredItem.typeWarning",
            "TransferResult.outcome", "TransferResult.detail", "TransferResult.delivered"
        ) {
            guard let name = ClaimedFileName("") else { return }
            var result = TransferResult(outcome: .interrupted)
            for text in Worst.texts {
                var item = DeliveredItem(
                    item: 0, kind: .file, claimedName: name, path: text, isInInbox: true, size: .max, detectedType: nil,
                    typeWarning: nil)
                (item.path, item.size, item.detectedType, item.typeWarning) = ("", 0, text, text)
                (result.outcome, result.detail) = (.completed, text)
                result.delivered.append(item)
            }
        },
        WorstCall("TransferOutcome.description") {
            let codes = 0...UInt8.max
            var outcomes: [TransferOutcome] = [.completed, .expired, .interrupted]
            outcomes += codes.compactMap(DeclineReason.init(rawValue:)).map { TransferOutcome.declined($0) }
            for side in [TransferOutcome.Side.local, .remote] {
                outcomes.append(.cancelled(by: side))
                outcomes += codes.compactMap(TransferFailure.init(rawValue:)).map { TransferOutcome.failed($0, at: side) }
            }
            #expect(Set(outcomes.map(\.description)).count == outcomes.count)
        },
        WorstCall(
            "TransferProgress.phase", "TransferProgress.done", "TransferProgress.total", "TransferProgress.rate",
            "TransferProgress.timeLeft"
        ) {
            var progress = TransferProgress(
                id: TransferID(rawValue: .max), direction: .incoming, total: 0, totalEntries: .max)
            (progress.phase, progress.done, progress.total) = (.ended(.expired), .max, 0)
            for rate in [Double.nan, .infinity, -1, 0, .leastNonzeroMagnitude] { progress.rate = rate }
            for time in Worst.durations { progress.timeLeft = time }
        },
        WorstCall("SessionMessage.init(bytes:)", "SessionMessage.init(text:)", "SessionMessage.bytes", "SessionMessage.text") {
            for bytes in Worst.byteStrings {
                var message = SessionMessage(bytes: bytes)
                _ = message.text
                message.bytes = bytes + bytes
            }
            for text in Worst.texts { #expect(SessionMessage(text: text).text == text) }
        },
        WorstCall("SessionMessage.init(encoding:)", "SessionMessage.decode(_:)") {
            for value in Worst.values {
                guard var message = attempt({ try SessionMessage(encoding: value) }) else { continue }
                for limit in [message.bytes.count, message.bytes.count / 2, 0] {
                    message.bytes = Array(message.bytes.prefix(limit))
                    attempt { try message.decode(StructuredValue.self) }
                    attempt { try message.decode([String: Int8].self) }
                    attempt { try message.decode(Worst.Endless.self) }
                    attempt { try message.decode(Worst.Failing.self) }
                }
            }
            for number in [UInt64.max, .min] { attempt { try SessionMessage(encoding: number) } }
            attempt { try SessionMessage(encoding: Worst.Endless()) }
            attempt { try SessionMessage(encoding: Worst.Failing()) }
            attempt { try SessionMessage(encoding: [Float.nan]) }
            attempt { try SessionMessage(text: "no structured message").decode(Int.self) }
        },
        WorstCall("StructuredValue.decode(_:)") {
            for value in Worst.values {
                attempt { try value.decode(Worst.Endless.self) }
                attempt { try value.decode([[[UInt8?]]].self) }
                attempt { try value.decode(UInt16.self) }
                attempt { try value.decode(Float.self) }
                attempt { try value.decode(StructuredValue.self) }
            }
        },
        WorstCall("StructuredValue.init(from:)", "StructuredValue.encode(to:)") {
            decodeJSON(StructuredValue.self)
            for value in Worst.values where value != Worst.deep { attempt { try JSONEncoder().encode([value]) } }
        },
        WorstCall(
            "StructuredValue.init(arrayLiteral:)", "StructuredValue.init(booleanLiteral:)",
            "StructuredValue.init(dictionaryLiteral:)", "StructuredValue.init(integerLiteral:)",
            "StructuredValue.init(stringLiteral:)"
        ) {
            let value: StructuredValue = [
                "twice": [], "twice": [true, 9_223_372_036_854_775_807, -9_223_372_036_854_775_808, "\0"],
            ]
            attempt { try SessionMessage(encoding: value) }
        },
        WorstCall(
            "SessionSettings.init()", "SessionSettings.memberLimit", "SessionSettings.timeout", "SessionSettings.topology",
            "SessionSettings.trust", "SessionSettings.slowMembers"
        ) {
            for number in Worst.integers {
                var settings = SessionSettings()
                (settings.memberLimit, settings.topology, settings.slowMembers) = (number, .mesh, .remove)
                for time in Worst.durations { settings.timeout = time }
                settings.trust = .verifiedKeys
            }
        },
        WorstCall("InvitationPolicy.init(_:)", "InvitationPolicy.secret(_:)", "TrustPolicy.init(_:)") {
            for bytes in Worst.byteStrings { _ = InvitationPolicy.secret(bytes) }
            _ = InvitationPolicy { _ in false }
            _ = TrustPolicy { _ in false }
        },
    ]
}
