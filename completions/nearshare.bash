#!/bin/bash

__nearshare_cursor_index_in_current_word() {
    local remaining="${COMP_LINE}"

    local word
    for word in "${COMP_WORDS[@]::COMP_CWORD}"; do
        remaining="${remaining##*([[:space:]])"${word}"*([[:space:]])}"
    done

    local -ir index="$((COMP_POINT - ${#COMP_LINE} + ${#remaining}))"
    if [[ "${index}" -le 0 ]]; then
        printf 0
    else
        printf %s "${index}"
    fi
}

# positional arguments:
#
# - 1: the current (sub)command's count of positional arguments
#
# required variables:
#
# - repeating_flags: the repeating flags that the current (sub)command can accept
# - non_repeating_flags: the non-repeating flags that the current (sub)command can accept
# - repeating_options: the repeating options that the current (sub)command can accept
# - non_repeating_options: the non-repeating options that the current (sub)command can accept
# - positional_number: value ignored
# - unparsed_words: unparsed words from the current command line
#
# modified variables:
#
# - non_repeating_flags: remove flags for this (sub)command that are already on the command line
# - non_repeating_options: remove options for this (sub)command that are already on the command line
# - positional_number: set to the current positional number
# - unparsed_words: remove all flags, options, and option values for this (sub)command
__nearshare_offer_flags_options() {
    local -ir positional_count="${1}"
    positional_number=0

    local was_flag_option_terminator_seen=false
    local is_parsing_option_value=false

    local -ar unparsed_word_indices=("${!unparsed_words[@]}")
    local -i word_index
    for word_index in "${unparsed_word_indices[@]}"; do
        if "${is_parsing_option_value}"; then
            # This word is an option value:
            # Reset marker for next word iff not currently the last word
            [[ "${word_index}" -ne "${unparsed_word_indices[${#unparsed_word_indices[@]} - 1]}" ]] && is_parsing_option_value=false
            unset "unparsed_words[${word_index}]"
            # Do not process this word as a flag or an option
            continue
        fi

        local word="${unparsed_words["${word_index}"]}"
        if ! "${was_flag_option_terminator_seen}"; then
            case "${word}" in
            --)
                unset "unparsed_words[${word_index}]"
                # by itself -- is a flag/option terminator, but if it is the last word, it is the start of a completion
                if [[ "${word_index}" -ne "${unparsed_word_indices[${#unparsed_word_indices[@]} - 1]}" ]]; then
                    was_flag_option_terminator_seen=true
                fi
                continue
                ;;
            -*)
                # ${word} is a flag or an option
                # If ${word} is an option, mark that the next word to be parsed is an option value
                local option
                for option in "${repeating_options[@]}" "${non_repeating_options[@]}"; do
                    [[ "${word}" = "${option}" ]] && is_parsing_option_value=true && break
                done

                # Remove ${word} from ${non_repeating_flags} or ${non_repeating_options} so it isn't offered again
                local not_found=true
                local -i index
                for index in "${!non_repeating_flags[@]}"; do
                    if [[ "${non_repeating_flags[${index}]}" = "${word}" ]]; then
                        unset "non_repeating_flags[${index}]"
                        non_repeating_flags=("${non_repeating_flags[@]}")
                        not_found=false
                        break
                    fi
                done
                if "${not_found}"; then
                    for index in "${!non_repeating_flags[@]}"; do
                        if [[ "${non_repeating_flags[${index}]}" = "${word}" ]]; then
                            unset "non_repeating_flags[${index}]"
                            non_repeating_flags=("${non_repeating_flags[@]}")
                            break
                        fi
                    done
                fi
                unset "unparsed_words[${word_index}]"
                continue
                ;;
            esac
        fi

        # ${word} is neither a flag, nor an option, nor an option value
        if [[ "${positional_number}" -lt "${positional_count}" || "${positional_count}" -lt 0 ]]; then
            # ${word} is a positional
            ((positional_number++))
            unset "unparsed_words[${word_index}]"
        else
            if [[ -z "${word}" ]]; then
                # Could be completing a flag, option, or subcommand
                positional_number=-1
            else
                # ${word} is a subcommand or invalid, so stop processing this (sub)command
                positional_number=-2
            fi
            break
        fi
    done

    unparsed_words=("${unparsed_words[@]}")

    if\
        ! "${was_flag_option_terminator_seen}"\
        && ! "${is_parsing_option_value}"\
        && [[ ("${cur}" = -* && "${positional_number}" -ge 0) || "${positional_number}" -eq -1 ]]
    then
        COMPREPLY+=($(compgen -W "${repeating_flags[*]} ${non_repeating_flags[*]} ${repeating_options[*]} ${non_repeating_options[*]}" -- "${cur}"))
    fi
}

