internal import ArgumentParser

/// Values of options that begin with a hyphen: the parser reads a word of this form as another option, unless it is joined to its own.
enum OptionValues {
    /// Joins long options with the negative numbers behind them, as in `--limit=-3`.
    /// - Parameter words: of the command line, without the program.
    /// - Returns: nil where there is nothing to join.
    static func joinNegative(in words: [String]) -> [String]? {
        guard zip(words, words.dropFirst()).contains(where: { isLongOption($0) && isNegative($1) }) else { return nil }
        var path: [any ParsableCommand.Type] = [NearshareCommand.self]
        for word in words {
            guard let next = CommandSuggestion.subcommand(word, among: path[path.count - 1].configuration.subcommands) else {
                break
            }
            path.append(next)
        }
        let options = CommandOptions(of: path)
        var joined: [String] = []
        // The rest is operands, or another command.
        let end = words.firstIndex { $0 == "--" || $0 == "--exec" } ?? words.count
        for word in words[..<end] {
            if isNegative(word), let last = joined.last, isLongOption(last), options.expectsValue(last) {
                joined[joined.count - 1] = "\(last)=\(word)"
            } else {
                joined.append(word)
            }
        }
        return joined + words[end...]
    }

    private static func isLongOption(_ word: String) -> Bool { word.hasPrefix("--") && word.count > 2 && !word.contains("=") }

    private static func isNegative(_ word: String) -> Bool {
        word.hasPrefix("-") && word.utf8.dropFirst().first.map { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 } == true
    }
}
