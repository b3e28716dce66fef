internal import FoundationEssentials

/// One line on the control socket: a JSON object.
enum ControlLine: Codable {
    /// Numbered by the client.
    case request(Int, ControlRequest)
    case reply(Int, ControlReply)
    case event(ControlEvent)
    /// A direct link that can be claimed, whose descriptor comes with the line, and the bytes that were read from it.
    case offeredLink(Int, opening: [UInt8])
    /// The reason why the node closes a connection on which it serves no request.
    case refused(ControlFailure)

    /// The line, without its end. nil for a value that cannot be encoded, such as content that breaks a rule.
    var encoded: [UInt8]? {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return (try? encoder.encode(self)).map { Array($0) }
    }

    /// - Returns: nil for bytes that are not a line of this protocol.
    init?(_ bytes: [UInt8]) {
        guard let line = try? JSONDecoder().decode(ControlLine.self, from: Data(bytes)) else { return nil }
        self = line
    }
}