__nearshare_add_completions() {
    local completion
    while IFS='' read -r completion; do
        COMPREPLY+=("${completion}")
    done < <(IFS=$'\n' compgen "${@}" -- "${cur}")
}

# Offers the words, one in each line, that begin like the current one, in any letter case, quoted as it is; and
# those behind a space, which replace it.
# readline quotes those with a slash, as names of files.
__nearshare_add_words() {
    shopt -s nocasematch
    local word typed=${cur} quote
    case "${COMP_WORDS[COMP_CWORD]}" in
    \'*) quote=single ;;
    \"*) quote=double ;;
    *) quote=none typed=${cur//\\/} ;;
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
        single) word=${word//\'/\'\\\'\'} ;;
        double) [[ "${word}" = *[\"\`\$\!\\]* ]] && continue ;;
        esac
        COMPREPLY+=("${word}")
    done <<< "${1}"
}

# Has readline complete names of files or folders, which it quotes.
__nearshare_complete_paths() {
    compopt -o "${1}" 2> /dev/null
}

__nearshare_custom_complete() {
    if [[ -n "${cur}" || -z ${COMP_WORDS[${COMP_CWORD}]} || "${COMP_LINE:${COMP_POINT}:1}" != ' ' ]]; then
        local -ar words=("${COMP_WORDS[@]}")
    else
        local -ar words=("${COMP_WORDS[@]::${COMP_CWORD}}" '' "${COMP_WORDS[@]:${COMP_CWORD}}")
    fi

    "${COMP_WORDS[0]}" "${@}" "${words[@]}" 2> /dev/null
}

_nearshare() {
    local state
    state="$(shopt -p;shopt -po)"
    trap "${state//$'\n'/;};trap - RETURN" RETURN
    shopt -s extglob
    set +o history +o posix

    local -xr SAP_SHELL=bash
    local -x SAP_SHELL_VERSION
    SAP_SHELL_VERSION="$(IFS='.';printf %s "${BASH_VERSINFO[*]}")"
    local -r SAP_SHELL_VERSION

    local cur="${2}" prev="${3}"
    if [[ "${COMP_WORDS[COMP_CWORD]}" = '=' ]]; then
        cur='' prev="${COMP_WORDS[COMP_CWORD - 1]}"
    elif [[ "${prev}" = '=' ]]; then
        prev="${COMP_WORDS[COMP_CWORD - 2]}"
    fi

    local -i positional_number
    local -a unparsed_words=()
    local word
    for word in "${COMP_WORDS[@]:1:${COMP_CWORD}}"; do
        [[ "${word}" = '=' ]] || unparsed_words+=("${word}")
    done
    [[ "${COMP_WORDS[COMP_CWORD]}" = '=' ]] && unparsed_words+=('')

    local -a repeating_flags=()
    local -a non_repeating_flags=(--verbose --version -h --help)
    local -a repeating_options=()
    local -a non_repeating_options=()
    __nearshare_offer_flags_options 0

    # Offer subcommand / subcommand argument completions
    local -r subcommand="${unparsed_words[0]}"
    unset 'unparsed_words[0]'
    unparsed_words=("${unparsed_words[@]}")
    case "${subcommand}" in
    receive|send|browse|friends|chat|message|messages|mesh|peers|keys|identity|inbox|history|voice|config|notify|setup|doctor|help)
        # Offer subcommand argument completions
        "_nearshare_${subcommand}"
        ;;
    *)
        # Offer subcommand completions
        COMPREPLY+=($(compgen -W 'receive send browse friends chat message messages mesh peers keys identity inbox history voice config notify setup doctor help' -- "${cur}"))
        ;;
    esac
}

_nearshare_receive() {
    if [[ COMP_CWORD -gt 3 && " ${COMP_WORDS[*]:2:COMP_CWORD-3} " = *' --exec '* ]]; then
        __nearshare_complete_paths default
        return
    fi
    repeating_flags=(-v)
    non_repeating_flags=(--keep-executable --update --overwrite --once --qr --hotspot --leave-wifi --localsend --no-localsend --json --stdout --no-sandbox --version -h --help)
    repeating_options=(--exec)
    non_repeating_options=(--inbox --name --accept --max-size --max-per-peer --port --interface --adapter --localsend-pin-file --log-level)
    __nearshare_offer_flags_options 0

    # Offer option value completions
    case "${prev}" in
    '--inbox')
        __nearshare_complete_paths dirnames
        return
        ;;
    '--name')
        return
        ;;
    '--accept')
        __nearshare_add_completions -W 'ask'$'\n''friends'$'\n''all'$'\n''none'
        return
        ;;
    '--max-size')
        return
        ;;
    '--max-per-peer')
        return
        ;;
    '--port')
        return
        ;;
    '--interface')
        return
        ;;
    '--adapter')
        return
        ;;
    '--localsend-pin-file')
        __nearshare_complete_paths default
        return
        ;;
    '--exec')
        __nearshare_add_words "$(__nearshare_custom_complete ---completion receive -- --exec "${COMP_CWORD}" "$(__nearshare_cursor_index_in_current_word)")"
        return
        ;;
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac
}

