function __nearshare_is_behind_exec
    set -l tokens (__nearshare_tokens -pc)
    set -l index (contains -i -- --exec $tokens)
    and test $index -lt (count $tokens)
end

function __nearshare_should_offer_completions_for_flags_or_options -a expected_commands
    __nearshare_is_behind_exec; and return 1
    set -l non_repeating_flags_or_options $argv[2..]
    set -l non_repeating_flags_or_options_absent 0
    set -l positional_index 0
    set -l commands
    __nearshare_parse_tokens
    test "$commands" = "$expected_commands"; and return $non_repeating_flags_or_options_absent
end

function __nearshare_should_offer_completions_for_positional -a expected_commands positional_index_comparison expected_positional_index
    set -l non_repeating_flags_or_options
    set -l non_repeating_flags_or_options_absent 0
    set -l positional_index 0
    set -l commands
    __nearshare_parse_tokens
    test "$commands" = "$expected_commands" -a \( "$positional_index" "$positional_index_comparison" "$expected_positional_index" \)
end

function __nearshare_parse_tokens -S
    set -l unparsed_tokens (__nearshare_tokens -pc)
    switch $unparsed_tokens[1]
    case 'nearshare'
        __nearshare_parse_subcommand 0 'verbose' 'version' 'h/help'
        switch $unparsed_tokens[1]
        case 'receive'
            __nearshare_parse_subcommand 0 'inbox=' 'name=' 'accept=' 'max-size=' 'max-per-peer=' 'keep-executable' 'update' 'overwrite' 'port=' 'interface=' 'adapter=' 'once' 'qr' 'hotspot' 'leave-wifi' 'localsend' 'no-localsend' 'localsend-pin-file=' 'json' 'stdout' 'exec=+' 'no-sandbox' 'v' 'log-level=' 'version' 'h/help'
        case 'send'
            __nearshare_parse_subcommand -r 1 'to=+' 'to-everyone' 'allow-unencrypted' 'text=' 'as=' 'links' 'keep-modes' 'exclude=+' 'exclude-from=+' 'n/dry-run' 'timeout=' 'retry=' 'no-resume' 'limit=' 'dialog' 'qr' 'hotspot' 'leave-wifi' 'keep' 'accept=' 'pin-file=' 'via=' 'interface=' 'adapter=' 'json' 'quiet' 'v' 'log-level=' 'version' 'h/help'
        case 'browse'
            __nearshare_parse_subcommand 0 'watch' 'timeout=' 'via=' 'scan' 'interface=' 'adapter=' 'json' 'v' 'log-level=' 'version' 'h/help'
        case 'friends'
            __nearshare_parse_subcommand 0 'version' 'h/help'
            switch $unparsed_tokens[1]
            case 'list'
                __nearshare_parse_subcommand 0 'json' 'v' 'log-level=' 'version' 'h/help'
            case 'add'
                __nearshare_parse_subcommand 1 'unverified' 'interface=' 'adapter=' 'v' 'log-level=' 'version' 'h/help'
            case 'remove'
                __nearshare_parse_subcommand 1 'v' 'log-level=' 'version' 'h/help'
            end
        case 'chat'
            __nearshare_parse_subcommand 1 'public' 'wait=' 'timeout=' 'follow' 'history=' 'json' 'quiet' 'interface=' 'adapter=' 'no-sandbox' 'v' 'log-level=' 'version' 'h/help'
        case 'message'
            __nearshare_parse_subcommand 1 'json=' 'to=' 'broadcast' 'mode=' 'file=' 'unencrypted' 'private' 'wait=' 'timeout=' 'interface=' 'adapter=' 'no-sandbox' 'v' 'log-level=' 'require-session' 'version' 'h/help'
        case 'messages'
            __nearshare_parse_subcommand 0 'follow' 'after=' 'json' 'interface=' 'adapter=' 'no-sandbox' 'v' 'log-level=' 'version' 'h/help'
        case 'mesh'
            __nearshare_parse_subcommand 0 'version' 'h/help'
            switch $unparsed_tokens[1]
            case 'run'
                __nearshare_parse_subcommand 0 'profile=' 'inbox=' 'name=' 'accept=' 'max-size=' 'max-per-peer=' 'keep-executable' 'update' 'overwrite' 'port=' 'interface=' 'adapter=' 'json' 'no-sandbox' 'v' 'log-level=' 'version' 'h/help'
            case 'status'
                __nearshare_parse_subcommand 0 'json' 'v' 'log-level=' 'version' 'h/help'
            case 'trace'
                __nearshare_parse_subcommand 1 'json' 'v' 'log-level=' 'version' 'h/help'
            case 'stop'
                __nearshare_parse_subcommand 0 'v' 'log-level=' 'version' 'h/help'
            end
        case 'peers'
            __nearshare_parse_subcommand 0 'version' 'h/help'
            switch $unparsed_tokens[1]
            case 'list'
                __nearshare_parse_subcommand 0 'json' 'v' 'log-level=' 'version' 'h/help'
            case 'verify'
                __nearshare_parse_subcommand 1 'no-sandbox' 'v' 'log-level=' 'version' 'h/help'
            case 'rename'
                __nearshare_parse_subcommand 2 'v' 'log-level=' 'version' 'h/help'
            case 'block'
                __nearshare_parse_subcommand 1 'v' 'log-level=' 'version' 'h/help'
            case 'unblock'
                __nearshare_parse_subcommand 1 'v' 'log-level=' 'version' 'h/help'
            case 'forget'
                __nearshare_parse_subcommand 1 'v' 'log-level=' 'version' 'h/help'
            end
        case 'keys'
            __nearshare_parse_subcommand 0 'version' 'h/help'
            switch $unparsed_tokens[1]
            case 'list'
                __nearshare_parse_subcommand 0 'json' 'v' 'log-level=' 'version' 'h/help'
            case 'export'
                __nearshare_parse_subcommand 0 'output=' 'v' 'log-level=' 'version' 'h/help'
            case 'import'
                __nearshare_parse_subcommand 1 'for=' 'v' 'log-level=' 'version' 'h/help'
            case 'forget'
                __nearshare_parse_subcommand 1 'v' 'log-level=' 'version' 'h/help'
            end
        case 'identity'
            __nearshare_parse_subcommand 0 'version' 'h/help'
            switch $unparsed_tokens[1]
            case 'show'
                __nearshare_parse_subcommand 0 'json' 'v' 'log-level=' 'version' 'h/help'
            case 'qr'
                __nearshare_parse_subcommand 0 'json' 'v' 'log-level=' 'version' 'h/help'
            case 'rename'
                __nearshare_parse_subcommand 1 'v' 'log-level=' 'version' 'h/help'
            case 'destroy'
                __nearshare_parse_subcommand 0 'yes' 'v' 'log-level=' 'version' 'h/help'
            end
        case 'inbox'
            __nearshare_parse_subcommand 0 'version' 'h/help'
            switch $unparsed_tokens[1]
            case 'list'
                __nearshare_parse_subcommand 0 'inbox=' 'last=' 'paths' 'json' 'v' 'log-level=' 'version' 'h/help'
            case 'open'
                __nearshare_parse_subcommand 1 'v' 'log-level=' 'version' 'h/help'
            case 'show'
                __nearshare_parse_subcommand 1 'v' 'log-level=' 'version' 'h/help'
            case 'rm'
                __nearshare_parse_subcommand -r 1 'yes' 'v' 'log-level=' 'version' 'h/help'
            case 'clean'
                __nearshare_parse_subcommand 0 'v' 'log-level=' 'version' 'h/help'
            end
        case 'history'
            __nearshare_parse_subcommand 0 'peer=' 'limit=' 'sent' 'received' 'json' 'v' 'log-level=' 'version' 'h/help'
        case 'voice'
            __nearshare_parse_subcommand 0 'version' 'h/help'
            switch $unparsed_tokens[1]
            case 'record'
                __nearshare_parse_subcommand 0 'to=+' 'o/output=' 'input=' 'raw' 'device=' 'list-devices' 'duration=' 'bitrate=' 'rate=' 'no-trim' 'limit=' 'y/yes' 'allow-unencrypted' 'via=' 'interface=' 'adapter=' 'timeout=' 'json' 'quiet' 'v' 'log-level=' 'version' 'h/help'
            case 'play'
                __nearshare_parse_subcommand 1 'device=' 'v' 'log-level=' 'version' 'h/help'
            case 'show'
                __nearshare_parse_subcommand 1 'json' 'v' 'log-level=' 'version' 'h/help'
            case 'list'
                __nearshare_parse_subcommand 0 'json' 'v' 'log-level=' 'version' 'h/help'
            end
        case 'config'
            __nearshare_parse_subcommand 0 'inbox=' 'name=' 'accept=' 'max-size=' 'max-per-peer=' 'keep-executable' 'update' 'overwrite' 'port=' 'interface=' 'adapter=' 'json' 'v' 'log-level=' 'version' 'h/help'
        case 'notify'
            __nearshare_parse_subcommand 0 'v' 'log-level=' 'version' 'h/help'
        case 'setup'
            __nearshare_parse_subcommand 0 'v' 'log-level=' 'version' 'h/help'
        case 'doctor'
            __nearshare_parse_subcommand 0 'inbox=' 'scan' 'json' 'adapter=' 'v' 'log-level=' 'version' 'h/help'
        case 'help'
            __nearshare_parse_subcommand -r 1 'version'
        end
    end
