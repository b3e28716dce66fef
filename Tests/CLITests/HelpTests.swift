import ArgumentParser
import Nearshare
import NearshareAudio
import NearshareService
import Testing

@testable import NearshareCLI

@Suite("help") struct HelpTests {
    /// All commands, by their full names.
    private static let commands: [(name: String, type: any ParsableCommand.Type)] = collect(NearshareCommand.self, prefix: "")

    private static func collect(_ type: any ParsableCommand.Type, prefix: String) -> [(String, any ParsableCommand.Type)] {
        let name = prefix + (type.configuration.commandName ?? "?")
        return [(name, type)] + type.configuration.subcommands.flatMap { collect($0, prefix: name + " ") }
    }

    @Test("every command has an abstract that ends like a sentence")
    func abstracts() {
        #expect(Self.commands.count > 30)
        for (name, type) in Self.commands {
            let abstract = type.configuration.abstract
            #expect(abstract.hasSuffix("."), "\(name): \(abstract)")
            #expect(abstract.count <= 90, "\(name): \(abstract)")
        }
    }

    @Test("help uses the terms of the field")
    func language() {
        let avoided = ["somebody", "nobody", "whoever", " whom ", "everybody", "so long", "so many", "can't", "the way "]
        for (name, type) in Self.commands {
            let help = type.helpMessage(columns: 200)
            for word in avoided where help.lowercased().contains(word) { Issue.record("\(name): \"\(word)\" in\n\(help)") }
        }
    }

    @Test("every command shows its usage")
    func usage() {
        for (name, type) in Self.commands where name != "nearshare" {
            #expect(type.helpMessage(columns: 200).contains("USAGE: "), "\(name)")
        }
    }

    @Test("help fits on a terminal of any width, and breaks no word that fits", arguments: [20, 26, 40, 59, 60, 80])
    func width(_ columns: Int) {
        for (name, type) in Self.commands {
            let wide = type.helpMessage(columns: HelpLayout.parserColumns(for: columns))
            let text = HelpLayout.text(wide, columns: columns)
            for line in text.split(separator: "\n") where line.count > columns { Issue.record("\(name): \(line)") }
            guard columns >= 40 else { continue }
            #expect(text.split(whereSeparator: \.isWhitespace) == wide.split(whereSeparator: \.isWhitespace), "\(name)")
        }
    }

    @Test("on a narrow terminal an option and its description have lines of their own")
    func narrow() {
        let wide =
            "OVERVIEW: Send it.\n\nUSAGE: nearshare send [<options>] <file>\n\nOPTIONS:\n"
            + "  -n, --dry-run           List what would be sent, and send nothing.\n"
            + "  --localsend-pin-file <file>\n                          Require the PIN."
        #expect(
            HelpLayout.text(wide, columns: 30).split(separator: "\n") == [
                "OVERVIEW: Send it.", "USAGE: nearshare send", "  [<options>] <file>", "OPTIONS:", "  -n, --dry-run",
                "    List what would be sent,", "      and send nothing.", "  --localsend-pin-file <file>",
                "    Require the PIN.",
            ])
        #expect(HelpLayout.text("0.1.0", columns: 3) == "0.1.0")
    }

    @Test("an unknown command is a usage error, which suggests nothing harmful", arguments: ["fly", "sent", "--fly"])
    func unknown(_ word: String) {
        #expect(usageError([word]) != nil)
    }
}