_nearshare_send() {
    repeating_flags=(-v)
    non_repeating_flags=(--to-everyone --allow-unencrypted --links --keep-modes --dry-run -n --no-resume --dialog --qr --hotspot --leave-wifi --keep --json --quiet --version -h --help)
    repeating_options=(--to --exclude --exclude-from)
    non_repeating_options=(--text --as --timeout --retry --limit --accept --pin-file --via --interface --adapter --log-level)
    __nearshare_offer_flags_options -1

    # Offer option value completions
    case "${prev}" in
    '--to')
        __nearshare_add_words "$(__nearshare_custom_complete ---completion send -- --to "${COMP_CWORD}" "$(__nearshare_cursor_index_in_current_word)")"
        return
        ;;
    '--text')
        return
        ;;
    '--as')
        return
        ;;
    '--exclude')
        return
        ;;
    '--exclude-from')
        __nearshare_complete_paths default
        return
        ;;
    '--timeout')
        return
        ;;
    '--retry')
        return
        ;;
    '--limit')
        return
        ;;
    '--accept')
        __nearshare_add_completions -W 'ask'$'\n''all'
        return
        ;;
    '--pin-file')
        __nearshare_complete_paths default
        return
        ;;
    '--via')
        __nearshare_add_completions -W 'lan'$'\n''bluetooth'$'\n''mesh'
        return
        ;;
    '--interface')
        return
        ;;
    '--adapter')
        return
        ;;
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac

    # Offer positional completions
    case "${positional_number}" in
    *)
        __nearshare_complete_paths default
        return
        ;;
    esac
}

_nearshare_browse() {
    repeating_flags=(-v)
    non_repeating_flags=(--watch --scan --json --version -h --help)
    repeating_options=()
    non_repeating_options=(--timeout --via --interface --adapter --log-level)
    __nearshare_offer_flags_options 0

    # Offer option value completions
    case "${prev}" in
    '--timeout')
        return
        ;;
    '--via')
        __nearshare_add_completions -W 'lan'$'\n''bluetooth'
        return
        ;;
    '--interface')
        return
        ;;
    '--adapter')
        return
        ;;
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac
}

_nearshare_friends() {
    repeating_flags=()
    non_repeating_flags=(--version -h --help)
    repeating_options=()
    non_repeating_options=()
    __nearshare_offer_flags_options 0

    # Offer subcommand / subcommand argument completions
    local -r subcommand="${unparsed_words[0]}"
    unset 'unparsed_words[0]'
    unparsed_words=("${unparsed_words[@]}")
    case "${subcommand}" in
    list|add|remove)
        # Offer subcommand argument completions
        "_nearshare_friends_${subcommand}"
        ;;
    *)
        # Offer subcommand completions
        COMPREPLY+=($(compgen -W 'list add remove' -- "${cur}"))
        ;;
    esac
}

_nearshare_friends_list() {
    repeating_flags=(-v)
    non_repeating_flags=(--json --version -h --help)
    repeating_options=()
    non_repeating_options=(--log-level)
    __nearshare_offer_flags_options 0

    # Offer option value completions
    case "${prev}" in
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac
}

_nearshare_friends_add() {
    repeating_flags=(-v)
    non_repeating_flags=(--unverified --version -h --help)
    repeating_options=()
    non_repeating_options=(--interface --adapter --log-level)
    __nearshare_offer_flags_options 1

    # Offer option value completions
    case "${prev}" in
    '--interface')
        return
        ;;
    '--adapter')
        return
        ;;
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac

    # Offer positional completions
    case "${positional_number}" in
    1)
        __nearshare_add_words "$(__nearshare_custom_complete ---completion friends add -- positional@0 "${COMP_CWORD}" "$(__nearshare_cursor_index_in_current_word)")"
        return
        ;;
    esac
}

_nearshare_friends_remove() {
    repeating_flags=(-v)
    non_repeating_flags=(--version -h --help)
    repeating_options=()
    non_repeating_options=(--log-level)
    __nearshare_offer_flags_options 1

    # Offer option value completions
    case "${prev}" in
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac

    # Offer positional completions
    case "${positional_number}" in
    1)
        __nearshare_add_words "$(__nearshare_custom_complete ---completion friends remove -- positional@0 "${COMP_CWORD}" "$(__nearshare_cursor_index_in_current_word)")"
        return
        ;;
    esac
}

