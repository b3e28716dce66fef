internal import ArgumentParser

/// The completion scripts that the argument parser generates, with what it leaves out:
/// - peers are found in any letter case, and in bash and zsh by the names that the user has replaced;
/// - bash completes names of files that contain spaces;
/// - bash and zsh complete a value behind an equals sign;
/// - behind the command of `--exec` files are offered, and no options;
/// - `help` is followed by the subcommands;
/// - files are offered besides ids of voice notes;
/// - fish does not repeat the text of an option at each of its values.
enum CompletionScript {
    /// The path of a command, which is empty for the tool itself, and the names of its subcommands.
    typealias Group = (path: [String], names: [String])

    /// - Parameters:
    ///   - script: for bash, zsh or fish; any other text stays as it is.
    ///   - root: the tool.
    static func adapted(_ script: String, for root: any ParsableCommand.Type) -> String {
        let groups = groups(of: root, at: [])
        if script.hasPrefix("#!/bin/bash") { return bash(script, groups) }
        if script.hasPrefix("#compdef") { return zsh(script, groups) }
        if script.hasPrefix("function __nearshare") { return fish(script, groups) }
        return script
    }

    private static func groups(of command: any ParsableCommand.Type, at path: [String]) -> [Group] {
        var (names, descendants): ([String], [Group]) = ([], [])
        for subcommand in command.configuration.subcommands {
            let name = subcommand.configuration.commandName ?? ""
            names.append(name)
            descendants += groups(of: subcommand, at: path + [name])
        }
        return names.isEmpty ? [] : [(path, names)] + descendants
    }

    /// Changes the lines that complete voice notes, which are files or have ids.
    private static func withNoteFiles(_ script: String, _ change: (Substring) -> String) -> String {
        script.split(separator: "\n", omittingEmptySubsequences: false).map { line in
            ["play", "show"].contains { line.contains("---completion voice \($0) -- positional@0") }
                ? change(line) : String(line)
        }.joined(separator: "\n")
    }

