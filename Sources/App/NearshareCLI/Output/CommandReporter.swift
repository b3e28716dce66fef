internal import NearshareService

/// A reporter that also renders the results and the events of the commands themselves: a command passes both forms of a thing, and
/// does not branch on the one that the user has chosen.
protocol CommandReporter: Reporter {
    /// Writes the JSON events, or runs `text`, which writes the same for a user.
    func emit(_ events: @autoclosure () -> [JSONEvents.Event], text: () throws -> Void) rethrows
}

extension CommandReporter {
    /// Writes one JSON event, or runs `text`.
    func emit(_ event: String, _ members: @autoclosure () -> [String: JSONValue], text: () throws -> Void) rethrows {
        try emit([(event, members())], text: text)
    }

    /// Writes a JSON event for each item, or runs `text`, which writes all of them.
    func emit<Items: Collection>(
        _ event: String, for items: Items, members: (Items.Element) -> [String: JSONValue], text: () throws -> Void
    ) rethrows {
        try emit(items.map { (event, members($0)) }, text: text)
    }

    /// Runs `text` for a user; programs get no event.
    func writeText(_ text: () throws -> Void) rethrows { try emit([], text: text) }

    /// Writes a JSON event for each item, or a table with a row for each.
    /// - Parameter notice: the message to the user about an empty table.
    func writeList<Items: Collection>(
        _ items: Items, event: String, ifEmpty notice: String? = nil, members: (Items.Element) -> [String: JSONValue],
        row: (Items.Element) -> [String]
    ) {
        emit(event, for: items, members: members) { Console.writeTable(items.map(row), ifEmpty: notice) }
    }
}

extension SilentReporter: CommandReporter {
    func emit(_ events: @autoclosure () -> [JSONEvents.Event], text: () throws -> Void) rethrows {}
}