_nearshare_chat() {
    repeating_flags=(-v)
    non_repeating_flags=(--public --follow --json --quiet --no-sandbox --version -h --help)
    repeating_options=()
    non_repeating_options=(--wait --timeout --history --interface --adapter --log-level)
    __nearshare_offer_flags_options 1

    # Offer option value completions
    case "${prev}" in
    '--wait')
        __nearshare_add_completions -W 'none'$'\n''sent'$'\n''delivered'
        return
        ;;
    '--timeout')
        return
        ;;
    '--history')
        return
        ;;
    '--interface')
        return
        ;;
    '--adapter')
        return
        ;;
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac

    # Offer positional completions
    case "${positional_number}" in
    1)
        __nearshare_add_words "$(__nearshare_custom_complete ---completion chat -- positional@0 "${COMP_CWORD}" "$(__nearshare_cursor_index_in_current_word)")"
        return
        ;;
    esac
}

_nearshare_message() {
    repeating_flags=(-v)
    non_repeating_flags=(--broadcast --unencrypted --private --no-sandbox --require-session --version -h --help)
    repeating_options=()
    non_repeating_options=(--json --to --mode --file --wait --timeout --interface --adapter --log-level)
    __nearshare_offer_flags_options 1

    # Offer option value completions
    case "${prev}" in
    '--json')
        return
        ;;
    '--to')
        __nearshare_add_words "$(__nearshare_custom_complete ---completion message -- --to "${COMP_CWORD}" "$(__nearshare_cursor_index_in_current_word)")"
        return
        ;;
    '--mode')
        __nearshare_add_completions -W 'direct'$'\n''mesh'$'\n''full'$'\n''broadcast'
        return
        ;;
    '--file')
        __nearshare_complete_paths default
        return
        ;;
    '--wait')
        __nearshare_add_completions -W 'none'$'\n''sent'$'\n''delivered'
        return
        ;;
    '--timeout')
        return
        ;;
    '--interface')
        return
        ;;
    '--adapter')
        return
        ;;
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac
}

_nearshare_messages() {
    repeating_flags=(-v)
    non_repeating_flags=(--follow --json --no-sandbox --version -h --help)
    repeating_options=()
    non_repeating_options=(--after --interface --adapter --log-level)
    __nearshare_offer_flags_options 0

    # Offer option value completions
    case "${prev}" in
    '--after')
        return
        ;;
    '--interface')
        return
        ;;
    '--adapter')
        return
        ;;
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac
}

_nearshare_mesh() {
    repeating_flags=()
    non_repeating_flags=(--version -h --help)
    repeating_options=()
    non_repeating_options=()
    __nearshare_offer_flags_options 0

    # Offer subcommand / subcommand argument completions
    local -r subcommand="${unparsed_words[0]}"
    unset 'unparsed_words[0]'
    unparsed_words=("${unparsed_words[@]}")
    case "${subcommand}" in
    run|status|trace|stop)
        # Offer subcommand argument completions
        "_nearshare_mesh_${subcommand}"
        ;;
    *)
        # Offer subcommand completions
        COMPREPLY+=($(compgen -W 'run status trace stop' -- "${cur}"))
        ;;
    esac
}

_nearshare_mesh_run() {
    repeating_flags=(-v)
    non_repeating_flags=(--keep-executable --update --overwrite --json --no-sandbox --version -h --help)
    repeating_options=()
    non_repeating_options=(--profile --inbox --name --accept --max-size --max-per-peer --port --interface --adapter --log-level)
    __nearshare_offer_flags_options 0

    # Offer option value completions
    case "${prev}" in
    '--profile')
        __nearshare_add_words "$(__nearshare_custom_complete ---completion mesh run -- --profile "${COMP_CWORD}" "$(__nearshare_cursor_index_in_current_word)")"
        return
        ;;
    '--inbox')
        __nearshare_complete_paths dirnames
        return
        ;;
    '--name')
        return
        ;;
    '--accept')
        __nearshare_add_completions -W 'ask'$'\n''friends'$'\n''all'$'\n''none'
        return
        ;;
    '--max-size')
        return
        ;;
    '--max-per-peer')
        return
        ;;
    '--port')
        return
        ;;
    '--interface')
        return
        ;;
    '--adapter')
        return
        ;;
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac
}

_nearshare_mesh_status() {
    repeating_flags=(-v)
    non_repeating_flags=(--json --version -h --help)
    repeating_options=()
    non_repeating_options=(--log-level)
    __nearshare_offer_flags_options 0

    # Offer option value completions
    case "${prev}" in
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac
}

