internal import FoundationEssentials

/// One line on the socket: an object of JSON.
enum ControlLine: Codable {
    /// Numbered by whoever asks.
    case request(Int, ControlRequest)
    case reply(Int, ControlReply)
    case event(ControlEvent)

    var encoded: [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Texts and numbers: there is nothing in it that JSON can't hold.
        return Array(try! encoder.encode(self))
    }

    /// - Returns: nil for what is none.
    init?(_ bytes: [UInt8]) {
        guard let line = try? JSONDecoder().decode(ControlLine.self, from: Data(bytes)) else { return nil }
        self = line
    }
}