end

function __nearshare_tokens
    if test (string split -m 1 -f 1 -- . "$FISH_VERSION") -gt 3
        commandline --tokens-raw $argv
    else
        commandline -o $argv
    end
end

function __nearshare_parse_subcommand -S -a positional_count
    argparse -s r -- $argv
    set -l option_specs $argv[2..]
    set -l is_repeating_positional $_flag_r
    set -el _flag_r
    set -a commands $unparsed_tokens[1]
    set positional_index 0
    while true
        set -e unparsed_tokens[1]
        argparse -sn "$commands" $option_specs -- $unparsed_tokens 2> /dev/null
        set unparsed_tokens $argv
        set positional_index (math $positional_index + 1)
        for non_repeating_flag_or_option in $non_repeating_flags_or_options
            if set -ql "_flag_$(string replace -a - _ -- $non_repeating_flag_or_option)"
                set non_repeating_flags_or_options_absent 1
                break
            end
        end
        test (count $unparsed_tokens) -eq 0 -o \( -z "$is_repeating_positional" -a "$positional_index" -gt "$positional_count" \) && break
    end
end

function __nearshare_complete_directories
    set -l token (commandline -t)
    string match -- '*/' $token
    set -l subdirs $token*/
    printf %s\n $subdirs
end

function __nearshare_custom_completion
    set -x SAP_SHELL fish
    set -x SAP_SHELL_VERSION $FISH_VERSION
    set -l tokens (__nearshare_tokens -p)
    if test -z "$(__nearshare_tokens -t)"
        set -l index (count (__nearshare_tokens -pc))
        set tokens $tokens[..$index] \'\' $tokens[(math $index + 1)..]
    end
    set -l begun (string replace -rf '^--[^=]+=' '' -- (commandline -ct) | string trim -l -c "'\"")
    command $tokens[1] $argv $tokens | while read -l word
        if test "$(string sub -l (string length -- "$begun") -- $word)" = "$begun"
            printf '%s\n' $word
        end
    end