_nearshare_mesh_trace() {
    repeating_flags=(-v)
    non_repeating_flags=(--json --version -h --help)
    repeating_options=()
    non_repeating_options=(--log-level)
    __nearshare_offer_flags_options 1

    # Offer option value completions
    case "${prev}" in
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac
}

_nearshare_mesh_stop() {
    repeating_flags=(-v)
    non_repeating_flags=(--version -h --help)
    repeating_options=()
    non_repeating_options=(--log-level)
    __nearshare_offer_flags_options 0

    # Offer option value completions
    case "${prev}" in
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac
}

_nearshare_peers() {
    repeating_flags=()
    non_repeating_flags=(--version -h --help)
    repeating_options=()
    non_repeating_options=()
    __nearshare_offer_flags_options 0

    # Offer subcommand / subcommand argument completions
    local -r subcommand="${unparsed_words[0]}"
    unset 'unparsed_words[0]'
    unparsed_words=("${unparsed_words[@]}")
    case "${subcommand}" in
    list|verify|rename|block|unblock|forget)
        # Offer subcommand argument completions
        "_nearshare_peers_${subcommand}"
        ;;
    *)
        # Offer subcommand completions
        COMPREPLY+=($(compgen -W 'list verify rename block unblock forget' -- "${cur}"))
        ;;
    esac
}

_nearshare_peers_list() {
    repeating_flags=(-v)
    non_repeating_flags=(--json --version -h --help)
    repeating_options=()
    non_repeating_options=(--log-level)
    __nearshare_offer_flags_options 0

    # Offer option value completions
    case "${prev}" in
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac
}

_nearshare_peers_verify() {
    repeating_flags=(-v)
    non_repeating_flags=(--no-sandbox --version -h --help)
    repeating_options=()
    non_repeating_options=(--log-level)
    __nearshare_offer_flags_options 1

    # Offer option value completions
    case "${prev}" in
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac

    # Offer positional completions
    case "${positional_number}" in
    1)
        __nearshare_add_words "$(__nearshare_custom_complete ---completion peers verify -- positional@0 "${COMP_CWORD}" "$(__nearshare_cursor_index_in_current_word)")"
        return
        ;;
    esac
}

_nearshare_peers_rename() {
    repeating_flags=(-v)
    non_repeating_flags=(--version -h --help)
    repeating_options=()
    non_repeating_options=(--log-level)
    __nearshare_offer_flags_options 2

    # Offer option value completions
    case "${prev}" in
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac

    # Offer positional completions
    case "${positional_number}" in
    1)
        __nearshare_add_words "$(__nearshare_custom_complete ---completion peers rename -- positional@0 "${COMP_CWORD}" "$(__nearshare_cursor_index_in_current_word)")"
        return
        ;;
    esac
}

_nearshare_peers_block() {
    repeating_flags=(-v)
    non_repeating_flags=(--version -h --help)
    repeating_options=()
    non_repeating_options=(--log-level)
    __nearshare_offer_flags_options 1

    # Offer option value completions
    case "${prev}" in
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac

    # Offer positional completions
    case "${positional_number}" in
    1)
        __nearshare_add_words "$(__nearshare_custom_complete ---completion peers block -- positional@0 "${COMP_CWORD}" "$(__nearshare_cursor_index_in_current_word)")"
        return
        ;;
    esac
}

_nearshare_peers_unblock() {
    repeating_flags=(-v)
    non_repeating_flags=(--version -h --help)
    repeating_options=()
    non_repeating_options=(--log-level)
    __nearshare_offer_flags_options 1

    # Offer option value completions
    case "${prev}" in
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac

    # Offer positional completions
    case "${positional_number}" in
    1)
        __nearshare_add_words "$(__nearshare_custom_complete ---completion peers unblock -- positional@0 "${COMP_CWORD}" "$(__nearshare_cursor_index_in_current_word)")"
        return
        ;;
    esac
}

_nearshare_peers_forget() {
    repeating_flags=(-v)
    non_repeating_flags=(--version -h --help)
    repeating_options=()
    non_repeating_options=(--log-level)
    __nearshare_offer_flags_options 1

    # Offer option value completions
    case "${prev}" in
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac

    # Offer positional completions
    case "${positional_number}" in
    1)
        __nearshare_add_words "$(__nearshare_custom_complete ---completion peers forget -- positional@0 "${COMP_CWORD}" "$(__nearshare_cursor_index_in_current_word)")"
        return
        ;;
    esac
}

