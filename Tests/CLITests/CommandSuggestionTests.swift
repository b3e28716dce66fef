import ArgumentParser
import Testing

@testable import NearshareCLI

@Suite struct CommandSuggestionTests {
    @Test(
        "a mistyped command is answered with the command that was meant",
        arguments: [
            ("sned photo.jpg --to anna", "sned", "send"), ("recieve", "recieve", "receive"), ("chta anna", "chta", "chat"),
            ("peers verfy anna", "verfy", "verify"), ("mesh stat", "stat", "status"), ("peer", "peer", "peers"),
        ])
    func suggestions(_ line: String, _ word: String, _ meant: String) {
        let sentence = CommandSuggestion.sentence(for: line.split(separator: " ").map(String.init))
        #expect(sentence == "unknown command \(word); did you mean `\(meant)`?")
    }

    @Test(
        "no command is suggested for other words",
        arguments: ["send", "", "--help", "peers list", "inbox remove", "send photo.jpg", "receive --once"])
    func nothing(_ line: String) {
        #expect(CommandSuggestion.sentence(for: line.split(separator: " ").map(String.init)) == nil)
    }

    @Test("where no command is near, the list of commands is named")
    func unknown() {
        #expect(
            CommandSuggestion.sentence(for: ["photo.jpg"]) == "unknown command photo.jpg; `nearshare --help` lists the commands"
        )
        #expect(
            CommandSuggestion.sentence(for: ["mesh", "xyz"])
                == "unknown command xyz; `nearshare mesh --help` lists the commands")
        #expect(
            CommandSuggestion.sentence(for: ["friends", "anna"])
                == "unknown command anna; `nearshare friends --help` lists the commands")
    }

    @Test(
        "a word for a command without operands is answered with the way to what it would mean",
        arguments: [("config set name anna", "edit config.toml"), ("receive photos", "--inbox chooses the folder")])
    func operands(_ line: String, _ advice: String) {
        let sentence = CommandSuggestion.sentence(for: line.split(separator: " ").map(String.init))
        #expect(sentence?.contains(advice) == true)
    }

    @Test(
        "an unknown option is named before any other mistake, with the one that was meant",
        arguments: [
            ("send --stdin --to anna", "--stdin; did you mean `-`, which is standard input?"),
            ("message --stdin --to anna", "--stdin; did you mean `-`, which is standard input?"),
            ("send a --tmieout 3", "--tmieout; did you mean `--timeout`?"),
            ("send a --leave", "--leave; did you mean `--leave-wifi`?"), ("send a -json", "-json; did you mean `--json`?"),
            ("peers --jsno", "--jsno; did you mean `--json`?"), ("send -nx a", "-nx; `nearshare send --help` lists"),
            ("friends add --stdin", "--stdin; `nearshare friends add --help` lists the options, and no word after -- is one"),
            ("browse --frobnicate=1", "--frobnicate; `nearshare browse --help` lists the options"),
            ("--frobnicate", "--frobnicate; `nearshare --help` lists the options"),
        ])
    func options(_ line: String, _ sentence: String) {
        let found = CommandSuggestion.sentence(for: words(line))
        #expect(found?.hasPrefix("unknown option \(sentence)") == true, "\(String(describing: found))")
    }

    @Test(
        "values, words after -- and the command of --exec are no options",
        arguments: [
            "send -- --stdin", "send --to --stdin a", "send -nv a --via=lan", "send - --to anna", "voice -y --to anna",
            "receive --exec ls --colour", "receive --localsend --no-localsend", "mesh --stdin status",
            "--generate-completion-script=bash",
        ])
    func knownOptions(_ line: String) {
        #expect(CommandSuggestion.sentence(for: words(line)) == nil)
    }

    @Test("every command names an option that it does not have")
    func everyCommand() {
        func check(_ command: any ParsableCommand.Type, _ path: [String]) {
            let sentence = CommandSuggestion.sentence(for: path + ["--stdin"])
            #expect(sentence?.hasPrefix("unknown option --stdin; ") == true, "\(path)")
            for next in command.configuration.subcommands { check(next, path + [next.configuration.commandName ?? ""]) }
        }
        check(NearshareCommand.self, [])
    }

    @Test("a word is escaped before it is shown")
    func escaping() {
        #expect(CommandSuggestion.sentence(for: ["sen\u{1b}"]) == "unknown command sen\\u{1b}; did you mean `send`?")
    }

    @Test("the distance counts insertions, deletions, replacements and swaps")
    func distance() {
        #expect(CommandSuggestion.distance("send", "sned") == 1 && CommandSuggestion.distance("send", "") == 4)
        #expect(CommandSuggestion.distance("chat", "cat") == 1 && CommandSuggestion.distance("a", "b") == 1)
    }
}