    private static func bash(_ script: String, _ groups: [Group]) -> String {
        var script = withNoteFiles(script) { "\($0)\n        __nearshare_complete_paths default" }
        // compgen compares letter case, expands what it is given, and finds no file in a folder whose name has a space.
        script.replace(
            "__nearshare_add_completions -W \"$(__nearshare_custom", with: "__nearshare_add_words \"$(__nearshare_custom")
        script.replace("__nearshare_add_completions -f\n", with: "__nearshare_complete_paths default\n")
        script.replace("__nearshare_add_completions -d\n", with: "__nearshare_complete_paths dirnames\n")
        script.replace(
            "\n__nearshare_custom_complete() {\n",
            with: """

                # Offers the words, one in each line, that begin like the current one, in any letter case, quoted as it is; and
                # those behind a space, which replace it.
                # readline quotes those with a slash, as names of files.
                __nearshare_add_words() {
                    shopt -s nocasematch
                    local word typed=${cur} quote
                    case "${COMP_WORDS[COMP_CWORD]}" in
                    \\'*) quote=single ;;
                    \\"*) quote=double ;;
                    *) quote=none typed=${cur//\\\\/} ;;
                    esac
                    if [[ "${1}" = */* ]]; then quote=readline; else compopt +o filenames 2> /dev/null; fi
                    while IFS='' read -r word; do
                        if [[ "${word}" = ' '* ]]; then
                            word=${word:1}
                        else
                            [[ -n "${word}" && "${word}" = "${typed}"* ]] || continue
                        fi
                        case "${quote}" in
                        none) printf -v word '%q' "${word}" ;;
                        single) word=${word//\\'/\\'\\\\\\'\\'} ;;
                        double) [[ "${word}" = *[\\"\\`\\$\\!\\\\]* ]] && continue ;;
                        esac
                        COMPREPLY+=("${word}")
                    done <<< "${1}"
                }

                # Has readline complete names of files or folders, which it quotes.
                __nearshare_complete_paths() {
                    compopt -o "${1}" 2> /dev/null
                }

                __nearshare_custom_complete() {

                """)
        // To readline, an equals sign is a word of its own.
        script.replace(
            "    local -r cur=\"${2}\"\n    local -r prev=\"${3}\"\n",
            with: """
                    local cur="${2}" prev="${3}"
                    if [[ "${COMP_WORDS[COMP_CWORD]}" = '=' ]]; then
                        cur='' prev="${COMP_WORDS[COMP_CWORD - 1]}"
                    elif [[ "${prev}" = '=' ]]; then
                        prev="${COMP_WORDS[COMP_CWORD - 2]}"
                    fi

                """)
        script.replace(
            "    local -a unparsed_words=(\"${COMP_WORDS[@]:1:${COMP_CWORD}}\")\n",
            with: """
                    local -a unparsed_words=()
                    local word
                    for word in "${COMP_WORDS[@]:1:${COMP_CWORD}}"; do
                        [[ "${word}" = '=' ]] || unparsed_words+=("${word}")
                    done
                    [[ "${COMP_WORDS[COMP_CWORD]}" = '=' ]] && unparsed_words+=('')

                """)
        script.replace(
            "_nearshare_receive() {\n",
            with: """
                _nearshare_receive() {
                    if [[ COMP_CWORD -gt 3 && " ${COMP_WORDS[*]:2:COMP_CWORD-3} " = *' --exec '* ]]; then
                        __nearshare_complete_paths default
                        return
                    fi

                """)
        // The trap would stay, and run after each file that the user sources.
        script.replace(
            #"trap "${state//$'\n'/;}" RETURN"#, with: #"trap "${state//$'\n'/;};trap - RETURN" RETURN"#)
        // A script of another version must not write into the command line.
        script.replace(
            "\"${COMP_WORDS[0]}\" \"${@}\" \"${words[@]}\"\n",
            with: "\"${COMP_WORDS[0]}\" \"${@}\" \"${words[@]}\" 2> /dev/null\n")
        let cases = groups.map { "    '\($0.path.joined(separator: " "))') words='\($0.names.joined(separator: " "))' ;;\n" }
        script.replace(
            "    non_repeating_options=()\n    __nearshare_offer_flags_options -1\n}\n\ncomplete -o",
            with: "    non_repeating_options=()\n    __nearshare_offer_flags_options -1\n"
                + "    local words=''\n    case \"${COMP_WORDS[*]:2:COMP_CWORD-2}\" in\n\(cases.joined())    esac\n"
                + "    COMPREPLY+=($(compgen -W \"${words}\" -- \"${cur}\"))\n}\n\ncomplete -o")
        return script
    }

    private static func zsh(_ script: String, _ groups: [Group]) -> String {
        var script = withNoteFiles(script) { "\($0.dropLast(2)); _files}'" }
        script.replace(
            "    _describe -V '' non_empty_completions -- empty_completions",
            with:
                "    _describe -V '' non_empty_completions -M 'm:{[:lower:][:upper:]}={[:upper:][:lower:]}' -- empty_completions"
        )
        // Words behind a space replace the typed one. The last line of the tool is no word.
        script.replace(
            "        __nearshare_complete \"${completions[@]:0:-1}\"\n",
            with: """
                        completions=("${completions[@]:0:-1}")
                        local -a replacing=(${(M)completions:#[[:space:]]*})
                        (( ${#replacing} )) && compadd -U -i "${IPREFIX}" -- "${(@)replacing#[[:space:]]}"
                        completions=("${(@)completions:#[[:space:]]*}")
                        __nearshare_complete "${completions[@]}"

                """)
        script = script.split(separator: "\n", omittingEmptySubsequences: false).map(withValues).joined(separator: "\n")
        let top = groups.first?.names.joined(separator: " ") ?? ""
        let cases = groups.dropFirst().filter { $0.path.count == 1 }
            .map { "\($0.path[0])) compadd -- \($0.names.joined(separator: " "));; " }
        script.replace(
            "        '*:subcommands:'\n",
            with: "        '1:subcommand:(\(top))'\n"
                + "        '2:subcommand:{case \"${line[1]}\" in \(cases.joined())esac}'\n")
        return script
    }

    /// The value of an option may stand behind an equals sign, and that of `--exec` is the rest of the line.
    private static func withValues(_ line: Substring) -> String {
        let spec = line.drop { $0 == " " }
        guard spec.hasPrefix("'--") || spec.hasPrefix("'*--"), spec.contains("]:"), let name = line.firstRange(of: "[") else {
            return String(line)
        }
        guard spec.hasPrefix("'--exec["), let action = line.firstRange(of: "]:command:{"), line.hasSuffix("}'") else {
            return "\(line[..<name.lowerBound])=\(line[name.lowerBound...])"
        }
        let program = line[action.upperBound...].dropLast(2)
        return "\(line[..<action.lowerBound])]:*:::command:{if (( CURRENT == 1 )); then \(program); else _files; fi}'"
    }

    private static func fish(_ script: String, _ groups: [Group]) -> String {
        let lines = groups.map { path, names in
            let words = ["nearshare", "help"] + path
            let condition = "test (commandline -opc | string join \" \") = \"\(words.joined(separator: " "))\""
            return "complete -c 'nearshare' -n '\(condition)' -fa '\(names.joined(separator: " "))'"
        }
        let script = withNoteFiles(script) { line in
            guard let flags = line.firstRange(of: " -fka ") else { return String(line) }
            return "\(line[..<flags.lowerBound]) -Fka \(line[flags.upperBound...])"
        }
        .split(separator: "\n", omittingEmptySubsequences: false).flatMap(separatingValues).joined(separator: "\n")
        let offer = "function __nearshare_should_offer_completions_for_flags_or_options -a expected_commands\n"
        var adapted = script.replacing(
            offer,
            with: """
                function __nearshare_is_behind_exec
                    set -l tokens (__nearshare_tokens -pc)
                    set -l index (contains -i -- --exec $tokens)
                    and test $index -lt (count $tokens)
                end

                \(offer)    __nearshare_is_behind_exec; and return 1

                """, maxReplacements: 1)
        // For a value in another letter case, fish would replace the option as well.
        adapted.replace(
            "    command $tokens[1] $argv $tokens\nend\n",
            with: """
                    set -l begun (string replace -rf '^--[^=]+=' '' -- (commandline -ct) | string trim -l -c "'\\"")
                    command $tokens[1] $argv $tokens | while read -l word
                        if test "$(string sub -l (string length -- "$begun") -- $word)" = "$begun"
                            printf '%s\\n' $word
                        end
                    end
                end

                """)
        let files = ["complete -c 'nearshare' -n '__nearshare_is_behind_exec' -F"]
        return adapted + (adapted.hasSuffix("\n") ? "" : "\n") + (lines + files).joined(separator: "\n")
    }

    /// The values of an option in a command of their own, which comes first: fish shows the text of a command at each of its values.
    private static func separatingValues(_ line: Substring) -> [String] {
        guard let text = line.firstRange(of: " -d '"), let values = line.firstRange(of: " -rfka '"), !line.hasSuffix(" ''"),
            text.upperBound <= values.lowerBound
        else { return [String(line)] }
        return ["\(line[..<text.lowerBound])\(line[values.lowerBound...])", "\(line[..<values.lowerBound]) -rf"]
    }
}