_nearshare_keys() {
    repeating_flags=()
    non_repeating_flags=(--version -h --help)
    repeating_options=()
    non_repeating_options=()
    __nearshare_offer_flags_options 0

    # Offer subcommand / subcommand argument completions
    local -r subcommand="${unparsed_words[0]}"
    unset 'unparsed_words[0]'
    unparsed_words=("${unparsed_words[@]}")
    case "${subcommand}" in
    list|export|import|forget)
        # Offer subcommand argument completions
        "_nearshare_keys_${subcommand}"
        ;;
    *)
        # Offer subcommand completions
        COMPREPLY+=($(compgen -W 'list export import forget' -- "${cur}"))
        ;;
    esac
}

_nearshare_keys_list() {
    repeating_flags=(-v)
    non_repeating_flags=(--json --version -h --help)
    repeating_options=()
    non_repeating_options=(--log-level)
    __nearshare_offer_flags_options 0

    # Offer option value completions
    case "${prev}" in
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac
}

_nearshare_keys_export() {
    repeating_flags=(-v)
    non_repeating_flags=(--version -h --help)
    repeating_options=()
    non_repeating_options=(--output --log-level)
    __nearshare_offer_flags_options 0

    # Offer option value completions
    case "${prev}" in
    '--output')
        __nearshare_complete_paths default
        return
        ;;
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac
}

_nearshare_keys_import() {
    repeating_flags=(-v)
    non_repeating_flags=(--version -h --help)
    repeating_options=()
    non_repeating_options=(--for --log-level)
    __nearshare_offer_flags_options 1

    # Offer option value completions
    case "${prev}" in
    '--for')
        __nearshare_add_words "$(__nearshare_custom_complete ---completion keys import -- --for "${COMP_CWORD}" "$(__nearshare_cursor_index_in_current_word)")"
        return
        ;;
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac

    # Offer positional completions
    case "${positional_number}" in
    1)
        __nearshare_complete_paths default
        return
        ;;
    esac
}

_nearshare_keys_forget() {
    repeating_flags=(-v)
    non_repeating_flags=(--version -h --help)
    repeating_options=()
    non_repeating_options=(--log-level)
    __nearshare_offer_flags_options 1

    # Offer option value completions
    case "${prev}" in
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac

    # Offer positional completions
    case "${positional_number}" in
    1)
        __nearshare_add_words "$(__nearshare_custom_complete ---completion keys forget -- positional@0 "${COMP_CWORD}" "$(__nearshare_cursor_index_in_current_word)")"
        return
        ;;
    esac
}

_nearshare_identity() {
    repeating_flags=()
    non_repeating_flags=(--version -h --help)
    repeating_options=()
    non_repeating_options=()
    __nearshare_offer_flags_options 0

    # Offer subcommand / subcommand argument completions
    local -r subcommand="${unparsed_words[0]}"
    unset 'unparsed_words[0]'
    unparsed_words=("${unparsed_words[@]}")
    case "${subcommand}" in
    show|qr|rename|destroy)
        # Offer subcommand argument completions
        "_nearshare_identity_${subcommand}"
        ;;
    *)
        # Offer subcommand completions
        COMPREPLY+=($(compgen -W 'show qr rename destroy' -- "${cur}"))
        ;;
    esac
}

_nearshare_identity_show() {
    repeating_flags=(-v)
    non_repeating_flags=(--json --version -h --help)
    repeating_options=()
    non_repeating_options=(--log-level)
    __nearshare_offer_flags_options 0

    # Offer option value completions
    case "${prev}" in
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac
}

_nearshare_identity_qr() {
    repeating_flags=(-v)
    non_repeating_flags=(--json --version -h --help)
    repeating_options=()
    non_repeating_options=(--log-level)
    __nearshare_offer_flags_options 0

    # Offer option value completions
    case "${prev}" in
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac
}

_nearshare_identity_rename() {
    repeating_flags=(-v)
    non_repeating_flags=(--version -h --help)
    repeating_options=()
    non_repeating_options=(--log-level)
    __nearshare_offer_flags_options 1

    # Offer option value completions
    case "${prev}" in
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac
}

_nearshare_identity_destroy() {
    repeating_flags=(-v)
    non_repeating_flags=(--yes --version -h --help)
    repeating_options=()
    non_repeating_options=(--log-level)
    __nearshare_offer_flags_options 0

    # Offer option value completions
    case "${prev}" in
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac
}

_nearshare_inbox() {
    repeating_flags=()
    non_repeating_flags=(--version -h --help)
    repeating_options=()
    non_repeating_options=()
    __nearshare_offer_flags_options 0

    # Offer subcommand / subcommand argument completions
    local -r subcommand="${unparsed_words[0]}"
    unset 'unparsed_words[0]'
    unparsed_words=("${unparsed_words[@]}")
    case "${subcommand}" in
    list|open|show|rm|clean)
        # Offer subcommand argument completions
        "_nearshare_inbox_${subcommand}"
        ;;
    *)
        # Offer subcommand completions
        COMPREPLY+=($(compgen -W 'list open show rm clean' -- "${cur}"))
        ;;
    esac
}

