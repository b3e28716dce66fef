internal import Nearshare

extension ChangedNames {
    /// A line such as "2 names were changed by ben's machine: a:b → a_b, c:d → c_d"; nil where no name was changed.
    /// - Parameter reason: by whom, or for what.
    func sentence(_ reason: String) -> String? {
        guard !isEmpty else { return nil }
        let names = listed.map { "\($0.claimed.shown) → \($0.stored.shown)" }
        let more = count - min(count, UInt64(names.count))
        let list = (names + (more > 0 ? ["\(more) more"] : [])).joined(separator: ", ")
        return "\(count) \(count == 1 ? "name was" : "names were") changed \(reason): \(list)"
    }

    var json: JSONValue {
        let list = listed.map { change in
            JSONValue.object([
                "name": .string(String(decoding: change.claimed.bytes, as: UTF8.self)),
                "stored": .string(String(decoding: change.stored.bytes, as: UTF8.self)),
            ])
        }
        return .object(["count": .number(count), "listed": .array(list)])
    }
}
