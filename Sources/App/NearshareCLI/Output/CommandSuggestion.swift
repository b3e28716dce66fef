internal import ArgumentParser
internal import Nearshare

/// The command that the user may have meant by a mistyped one.
enum CommandSuggestion {
    /// - Returns: a sentence for the first word that names no subcommand; nil when each names one or is an operand. The default
    /// commands have no operands.
    static func sentence(for arguments: some Sequence<String>) -> String? {
        var path: [any ParsableCommand.Type] = [NearshareCommand.self]
        for word in arguments {
            guard !word.hasPrefix("-") else { return nil }
            let command = path[path.count - 1]
            let subcommands = command.configuration.subcommands
            guard !subcommands.isEmpty else { return advice(onOperandOf: command) }
            if let next = subcommands.first(where: {
                name(of: $0) == word || $0.configuration.aliases.contains(word)
            }) {
                path.append(next)
                continue
            }
            let unknown = "unknown command \(TerminalText.escaped(word, columns: 40))"
            if let nearest = nearest(to: word, among: subcommands.map { name(of: $0) }) {
                return "\(unknown); did you mean `\(nearest)`?"
            }
            return "\(unknown); `\(path.map { name(of: $0) }.joined(separator: " ")) --help` lists the commands"
        }
        return nil
    }

    /// - Returns: nil for a command that has operands, or no other way to what they would mean.
    private static func advice(onOperandOf command: any ParsableCommand.Type) -> String? {
        if command is ConfigCommand.Type {
            return "config shows the settings, and changes none: edit config.toml in the configuration directory that it lists"
        }
        if command is ReceiveCommand.Type {
            return "receive expects no file: --inbox chooses the folder that files go to, and `nearshare send` sends them"
        }
        return nil
    }

    /// - Returns: nil when none of the names is near enough to be meant.
    static func nearest(to word: String, among names: [String]) -> String? {
        let nearest = names.map { (name: $0, distance: distance($0, word)) }
            .min { ($0.distance, $0.name) < ($1.distance, $1.name) }
        guard let nearest, nearest.distance <= max(1, min(2, word.count / 2)) else { return nil }
        return nearest.name
    }

    private static func name(of command: any ParsableCommand.Type) -> String { command.configuration.commandName ?? "" }

    /// The number of insertions, deletions, replacements and transpositions of adjacent characters between two words.
    static func distance(_ left: String, _ right: String) -> Int {
        let (left, right) = (Array(left), Array(right.prefix(40)))
        var rows = [Array(0...right.count)]
        for (row, character) in left.enumerated() {
            var next = [row + 1]
            for (column, other) in right.enumerated() {
                var least = min(rows[row][column + 1], next[column]) + 1
                least = min(least, rows[row][column] + (character == other ? 0 : 1))
                if row > 0, column > 0, character == right[column - 1], left[row - 1] == other {
                    least = min(least, rows[row - 1][column - 1] + 1)
                }
                next.append(least)
            }
            rows.append(next)
        }
        return rows[left.count][right.count]
    }
}