_nearshare_inbox_list() {
    repeating_flags=(-v)
    non_repeating_flags=(--paths --json --version -h --help)
    repeating_options=()
    non_repeating_options=(--inbox --last --log-level)
    __nearshare_offer_flags_options 0

    # Offer option value completions
    case "${prev}" in
    '--inbox')
        __nearshare_complete_paths dirnames
        return
        ;;
    '--last')
        return
        ;;
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac
}

_nearshare_inbox_open() {
    repeating_flags=(-v)
    non_repeating_flags=(--version -h --help)
    repeating_options=()
    non_repeating_options=(--log-level)
    __nearshare_offer_flags_options 1

    # Offer option value completions
    case "${prev}" in
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac

    # Offer positional completions
    case "${positional_number}" in
    1)
        __nearshare_add_words "$(__nearshare_custom_complete ---completion inbox open -- positional@0 "${COMP_CWORD}" "$(__nearshare_cursor_index_in_current_word)")"
        return
        ;;
    esac
}

_nearshare_inbox_show() {
    repeating_flags=(-v)
    non_repeating_flags=(--version -h --help)
    repeating_options=()
    non_repeating_options=(--log-level)
    __nearshare_offer_flags_options 1

    # Offer option value completions
    case "${prev}" in
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac

    # Offer positional completions
    case "${positional_number}" in
    1)
        __nearshare_add_words "$(__nearshare_custom_complete ---completion inbox show -- positional@0 "${COMP_CWORD}" "$(__nearshare_cursor_index_in_current_word)")"
        return
        ;;
    esac
}

_nearshare_inbox_rm() {
    repeating_flags=(-v)
    non_repeating_flags=(--yes --version -h --help)
    repeating_options=()
    non_repeating_options=(--log-level)
    __nearshare_offer_flags_options -1

    # Offer option value completions
    case "${prev}" in
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac

    # Offer positional completions
    case "${positional_number}" in
    *)
        __nearshare_add_words "$(__nearshare_custom_complete ---completion inbox rm -- positional@0 "${COMP_CWORD}" "$(__nearshare_cursor_index_in_current_word)")"
        return
        ;;
    esac
}

_nearshare_inbox_clean() {
    repeating_flags=(-v)
    non_repeating_flags=(--version -h --help)
    repeating_options=()
    non_repeating_options=(--log-level)
    __nearshare_offer_flags_options 0

    # Offer option value completions
    case "${prev}" in
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac
}

_nearshare_history() {
    repeating_flags=(-v)
    non_repeating_flags=(--sent --received --json --version -h --help)
    repeating_options=()
    non_repeating_options=(--peer --limit --log-level)
    __nearshare_offer_flags_options 0

    # Offer option value completions
    case "${prev}" in
    '--peer')
        __nearshare_add_words "$(__nearshare_custom_complete ---completion history -- --peer "${COMP_CWORD}" "$(__nearshare_cursor_index_in_current_word)")"
        return
        ;;
    '--limit')
        return
        ;;
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac
}

_nearshare_voice() {
    repeating_flags=()
    non_repeating_flags=(--version -h --help)
    repeating_options=()
    non_repeating_options=()
    __nearshare_offer_flags_options 0

    # Offer subcommand / subcommand argument completions
    local -r subcommand="${unparsed_words[0]}"
    unset 'unparsed_words[0]'
    unparsed_words=("${unparsed_words[@]}")
    case "${subcommand}" in
    record|play|show|list)
        # Offer subcommand argument completions
        "_nearshare_voice_${subcommand}"
        ;;
    *)
        # Offer subcommand completions
        COMPREPLY+=($(compgen -W 'record play show list' -- "${cur}"))
        ;;
    esac
}

_nearshare_voice_record() {
    repeating_flags=(-v)
    non_repeating_flags=(--raw --list-devices --no-trim --yes -y --allow-unencrypted --json --quiet --version -h --help)
    repeating_options=(--to)
    non_repeating_options=(--output -o --input --device --duration --bitrate --rate --limit --via --interface --adapter --timeout --log-level)
    __nearshare_offer_flags_options 0

    # Offer option value completions
    case "${prev}" in
    '--to')
        __nearshare_add_words "$(__nearshare_custom_complete ---completion voice record -- --to "${COMP_CWORD}" "$(__nearshare_cursor_index_in_current_word)")"
        return
        ;;
    '--output'|'-o')
        __nearshare_complete_paths default
        return
        ;;
    '--input')
        __nearshare_complete_paths default
        return
        ;;
    '--device')
        return
        ;;
    '--duration')
        return
        ;;
    '--bitrate')
        return
        ;;
    '--rate')
        return
        ;;
    '--limit')
        return
        ;;
    '--via')
        __nearshare_add_completions -W 'lan'$'\n''bluetooth'$'\n''mesh'
        return
        ;;
    '--interface')
        return
        ;;
    '--adapter')
        return
        ;;
    '--timeout')
        return
        ;;
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac
}

