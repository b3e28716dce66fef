import ArgumentParser
import Testing

@testable import NearshareCLI

@Suite("completion scripts") struct CompletionScriptTests {
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
        case .zsh:
            #expect(adapted.contains("-M 'm:{[:lower:][:upper:]}={[:upper:][:lower:]}'"))
            #expect(!adapted.contains("'*:subcommands:'"))
        default:
            #expect(adapted.contains("= \"nearshare help\"' -fa 'receive send browse"))
        }
        #expect(CompletionScript.adapted("text", for: NearshareCommand.self) == "text")
    }
}
