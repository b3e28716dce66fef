internal import ArgumentParser
internal import Nearshare

/// The command or option that the user may have meant by a mistyped one.
enum CommandSuggestion {
    /// - Returns: a sentence for the first word that names no subcommand, or else for the first option that the command does not
    /// have; nil where there is neither. The default commands have no operands.
    static func sentence(for arguments: some Sequence<String>) -> String? {
        var path: [any ParsableCommand.Type] = [NearshareCommand.self]
        var words = Array(arguments)[...]
        while let word = words.first, !word.hasPrefix("-") {
            let subcommands = path[path.count - 1].configuration.subcommands
            guard !subcommands.isEmpty else { break }
            guard let next = subcommand(word, among: subcommands) else {
                let unknown = "unknown command \(TerminalText.escaped(word, columns: 40))"
                if let nearest = nearest(to: word, among: subcommands.map { name(of: $0) }) {
                    return "\(unknown); did you mean `\(nearest)`?"
                }
                return "\(unknown); `\(commandLine(path)) --help` lists the commands"
            }
            path.append(next)
            words.removeFirst()
        }
        if let sentence = sentence(forOptionsIn: words, of: path) { return sentence }
        guard let word = words.first, !word.hasPrefix("-") else { return nil }
        return advice(onOperandOf: path[path.count - 1])
    }

    static func subcommand(
        _ word: String, among subcommands: [any ParsableCommand.Type]
    ) -> (any ParsableCommand.Type)? {
        subcommands.first { name(of: $0) == word || $0.configuration.aliases.contains(word) }
    }

    /// - Returns: nil where all words that begin with a hyphen are options, or stand where the parser expects something else.
    private static func sentence(
        forOptionsIn words: ArraySlice<String>, of path: [any ParsableCommand.Type]
    ) -> String? {
        let subcommands = path[path.count - 1].configuration.subcommands
        // The options in front may be those of the subcommand.
        guard words.contains(where: { $0.hasPrefix("-") }),
            !words.contains(where: { subcommand($0, among: subcommands) != nil })
        else { return nil }
        let options = CommandOptions(of: path)
        var expectsValue = false
        for word in words {
            // The rest is operands, or another command.
            if word == "--" || word == "--exec" { return nil }
            guard word.hasPrefix("-"), word != "-" else {
                expectsValue = false
                continue
            }
            // The parser names the option whose value is missing.
            if expectsValue { return nil }
            let name = String(word.prefix { $0 != "=" })
            guard options.contains(name) else { return sentence(forOption: name, options, of: path) }
            expectsValue = options.expectsValue(name) && name == word
        }
        return nil
    }

    private static func sentence(
        forOption name: String, _ options: CommandOptions, of path: [any ParsableCommand.Type]
    ) -> String {
        let unknown = "unknown option \(TerminalText.escaped(name, columns: 40))"
        if name == "--stdin", options.readsStandardInput {
            return "\(unknown); did you mean `-`, which is standard input?"
        }
        if let nearest = options.nearest(to: name) { return "\(unknown); did you mean `\(nearest)`?" }
        let advice = options.hasOperands ? ", and no word after -- is one" : ""
        return "\(unknown); `\(commandLine(path)) --help` lists the options\(advice)"
    }

    private static func commandLine(_ path: [any ParsableCommand.Type]) -> String {
        path.map { name(of: $0) }.joined(separator: " ")
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