_nearshare_voice_play() {
    repeating_flags=(-v)
    non_repeating_flags=(--version -h --help)
    repeating_options=()
    non_repeating_options=(--device --log-level)
    __nearshare_offer_flags_options 1

    # Offer option value completions
    case "${prev}" in
    '--device')
        return
        ;;
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac

    # Offer positional completions
    case "${positional_number}" in
    1)
        __nearshare_add_words "$(__nearshare_custom_complete ---completion voice play -- positional@0 "${COMP_CWORD}" "$(__nearshare_cursor_index_in_current_word)")"
        __nearshare_complete_paths default
        return
        ;;
    esac
}

_nearshare_voice_show() {
    repeating_flags=(-v)
    non_repeating_flags=(--json --version -h --help)
    repeating_options=()
    non_repeating_options=(--log-level)
    __nearshare_offer_flags_options 1

    # Offer option value completions
    case "${prev}" in
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac

    # Offer positional completions
    case "${positional_number}" in
    1)
        __nearshare_add_words "$(__nearshare_custom_complete ---completion voice show -- positional@0 "${COMP_CWORD}" "$(__nearshare_cursor_index_in_current_word)")"
        __nearshare_complete_paths default
        return
        ;;
    esac
}

_nearshare_voice_list() {
    repeating_flags=(-v)
    non_repeating_flags=(--json --version -h --help)
    repeating_options=()
    non_repeating_options=(--log-level)
    __nearshare_offer_flags_options 0

    # Offer option value completions
    case "${prev}" in
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac
}

_nearshare_config() {
    repeating_flags=(-v)
    non_repeating_flags=(--keep-executable --update --overwrite --json --version -h --help)
    repeating_options=()
    non_repeating_options=(--inbox --name --accept --max-size --max-per-peer --port --interface --adapter --log-level)
    __nearshare_offer_flags_options 0

    # Offer option value completions
    case "${prev}" in
    '--inbox')
        __nearshare_complete_paths dirnames
        return
        ;;
    '--name')
        return
        ;;
    '--accept')
        __nearshare_add_completions -W 'ask'$'\n''friends'$'\n''all'$'\n''none'
        return
        ;;
    '--max-size')
        return
        ;;
    '--max-per-peer')
        return
        ;;
    '--port')
        return
        ;;
    '--interface')
        return
        ;;
    '--adapter')
        return
        ;;
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac
}

_nearshare_notify() {
    repeating_flags=(-v)
    non_repeating_flags=(--version -h --help)
    repeating_options=()
    non_repeating_options=(--log-level)
    __nearshare_offer_flags_options 0

    # Offer option value completions
    case "${prev}" in
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac
}

_nearshare_setup() {
    repeating_flags=(-v)
    non_repeating_flags=(--version -h --help)
    repeating_options=()
    non_repeating_options=(--log-level)
    __nearshare_offer_flags_options 0

    # Offer option value completions
    case "${prev}" in
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac
}

_nearshare_doctor() {
    repeating_flags=(-v)
    non_repeating_flags=(--scan --json --version -h --help)
    repeating_options=()
    non_repeating_options=(--inbox --adapter --log-level)
    __nearshare_offer_flags_options 0

    # Offer option value completions
    case "${prev}" in
    '--inbox')
        __nearshare_complete_paths dirnames
        return
        ;;
    '--adapter')
        return
        ;;
    '--log-level')
        __nearshare_add_completions -W 'error'$'\n''warning'$'\n''info'$'\n''debug'$'\n''trace'
        return
        ;;
    esac
}

_nearshare_help() {
    repeating_flags=()
    non_repeating_flags=(--version)
    repeating_options=()
    non_repeating_options=()
    __nearshare_offer_flags_options -1
    local words=''
    case "${COMP_WORDS[*]:2:COMP_CWORD-2}" in
    '') words='receive send browse friends chat message messages mesh peers keys identity inbox history voice config notify setup doctor' ;;
    'friends') words='list add remove' ;;
    'mesh') words='run status trace stop' ;;
    'peers') words='list verify rename block unblock forget' ;;
    'keys') words='list export import forget' ;;
    'identity') words='show qr rename destroy' ;;
    'inbox') words='list open show rm clean' ;;
    'voice') words='record play show list' ;;
    esac
    COMPREPLY+=($(compgen -W "${words}" -- "${cur}"))
}

complete -o filenames -F _nearshare nearshare
