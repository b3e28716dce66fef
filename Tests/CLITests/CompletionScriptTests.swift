import ArgumentParser
import Testing

@testable import NearshareCLI

@Suite("completion scripts") struct CompletionScriptTests {
    /// The lines that complete the argument of a command by the tool, or those that follow them.
    private func lines(_ script: String, about command: String, next: Bool = false) -> [Substring] {
        let lines = script.split(separator: "\n")
        return lines.indices.filter { lines[$0].contains("---completion \(command) -- positional@0") }
            .map { lines[$0 + (next ? 1 : 0)] }
    }

    @Test(arguments: [CompletionShell.bash, .zsh, .fish])
    func `what the parser generates is adapted in each place`(_ shell: CompletionShell) {
        let generated = NearshareCommand.completionScript(for: shell)
        let adapted = CompletionScript.adapted(generated, for: NearshareCommand.self)
        #expect(adapted.contains("run status trace stop"))
        switch shell {
        case .bash:
            #expect(!adapted.contains("compgen -f") && !adapted.contains("add_completions -f\n"))
            #expect(!adapted.contains("add_completions -d\n") && adapted.contains("__nearshare_complete_paths dirnames\n"))
            #expect(!adapted.contains("-W \"$(__nearshare_custom_complete"))
            #expect(adapted.contains("    'mesh') words='run status trace stop' ;;\n"))
            #expect(adapted.split(separator: "\n").count { $0 == "__nearshare_add_words() {" } == 1)
            #expect(adapted.contains("elif [[ \"${prev}\" = '=' ]]") && !adapted.contains("local -r cur="))
            #expect(!adapted.contains("unparsed_words=(\"${COMP_WORDS[@]:1") && adapted.contains("*' --exec '*"))
            #expect(lines(adapted, about: "voice play", next: true) == ["        __nearshare_complete_paths default"])
            #expect(lines(adapted, about: "voice show", next: true) == ["        __nearshare_complete_paths default"])
        case .zsh:
            #expect(adapted.contains("-M 'm:{[:lower:][:upper:]}={[:upper:][:lower:]}'"))
            #expect(!adapted.contains("'*:subcommands:'"))
            #expect(adapted.contains("'*--to=[") && adapted.contains("'--once[") && adapted.contains("'--exec["))
            #expect(adapted.contains("]:*:::command:{if (( CURRENT == 1 ))"))
            for command in ["voice play", "voice show"] {
                #expect(lines(adapted, about: command).map { $0.hasSuffix("; _files}'") } == [true])
            }
        default:
            #expect(adapted.contains("= \"nearshare help\"' -fa 'receive send browse"))
            for command in ["voice play", "voice show"] {
                #expect(lines(adapted, about: command).map { $0.contains(" -Fka '") } == [true])
            }
            #expect(adapted.contains("__nearshare_is_behind_exec; and return 1"))
            #expect(adapted.contains("-n '__nearshare_is_behind_exec' -F"))
            #expect(adapted.contains(" $tokens | while read -l word"))
            // A text at an option, and none at its values.
            let options = adapted.split(separator: "\n").filter { $0.contains("\"nearshare receive\" accept'") }
            #expect(options.count == 2 && options[0].hasSuffix("-l 'accept' -rfka 'ask friends all none'"))
            #expect(options[1].contains(" -d 'Which invitations") && options[1].hasSuffix("' -rf"))
            let repeated = adapted.split(separator: "\n").filter { line in
                line.contains(" -d '") && line.contains(" -rfka '") && !line.hasSuffix("''")
            }
            #expect(repeated.isEmpty)
        }
        #expect(CompletionScript.adapted("text", for: NearshareCommand.self) == "text")
    }
}
