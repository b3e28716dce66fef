internal import Nearshare

/// What a sender hears of its sending.
struct SendVoice: Sendable {
    let isJSON: Bool
    let isQuiet: Bool

    func say(_ line: String) {
        if !isQuiet { Console.say(line) }
    }

    func emit(_ event: String, _ fields: [String: JSONValue]) {
        if isJSON { JSONEvents.emit(event, fields) }
    }
}
