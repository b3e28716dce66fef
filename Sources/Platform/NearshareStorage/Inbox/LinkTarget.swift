internal import NearshareBase

/// Rules for the targets of symbolic links.
enum LinkTarget {
    /// Whether a target is relative and stays inside its item: it may go up first, within the item's own folder, and then down.
    /// The folders upwards are real ones, and every link on the way down is subject to the same check (P6).
    /// - Parameter depth: the number of components of the link's own path; an item is at depth 1.
    static func staysInside(_ target: [UInt8], depth: Int) -> Bool {
        guard let first = target.first, first != UInt8(ascii: "/"), !target.contains(0),
            String(validating: target, as: UTF8.self) != nil
        else { return false }
        var upwards = 0
        var hasGoneDown = false
        for part in target.split(separator: UInt8(ascii: "/")) where part != [UInt8(ascii: ".")] {
            if part == [UInt8(ascii: "."), UInt8(ascii: ".")] {
                guard !hasGoneDown else { return false }
                upwards += 1
            } else {
                hasGoneDown = true
            }
        }
        // A link in the item's own folder is at depth 2: one step up would leave the item.
        return upwards <= max(0, depth - 2) && depth >= 2
    }

    /// A target in which the names are those under which the entries of the folder are stored.
    /// - Parameter target: one that stays inside.
    static func safe(_ target: [UInt8], rules: FileNameRules) -> String {
        target.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map { part in
            let isStep = part.isEmpty || part.allSatisfy { $0 == UInt8(ascii: ".") } && part.count <= 2
            guard !isStep, let claimed = ClaimedFileName(bytes: part) else { return String(decoding: part, as: UTF8.self) }
            return SafeFileName(claimed, mayBeHidden: true, rules: rules).text
        }.joined(separator: "/")
    }
}
