internal import FoundationEssentials
internal import Glibc
internal import Nearshare

/// A value of a JSON event.
enum JSONValue: Encodable, Sendable {
    case string(String)
    case number(UInt64)
    case integer(Int64)
    case rate(Double)
    case bool(Bool)
    case array([JSONValue])
    case object([String: JSONValue])
    case null

    init(_ text: String?) { self = text.map { .string($0) } ?? .null }
    init(_ number: UInt64?) { self = number.map { .number($0) } ?? .null }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .string(let text): try container.encode(text)
        // Readers with signed integers fail on a larger number, which only a false claim of a peer can be.
        case .number(let number): try container.encode(Int64(clamping: number))
        case .integer(let number): try container.encode(number)
        // JSON has no infinities.
        case .rate(let rate): rate.isFinite ? try container.encode(rate) : try container.encodeNil()
        case .bool(let flag): try container.encode(flag)
        case .array(let list): try container.encode(list)
        case .object(let object): try container.encode(object)
        case .null: try container.encodeNil()
        }
    }
}

/// Events for programs: one object per line on standard output, as documented in `nearshare(5)`.
enum JSONEvents {
    /// The name and the members of an event.
    typealias Event = (String, [String: JSONValue])

    /// The event with the number of omitted events.
    @Sendable static func omitted(_ count: Int) -> String { line("omitted", ["count": .number(UInt64(clamping: count))]) }

    /// The line of an event.
    static func line(_ event: String, _ members: [String: JSONValue]) -> String {
        line(members.merging(["event": .string(event)]) { $1 })
    }

    private static func line(_ object: [String: JSONValue]) -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // No member can fail to be encoded: numbers are finite.
        let data = (try? encoder.encode(JSONValue.object(object))) ?? Data()
        return escapingControlCharacters(String(decoding: data, as: UTF8.self))
    }

    /// A line of JSON may end up on a terminal: control characters are escaped, which does not change its meaning (T5, T7).
    static func escapingControlCharacters(_ json: String) -> String {
        var text = ""
        for scalar in json.unicodeScalars {
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned:
                for unit in String(scalar).utf16 {
                    let digits = String(unit, radix: 16)
                    text += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
                }
            default: text.unicodeScalars.append(scalar)
            }
        }
        return text
    }

    static func jsonMembers(_ item: OfferedItem) -> [String: JSONValue] {
        [
            "name": .string(String(decoding: item.name.bytes, as: UTF8.self)), "size": JSONValue(item.size),
            "type": .string(item.mediaType.text), "kind": .string(item.kind.word), "entries": .number(item.entryCount),
        ]
    }

    static func progress(_ progress: TransferProgress) -> [String: JSONValue] {
        self.progress(progress.id, done: progress.done, total: progress.total).merging([
            "finished_entries": .number(progress.finishedEntries), "entries": .number(progress.totalEntries),
            "rate": progress.rate.map { .rate($0.rounded()) } ?? .null,
            "left": progress.timeLeft.map { .number(UInt64(max(0, $0.components.seconds))) } ?? .null,
            "fragments_done": JSONValue(progress.fragments.map { UInt64($0.done) }),
            "fragments": JSONValue(progress.fragments.map { UInt64($0.total) }),
        ]) { $1 }
    }

    /// The progress of a transfer of which nothing else is known: all members, as programs may read any of them.
    static func progress(_ id: TransferID, done: UInt64, total: UInt64?) -> [String: JSONValue] {
        [
            "transfer": .string(id.hex), "done": .number(done), "total": JSONValue(total), "finished_entries": .null,
            "entries": .null, "rate": .null, "left": .null, "fragments_done": .null, "fragments": .null,
        ]
    }
}

extension OfferedItem.Kind {
    /// The JSON value of the kind.
    var word: String {
        switch self {
        case .file: "file"
        case .folder: "folder"
        case .text: "text"
        }
    }
}
