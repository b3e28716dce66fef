internal import ArgumentParser

/// The options of a command and of its parents, as their help names them: the parser reports an unknown one only where it finds no
/// other mistake first.
struct CommandOptions {
    /// With the options that each command has.
    private var names: Set<String> = [
        "-h", "--help", "--help-hidden", "--version", "--generate-completion-script", "--experimental-dump-help",
    ]
    private var namesWithValue: Set<String> = []
    /// Whether the command itself has operands.
    private(set) var hasOperands = false
    /// Whether `-` as an operand means standard input.
    private(set) var readsStandardInput = false

    /// - Parameter path: the command with its parents, the root first.
    init(of path: [any ParsableCommand.Type]) {
        for command in path + Self.defaults(of: path.last) {
            (hasOperands, readsStandardInput) = (false, false)
            // Wide enough for one line of each option.
            for line in command.helpMessage(includeHidden: true, columns: 10_000).split(separator: "\n") { add(line) }
        }
    }

    /// The commands that run where no subcommand is named.
    private static func defaults(of command: (any ParsableCommand.Type)?) -> [any ParsableCommand.Type] {
        guard let next = command?.configuration.defaultSubcommand else { return [] }
        return [next] + defaults(of: next)
    }

    /// Adds a line of help, such as `  -n, --dry-run  List what would be sent.`
    private mutating func add(_ line: Substring) {
        let label = line.dropFirst(2)
        guard line.hasPrefix("  "), let first = label.first, first == "-" || first == "<" else { return }
        if first == "<" {
            hasOperands = true
            readsStandardInput = readsStandardInput || label.contains("standard input")
            return
        }
        let words = label.split(separator: " ").prefix { $0.hasPrefix("-") || $0.hasPrefix("<") }
        let found = words.filter { $0.hasPrefix("-") }.flatMap { word in
            word.split { $0 == "/" || $0 == "," }.map { String($0) }
        }
        names.formUnion(found)
        if words.contains(where: { $0.hasPrefix("<") }) { namesWithValue.formUnion(found) }
    }

    /// Whether a word without its value is an option, or a group of short ones.
    func contains(_ name: String) -> Bool {
        if names.contains(name) { return true }
        let letters = name.dropFirst()
        return !name.hasPrefix("--") && !letters.isEmpty && letters.allSatisfy { names.contains("-\($0)") }
    }

    /// Whether the word behind an option is its value.
    func expectsValue(_ name: String) -> Bool { namesWithValue.contains(name) }

    /// The long option that is meant by a mistyped one, or by its beginning; nil where none is near.
    func nearest(to name: String) -> String? {
        let long = names.filter { $0.hasPrefix("--") }.sorted()
        let begun = long.filter { $0.hasPrefix(name) }
        if begun.count == 1, name.count > 3 { return begun[0] }
        return CommandSuggestion.nearest(to: name, among: long)
    }
}