end

complete -c 'nearshare' -f
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare" verbose' -l 'verbose' -d 'With --version: the build, the libraries that it finds here, and features.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare" -eq 1' -fa 'receive' -d 'Advertise this machine, and receive what peers nearby send.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare" -eq 1' -fa 'send' -d 'Send files, folders, standard input or text to a peer nearby.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare" -eq 1' -fa 'browse' -d 'List the peers nearby.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare" -eq 1' -fa 'friends' -d 'Manage friends; their files can be accepted without asking.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare" -eq 1' -fa 'chat' -d 'Chat with a peer, full-screen or through a pipe.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare" -eq 1' -fa 'message' -d 'Send a message to a peer, in or out of range, or to everyone.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare" -eq 1' -fa 'messages' -d 'List received messages.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare" -eq 1' -fa 'mesh' -d 'Run a node of the mesh: relay and store messages for others, and receive.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare" -eq 1' -fa 'peers' -d 'List known peers; verify, rename, block or forget them.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare" -eq 1' -fa 'keys' -d 'Exchange public keys, to encrypt messages for peers that are out of range.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare" -eq 1' -fa 'identity' -d 'Show, rename or destroy this machine\'s identity.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare" -eq 1' -fa 'inbox' -d 'List, open, show and remove received files.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare" -eq 1' -fa 'history' -d 'List what was sent and received.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare" -eq 1' -fa 'voice' -d 'Record, send and play voice notes.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare" -eq 1' -fa 'config' -d 'Show the settings in force, and where each comes from.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare" -eq 1' -fa 'notify' -d 'Show offers, arrivals and messages as notifications of the desktop.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare" -eq 1' -fa 'setup' -d 'Ask for a name, an inbox and who may send, and prepare this machine.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare" -eq 1' -fa 'doctor' -d 'Find the reason why peers are not found or files do not arrive.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare" -eq 1' -fa 'help' -d 'Show subcommand help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive" inbox' -l 'inbox' -d 'Directory for received files (default: the configured one, or ~/Inbox).' -rfa '(__nearshare_complete_directories)'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive" name' -l 'name' -d 'Display name of this machine (default: the configured or chosen one, or the host\'s).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive" accept' -l 'accept' -rfka 'ask friends all none'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive" accept' -l 'accept' -d 'Which invitations are accepted (default: the configured policy, or ask; with ask and no terminal, those of friends are accepted).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive" max-size' -l 'max-size' -d 'Maximum size of a transfer, such as 500MB; larger ones are declined (default: the configured one, or none).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive" max-per-peer' -l 'max-per-peer' -d 'Maximum size accepted from one peer without asking, until the program ends, such as 2GB (default: the configured one, or none).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive" keep-executable' -l 'keep-executable' -d 'Keep executable bits that the sender has set; otherwise no received file is executable.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive" update' -l 'update' -d 'Merge into folders of the same name, and replace files that are older than the received ones.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive" overwrite' -l 'overwrite' -d 'Merge into folders of the same name, and replace all files of the same path.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive" port' -l 'port' -d 'Listen on this TCP port, 0 for any free one (default: the configured one, or else 29742, or a free one when that is taken).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive" interface' -l 'interface' -d 'Network interface to use, such as wlan0 (default: the configured one, or all).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive" adapter' -l 'adapter' -d 'Bluetooth adapter to use, such as hci0, or none for no Bluetooth (default: the first that is powered on).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive" once' -l 'once' -d 'End after the first completed transfer.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive" qr' -l 'qr' -d 'Show a QR code for phones: it opens a page that sends files and texts to this machine, without an app.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive" hotspot' -l 'hotspot' -d 'With --qr: make a Wi-Fi network for the phones, with a random password, and show its QR code first. With send --to: ask a receiver that is found only over Bluetooth to use one for the transfer.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive" leave-wifi' -l 'leave-wifi' -d 'With --hotspot: do not ask before this machine leaves its Wi-Fi network and shares another connection. With receive, without --hotspot: let friends use a hotspot for a transfer without a question.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive" localsend' -l 'localsend' -d 'Receive from LocalSend as well: phones and computers with that app see this machine. Default: on a terminal.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive" no-localsend' -l 'no-localsend' -d 'Receive from LocalSend as well: phones and computers with that app see this machine. Default: on a terminal.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive" localsend-pin-file' -l 'localsend-pin-file' -d 'Require the PIN in this file from senders with LocalSend.' -rF
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive" json' -l 'json' -d 'Write one JSON event per line to standard output.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive" stdout' -l 'stdout' -d 'Write the received content to standard output instead of the inbox; ends after the first transfer.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive"' -l 'exec' -rfka '(__nearshare_custom_completion ---completion receive -- --exec (count (__nearshare_tokens -pc)) (__nearshare_tokens -tC))'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive"' -l 'exec' -d 'Run this command, with the path as its last argument, for each item that has arrived in the inbox. The rest of the command line belongs to it.' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive" no-sandbox' -l 'no-sandbox' -d 'Keep the rights to write to all of your files and to start programs.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare receive" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare send" -ge 1' -F
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send"' -l 'to' -rfka '(__nearshare_custom_completion ---completion send -- --to (count (__nearshare_tokens -pc)) (__nearshare_tokens -tC))'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send"' -l 'to' -d 'Receiver: a name, an unambiguous prefix of one, an id or fingerprint, or an address; may be repeated.' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" to-everyone' -l 'to-everyone' -d 'Send to everyone in the mesh, readable by all; needs --via mesh.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" allow-unencrypted' -l 'allow-unencrypted' -d 'Send without a question to an app of the mesh that takes only files readable by everyone who relays them.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" text' -l 'text' -d 'Send this text instead of files, or that of standard input for -.' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" as' -l 'as' -d 'File name for standard input at the receiver (default: stdin).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" links' -l 'links' -d 'Send symbolic links inside folders as links instead of leaving them out.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" keep-modes' -l 'keep-modes' -d 'Send permission bits, except set-user-ID and set-group-ID.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send"' -l 'exclude' -d 'Leave out what matches: a file name pattern, or one of a path if it contains a slash; may be repeated.' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send"' -l 'exclude-from' -d 'Leave out what matches a pattern of this file, one on each line.' -rF
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" dry-run n' -l 'dry-run' -s 'n' -d 'List what would be sent, and send nothing.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" timeout' -l 'timeout' -d 'Time to look for a receiver, and to wait for its answer, 0.1 to 600 (default: 5 to 30; for the answer, the configured time, or 30).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" retry' -l 'retry' -d 'How long to try again after the connection was lost, 0 to 86400 (default: 120).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" no-resume' -l 'no-resume' -d 'Send all of it again, whatever the receiver has of it; a lost connection ends the send.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" limit' -l 'limit' -d 'Send at most this many bytes a second, such as 500KB, to all receivers together; not over the mesh.' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" dialog' -l 'dialog' -d 'Pick the receiver in a dialog of the desktop, and report in notifications; for menus of file managers.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" qr' -l 'qr' -d 'Show a QR code: phones that scan it open a page, and get what is sent without an app.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" hotspot' -l 'hotspot' -d 'With --qr: make a Wi-Fi network for the phones, with a random password, and show its QR code first. With send --to: ask a receiver that is found only over Bluetooth to use one for the transfer.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" leave-wifi' -l 'leave-wifi' -d 'With --hotspot: do not ask before this machine leaves its Wi-Fi network and shares another connection. With receive, without --hotspot: let friends use a hotspot for a transfer without a question.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" keep' -l 'keep' -d 'With --qr: go on when the first phone has everything, until Ctrl-C.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" accept' -l 'accept' -rfka 'ask all'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" accept' -l 'accept' -d 'With --qr: ask about each browser that opens the page, or send to all (default: ask).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" pin-file' -l 'pin-file' -d 'Give the PIN in this file to a device with LocalSend that requires one.' -rF
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" via' -l 'via' -rfka 'lan bluetooth mesh'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" via' -l 'via' -d 'Transport to use: lan (a direct connection over the network), bluetooth (a direct connection to a peer in range) or mesh (relayed from neighbour to neighbour, at most 5 MiB per file). Default: the first available.' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" interface' -l 'interface' -d 'Network interface to use, such as wlan0 (default: the configured one, or all). Without --via, also chooses lan.' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" adapter' -l 'adapter' -d 'Bluetooth adapter to use, such as hci0, or none for no Bluetooth (default: the first that is powered on).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" json' -l 'json' -d 'Write one JSON event per line to standard output.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" quiet' -l 'quiet' -d 'Write errors only.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare send" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare browse" watch' -l 'watch' -d 'Keep running, and report peers that appear and disappear, until Ctrl-C.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare browse" timeout' -l 'timeout' -d 'Time to look, 0.1 to 600 (default: 2, or 8 for --via bluetooth).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare browse" via' -l 'via' -rfka 'lan bluetooth'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare browse" via' -l 'via' -d 'Look on one transport only (default: both).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare browse" scan' -l 'scan' -d 'Also probe the addresses of this machine\'s networks for LocalSend: at most 254 in each of four networks.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare browse" interface' -l 'interface' -d 'Network interface to use, such as wlan0 (default: the configured one, or all).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare browse" adapter' -l 'adapter' -d 'Bluetooth adapter to use, such as hci0, or none for no Bluetooth (default: the first that is powered on).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare browse" json' -l 'json' -d 'Write one JSON event per line to standard output.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare browse"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare browse" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare browse" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare browse" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare browse" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare friends" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare friends" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare friends" -eq 1' -fa 'list' -d 'List friends.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare friends" -eq 1' -fa 'add' -d 'Add a known peer, or a peer nearby; the peer is not asked.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare friends" -eq 1' -fa 'remove' -d 'Remove a friend; the peer stays in the address book.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare friends list" json' -l 'json' -d 'Write one JSON event per line to standard output.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare friends list"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare friends list" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare friends list" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare friends list" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare friends list" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare friends add" -eq 1' -fka '(__nearshare_custom_completion ---completion friends add -- positional@0 (count (__nearshare_tokens -pc)) (__nearshare_tokens -tC))'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare friends add" unverified' -l 'unverified' -d 'Do not ask for confirmation when the key is not verified.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare friends add" interface' -l 'interface' -d 'Network interface to use, such as wlan0 (default: the configured one, or all).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare friends add" adapter' -l 'adapter' -d 'Bluetooth adapter to use, such as hci0, or none for no Bluetooth (default: the first that is powered on).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare friends add"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare friends add" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare friends add" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare friends add" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare friends add" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare friends remove" -eq 1' -fka '(__nearshare_custom_completion ---completion friends remove -- positional@0 (count (__nearshare_tokens -pc)) (__nearshare_tokens -tC))'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare friends remove"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare friends remove" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare friends remove" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare friends remove" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare friends remove" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare chat" -eq 1' -fka '(__nearshare_custom_completion ---completion chat -- positional@0 (count (__nearshare_tokens -pc)) (__nearshare_tokens -tC))'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare chat" public' -l 'public' -d 'Chat in the public room, which everyone in range can read.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare chat" wait' -l 'wait' -rfka 'none sent delivered'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare chat" wait' -l 'wait' -d 'With a pipe: end when all lines are sent (the default) or delivered; or none.' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare chat" timeout' -l 'timeout' -d 'With a pipe: time to wait for that, 0.1 to 600 (default: 30).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare chat" follow' -l 'follow' -d 'With a pipe: keep running after the last line, and show new messages, until Ctrl-C.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare chat" history' -l 'history' -d 'With a pipe or in plain lines: start with this number of earlier lines, 0 to 500 (default: 0, or 10 in plain lines).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare chat" json' -l 'json' -d 'Write one JSON event per line to standard output, and read lines from standard input.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare chat" quiet' -l 'quiet' -d 'Do not ring the bell for messages in other conversations.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare chat" interface' -l 'interface' -d 'Network interface to use, such as wlan0 (default: the configured one, or all).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare chat" adapter' -l 'adapter' -d 'Bluetooth adapter to use, such as hci0, or none for no Bluetooth (default: the first that is powered on).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare chat" no-sandbox' -l 'no-sandbox' -d 'Keep the rights to write to all of your files and to start programs.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare chat"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare chat" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare chat" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare chat" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare chat" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare message" json' -l 'json' -d 'Send this JSON value instead of a text, with bytes as {"$base64": "…"}.' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare message" to' -l 'to' -rfka '(__nearshare_custom_completion ---completion message -- --to (count (__nearshare_tokens -pc)) (__nearshare_tokens -tC))'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare message" to' -l 'to' -d 'Receiver: a name, an unambiguous prefix of one, or an id.' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare message" broadcast' -l 'broadcast' -d 'Send the message to every node that is reached; everyone can read it.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare message" mode' -l 'mode' -rfka 'direct mesh full broadcast'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare message" mode' -l 'mode' -d 'Routing: direct (only to a receiver in range), mesh (relayed by other nodes) or full (direct if the receiver is in range, otherwise by the mesh; the default).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare message" file' -l 'file' -d 'Attach a file of at most 5 MiB, in mode direct.' -rF
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare message" unencrypted' -l 'unencrypted' -d 'Do not encrypt the message: every node that relays it can read it.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare message" private' -l 'private' -d 'Hide sender and receiver from the nodes that relay it.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare message" wait' -l 'wait' -rfka 'none sent delivered'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare message" wait' -l 'wait' -d 'Event to wait for: sent (another node has accepted the message; the default), delivered, or none.' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare message" timeout' -l 'timeout' -d 'Time to look for the receiver, and to wait, 0.1 to 600 (default: 10; for the answer to a file, the configured timeout, or 30).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare message" interface' -l 'interface' -d 'Network interface to use, such as wlan0 (default: the configured one, or all).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare message" adapter' -l 'adapter' -d 'Bluetooth adapter to use, such as hci0, or none for no Bluetooth (default: the first that is powered on).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare message" no-sandbox' -l 'no-sandbox' -d 'Keep the rights to write to all of your files and to start programs.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare message"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare message" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare message" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare message" require-session' -l 'require-session' -d 'Send only if there is a Noise session with the receiver that has not expired.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare message" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare message" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare messages" follow' -l 'follow' -d 'Keep running, and show new messages, until Ctrl-C.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare messages" after' -l 'after' -d 'Only messages after this number, as in the events of --json.' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare messages" json' -l 'json' -d 'Write one JSON event per line to standard output.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare messages" interface' -l 'interface' -d 'Network interface to use, such as wlan0 (default: the configured one, or all).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare messages" adapter' -l 'adapter' -d 'Bluetooth adapter to use, such as hci0, or none for no Bluetooth (default: the first that is powered on).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare messages" no-sandbox' -l 'no-sandbox' -d 'Keep the rights to write to all of your files and to start programs.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare messages"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare messages" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare messages" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare messages" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare messages" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare mesh" -eq 1' -fa 'run' -d 'Run a node in the foreground.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare mesh" -eq 1' -fa 'status' -d 'Show the state of this machine\'s node.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare mesh" -eq 1' -fa 'trace' -d 'Follow a packet or bundle through this machine\'s node.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare mesh" -eq 1' -fa 'stop' -d 'Shut down this machine\'s node.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh run" profile' -l 'profile' -rfka '(__nearshare_custom_completion ---completion mesh run -- --profile (count (__nearshare_tokens -pc)) (__nearshare_tokens -tC))'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh run" profile' -l 'profile' -d 'Limits on distance and lifetime of messages: standard, high-density, sparse, long-reach, short-reach, or a profile of the configuration (default: the configured one, or standard).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh run" inbox' -l 'inbox' -d 'Directory for received files (default: the configured one, or ~/Inbox).' -rfa '(__nearshare_complete_directories)'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh run" name' -l 'name' -d 'Display name of this machine (default: the configured or chosen one, or the host\'s).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh run" accept' -l 'accept' -rfka 'ask friends all none'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh run" accept' -l 'accept' -d 'Which invitations are accepted (default: the configured policy, or ask; with ask and no terminal, those of friends are accepted).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh run" max-size' -l 'max-size' -d 'Maximum size of a transfer, such as 500MB; larger ones are declined (default: the configured one, or none).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh run" max-per-peer' -l 'max-per-peer' -d 'Maximum size accepted from one peer without asking, until the program ends, such as 2GB (default: the configured one, or none).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh run" keep-executable' -l 'keep-executable' -d 'Keep executable bits that the sender has set; otherwise no received file is executable.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh run" update' -l 'update' -d 'Merge into folders of the same name, and replace files that are older than the received ones.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh run" overwrite' -l 'overwrite' -d 'Merge into folders of the same name, and replace all files of the same path.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh run" port' -l 'port' -d 'Listen on this TCP port, 0 for any free one (default: the configured one, or else 29742, or a free one when that is taken).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh run" interface' -l 'interface' -d 'Network interface to use, such as wlan0 (default: the configured one, or all).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh run" adapter' -l 'adapter' -d 'Bluetooth adapter to use, such as hci0, or none for no Bluetooth (default: the first that is powered on).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh run" json' -l 'json' -d 'Write one JSON event per line to standard output.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh run" no-sandbox' -l 'no-sandbox' -d 'Keep the rights to write to all of your files and to start programs.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh run"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh run" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh run" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh run" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh run" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh status" json' -l 'json' -d 'Write one JSON event per line to standard output.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh status"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh status" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh status" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh status" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh status" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh trace" json' -l 'json' -d 'Write one JSON event per line to standard output.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh trace"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh trace" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh trace" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh trace" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh trace" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh stop"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh stop" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh stop" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh stop" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare mesh stop" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare peers" -eq 1' -fa 'list' -d 'List known peers.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare peers" -eq 1' -fa 'verify' -d 'Verify a peer\'s key by comparing the short code, or with a link from the peer\'s QR code.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare peers" -eq 1' -fa 'rename' -d 'Give a peer a local name, which no other peer can claim.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare peers" -eq 1' -fa 'block' -d 'Block a peer: receive nothing more from it.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare peers" -eq 1' -fa 'unblock' -d 'Unblock a peer.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare peers" -eq 1' -fa 'forget' -d 'Remove a peer and its keys; it is new the next time.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers list" json' -l 'json' -d 'Write one JSON event per line to standard output.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers list"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers list" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers list" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers list" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers list" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare peers verify" -eq 1' -fka '(__nearshare_custom_completion ---completion peers verify -- positional@0 (count (__nearshare_tokens -pc)) (__nearshare_tokens -tC))'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers verify" no-sandbox' -l 'no-sandbox' -d 'Keep the rights to write to all of your files and to start programs.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers verify"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers verify" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers verify" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers verify" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers verify" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare peers rename" -eq 1' -fka '(__nearshare_custom_completion ---completion peers rename -- positional@0 (count (__nearshare_tokens -pc)) (__nearshare_tokens -tC))'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers rename"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers rename" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers rename" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers rename" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers rename" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare peers block" -eq 1' -fka '(__nearshare_custom_completion ---completion peers block -- positional@0 (count (__nearshare_tokens -pc)) (__nearshare_tokens -tC))'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers block"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers block" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers block" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers block" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers block" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare peers unblock" -eq 1' -fka '(__nearshare_custom_completion ---completion peers unblock -- positional@0 (count (__nearshare_tokens -pc)) (__nearshare_tokens -tC))'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers unblock"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers unblock" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers unblock" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers unblock" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers unblock" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare peers forget" -eq 1' -fka '(__nearshare_custom_completion ---completion peers forget -- positional@0 (count (__nearshare_tokens -pc)) (__nearshare_tokens -tC))'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers forget"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers forget" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers forget" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers forget" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare peers forget" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare keys" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare keys" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare keys" -eq 1' -fa 'list' -d 'List known keys.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare keys" -eq 1' -fa 'export' -d 'Write the public keys of this machine, for import on another machine.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare keys" -eq 1' -fa 'import' -d 'Import a peer\'s public keys, so that messages can be encrypted for it.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare keys" -eq 1' -fa 'forget' -d 'Remove a peer\'s keys; messages for it wait until it is met again.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare keys list" json' -l 'json' -d 'Write one JSON event per line to standard output.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare keys list"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare keys list" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare keys list" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare keys list" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare keys list" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare keys export" output' -l 'output' -d 'Write to this new file (default: standard output).' -rF
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare keys export"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare keys export" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare keys export" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare keys export" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare keys export" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare keys import" -eq 1' -F
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare keys import" for' -l 'for' -rfka '(__nearshare_custom_completion ---completion keys import -- --for (count (__nearshare_tokens -pc)) (__nearshare_tokens -tC))'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare keys import" for' -l 'for' -d 'Owner of the keys: the name of a known peer, whose key must match; a new name; or an id, which must match.' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare keys import"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare keys import" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare keys import" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare keys import" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare keys import" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare keys forget" -eq 1' -fka '(__nearshare_custom_completion ---completion keys forget -- positional@0 (count (__nearshare_tokens -pc)) (__nearshare_tokens -tC))'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare keys forget"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare keys forget" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare keys forget" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare keys forget" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare keys forget" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare identity" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare identity" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare identity" -eq 1' -fa 'show' -d 'Show name, id and fingerprint.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare identity" -eq 1' -fa 'qr' -d 'Show a QR code by which peers, also phones that run bitchat, verify this machine\'s key.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare identity" -eq 1' -fa 'rename' -d 'Set the display name of this machine.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare identity" -eq 1' -fa 'destroy' -d 'Remove the keys and all stored state, after a confirmation.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare identity show" json' -l 'json' -d 'Write one JSON event per line to standard output.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare identity show"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare identity show" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare identity show" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare identity show" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare identity show" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare identity qr" json' -l 'json' -d 'Write one JSON event per line to standard output.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare identity qr"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare identity qr" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare identity qr" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare identity qr" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare identity qr" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare identity rename"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare identity rename" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare identity rename" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare identity rename" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare identity rename" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare identity destroy" yes' -l 'yes' -d 'Do not ask for confirmation.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare identity destroy"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare identity destroy" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare identity destroy" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare identity destroy" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare identity destroy" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare inbox" -eq 1' -fa 'list' -d 'List received files, and files that wait for the inbox.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare inbox" -eq 1' -fa 'open' -d 'Open a received item with the program for its type.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare inbox" -eq 1' -fa 'show' -d 'Show a received picture in the terminal.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare inbox" -eq 1' -fa 'rm' -d 'Remove received items from the disk and from the list; the history keeps its lines.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare inbox" -eq 1' -fa 'clean' -d 'Remove the records of items that are gone, also from the history; no file is touched.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox list" inbox' -l 'inbox' -d 'Inbox whose waiting files are listed (default: the configured one, or ~/Inbox).' -rfa '(__nearshare_complete_directories)'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox list" last' -l 'last' -d 'List only this number of items, those received last (default: all).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox list" paths' -l 'paths' -d 'Write only the paths of items that are still there, one on each line.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox list" json' -l 'json' -d 'Write one JSON event per line to standard output.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox list"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox list" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox list" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox list" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox list" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare inbox open" -eq 1' -fka '(__nearshare_custom_completion ---completion inbox open -- positional@0 (count (__nearshare_tokens -pc)) (__nearshare_tokens -tC))'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox open"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox open" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox open" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox open" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox open" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare inbox show" -eq 1' -fka '(__nearshare_custom_completion ---completion inbox show -- positional@0 (count (__nearshare_tokens -pc)) (__nearshare_tokens -tC))'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox show"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox show" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox show" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox show" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox show" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare inbox rm" -ge 1' -fka '(__nearshare_custom_completion ---completion inbox rm -- positional@0 (count (__nearshare_tokens -pc)) (__nearshare_tokens -tC))'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox rm" yes' -l 'yes' -d 'Do not ask for confirmation.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox rm"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox rm" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox rm" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox rm" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox rm" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox clean"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox clean" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox clean" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox clean" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare inbox clean" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare history" peer' -l 'peer' -rfka '(__nearshare_custom_completion ---completion history -- --peer (count (__nearshare_tokens -pc)) (__nearshare_tokens -tC))'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare history" peer' -l 'peer' -d 'List transfers with this peer only: a name, an unambiguous prefix of one, or an id.' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare history" limit' -l 'limit' -d 'List only this number of transfers, the latest (default: 50, or all with --json).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare history" sent' -l 'sent' -d 'List only what was sent.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare history" received' -l 'received' -d 'List only what was received.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare history" json' -l 'json' -d 'Write one JSON event per line to standard output.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare history"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare history" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare history" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare history" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare history" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare voice" -eq 1' -fa 'record' -d 'Record a voice note; the default subcommand.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare voice" -eq 1' -fa 'play' -d 'Play a voice note.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare voice" -eq 1' -fa 'show' -d 'Show length, bit rate, size and waveform of a voice note, without decoding the audio.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare voice" -eq 1' -fa 'list' -d 'List received, sent and kept voice notes, the newest last.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice record"' -l 'to' -rfka '(__nearshare_custom_completion ---completion voice record -- --to (count (__nearshare_tokens -pc)) (__nearshare_tokens -tC))'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice record"' -l 'to' -d 'Receiver: a name, an unambiguous prefix of one, an id or fingerprint, or an address; may be repeated.' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice record" o output' -l 'output' -s 'o' -d 'File for the note, instead of a dated name in the voice directory.' -rF
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice record" input' -l 'input' -d 'Encode this file instead of recording: WAV, FLAC, MP3, Ogg, M4A or AAC, or raw samples; - is standard input.' -rF
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice record" raw' -l 'raw' -d 'The input has no header: one channel, 16 bits, little-endian, at --rate.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice record" device' -l 'device' -d 'Record from this device; alsa:NAME selects an ALSA device.' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice record" list-devices' -l 'list-devices' -d 'List the devices for recording and playback.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice record" duration' -l 'duration' -d 'Maximum length, 0.1 seconds to a day, such as 90 or 1:30 (default: none).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice record" bitrate' -l 'bitrate' -d 'Bit rate in kbit/s, 6 to 256 (default: 24).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice record" rate' -l 'rate' -d 'Sample rate in Hz, 8000 to 192000 (default: 16000).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice record" no-trim' -l 'no-trim' -d 'Keep the silence at both ends.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice record" limit' -l 'limit' -d 'Maximum size of the note, such as 5MiB, at least 16KiB; the remaining time is shown (default: what the connection takes).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice record" y yes' -l 'yes' -s 'y' -d 'Send the note without a review.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice record" allow-unencrypted' -l 'allow-unencrypted' -d 'Send without a question to an app of the mesh that takes only files readable by everyone who relays them.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice record" via' -l 'via' -rfka 'lan bluetooth mesh'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice record" via' -l 'via' -d 'Transport to use: lan (a direct connection over the network), bluetooth (a direct connection to a peer in range) or mesh (relayed from neighbour to neighbour, at most 5 MiB per file). Default: the first available.' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice record" interface' -l 'interface' -d 'Network interface to use, such as wlan0 (default: the configured one, or all). Without --via, also chooses lan.' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice record" adapter' -l 'adapter' -d 'Bluetooth adapter to use, such as hci0, or none for no Bluetooth (default: the first that is powered on).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice record" timeout' -l 'timeout' -d 'Time to look for a receiver, and to wait for its answer, 0.1 to 600 (default: 5 to 30; for the answer, the configured time, or 30).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice record" json' -l 'json' -d 'Write one JSON event per line to standard output.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice record" quiet' -l 'quiet' -d 'Write errors only.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice record"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice record" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice record" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice record" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice record" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare voice play" -eq 1' -Fka '(__nearshare_custom_completion ---completion voice play -- positional@0 (count (__nearshare_tokens -pc)) (__nearshare_tokens -tC))'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice play" device' -l 'device' -d 'Play on this device; alsa:NAME selects an ALSA device.' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice play"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice play" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice play" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice play" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice play" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_positional "nearshare voice show" -eq 1' -Fka '(__nearshare_custom_completion ---completion voice show -- positional@0 (count (__nearshare_tokens -pc)) (__nearshare_tokens -tC))'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice show" json' -l 'json' -d 'Write one JSON event per line to standard output.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice show"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice show" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice show" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice show" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice show" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice list" json' -l 'json' -d 'Write one JSON event per line to standard output.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice list"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice list" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice list" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice list" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare voice list" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare config" inbox' -l 'inbox' -d 'Directory for received files (default: the configured one, or ~/Inbox).' -rfa '(__nearshare_complete_directories)'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare config" name' -l 'name' -d 'Display name of this machine (default: the configured or chosen one, or the host\'s).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare config" accept' -l 'accept' -rfka 'ask friends all none'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare config" accept' -l 'accept' -d 'Which invitations are accepted (default: the configured policy, or ask; with ask and no terminal, those of friends are accepted).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare config" max-size' -l 'max-size' -d 'Maximum size of a transfer, such as 500MB; larger ones are declined (default: the configured one, or none).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare config" max-per-peer' -l 'max-per-peer' -d 'Maximum size accepted from one peer without asking, until the program ends, such as 2GB (default: the configured one, or none).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare config" keep-executable' -l 'keep-executable' -d 'Keep executable bits that the sender has set; otherwise no received file is executable.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare config" update' -l 'update' -d 'Merge into folders of the same name, and replace files that are older than the received ones.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare config" overwrite' -l 'overwrite' -d 'Merge into folders of the same name, and replace all files of the same path.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare config" port' -l 'port' -d 'Listen on this TCP port, 0 for any free one (default: the configured one, or else 29742, or a free one when that is taken).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare config" interface' -l 'interface' -d 'Network interface to use, such as wlan0 (default: the configured one, or all).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare config" adapter' -l 'adapter' -d 'Bluetooth adapter to use, such as hci0, or none for no Bluetooth (default: the first that is powered on).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare config" json' -l 'json' -d 'Write one JSON event per line to standard output.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare config"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare config" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare config" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare config" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare config" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare notify"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare notify" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare notify" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare notify" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare notify" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare setup"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare setup" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare setup" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare setup" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare setup" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare doctor" inbox' -l 'inbox' -d 'Inbox to check (default: the configured one, or ~/Inbox).' -rfa '(__nearshare_complete_directories)'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare doctor" scan' -l 'scan' -d 'Also probe the addresses of this machine\'s networks for LocalSend: at most 254 in each of four networks.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare doctor" json' -l 'json' -d 'Write one JSON event per line to standard output.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare doctor" adapter' -l 'adapter' -d 'Bluetooth adapter to use, such as hci0, or none for no Bluetooth (default: the first that is powered on).' -rfka ''
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare doctor"' -s 'v' -d 'Log info messages (-v), debug messages (-vv) or trace messages (-vvv).'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare doctor" log-level' -l 'log-level' -rfka 'error warning info debug trace'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare doctor" log-level' -l 'log-level' -d 'Lowest level that is logged on standard error (default: warning).' -rf
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare doctor" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare doctor" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'nearshare' -n '__nearshare_should_offer_completions_for_flags_or_options "nearshare help" version' -l 'version' -d 'Show the version.'
complete -c 'nearshare' -n 'test (commandline -opc | string join " ") = "nearshare help"' -fa 'receive send browse friends chat message messages mesh peers keys identity inbox history voice config notify setup doctor'
complete -c 'nearshare' -n 'test (commandline -opc | string join " ") = "nearshare help friends"' -fa 'list add remove'
complete -c 'nearshare' -n 'test (commandline -opc | string join " ") = "nearshare help mesh"' -fa 'run status trace stop'
complete -c 'nearshare' -n 'test (commandline -opc | string join " ") = "nearshare help peers"' -fa 'list verify rename block unblock forget'
complete -c 'nearshare' -n 'test (commandline -opc | string join " ") = "nearshare help keys"' -fa 'list export import forget'
complete -c 'nearshare' -n 'test (commandline -opc | string join " ") = "nearshare help identity"' -fa 'show qr rename destroy'
complete -c 'nearshare' -n 'test (commandline -opc | string join " ") = "nearshare help inbox"' -fa 'list open show rm clean'
complete -c 'nearshare' -n 'test (commandline -opc | string join " ") = "nearshare help voice"' -fa 'record play show list'
complete -c 'nearshare' -n '__nearshare_is_behind_exec' -F
