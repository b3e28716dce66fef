internal import Nearshare

/// A line of a conversation outside of its screen.
enum ChatLine {
    static func show(_ entry: ChatMessage, isJSON: Bool) {
        if isJSON { return JSONEvents.emit("line", describe(entry)) }
        let who = entry.authorName?.shown ?? entry.author?.hex ?? "me"
        let place = entry.conversation == .everybody ? " to everybody" : ""
        for line in entry.text.split(separator: "\n", omittingEmptySubsequences: false) {
            Console.result("\(who)\(place): \(TerminalText.escaped(String(line), columns: 4_096))")
        }
    }

    static func describe(_ entry: ChatMessage) -> [String: JSONValue] {
        [
            "number": .number(UInt64(max(0, entry.number))), "id": .text(entry.id),
            "conversation": .text(entry.conversation.text), "from": JSONValue(entry.author?.hex),
            "name": JSONValue(entry.authorName?.claimed), "text": .text(entry.text), "when": .integer(entry.when.milliseconds),
            "mark": .text("\(entry.status)"),
        ]
    }
}
