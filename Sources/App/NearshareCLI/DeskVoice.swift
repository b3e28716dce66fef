/// Whom a ``ReceiveController`` tells what happens.
struct DeskVoice: Sendable {
    let isJSON: Bool
    /// Lines for a person who looks at something else, such as a conversation; nil for the terminal itself.
    private let notice: (@Sendable (String) -> Void)?

    /// - Parameter isJSON: to programs, one event a line.
    init(isJSON: Bool) {
        self.isJSON = isJSON
        notice = nil
    }

    init(notice: @escaping @Sendable (String) -> Void) {
        isJSON = false
        self.notice = notice
    }

    var drawsProgress: Bool { notice == nil }

    func result(_ line: String) {
        if let notice { notice(line) } else { Console.result(line) }
    }

    func say(_ line: String) {
        if let notice { notice(line) } else { Console.say(line) }
    }

    func complain(_ line: String) {
        if let notice { notice(line) } else { Console.complain(line) }
    }
}
