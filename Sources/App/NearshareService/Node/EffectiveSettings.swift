internal import Glibc
package import Nearshare
internal import NearshareBundles

/// The settings in force, and where each comes from.
package struct EffectiveSettings: Sendable {
    package enum Origin: Sendable, Hashable {
        case `default`
        /// - Parameter line: of the configuration file.
        case file(path: String, line: Int)
        case environment(variable: String)
        case option
        /// Chosen by a command, and kept in the state directory.
        case state
    }

    package struct Setting: Sendable, Hashable {
        package var name: String
        /// The value in the form that the configuration file expects; nil for none.
        package var value: String?
        package var origin: Origin
    }

    package private(set) var settings: [Setting] = []
    /// Sentences about settings that are well-formed but cannot be used: they name something that does not exist, or something that no
    /// node supports. Each sentence begins with the file or option, and the setting.
    package private(set) var problems: [String] = []

    private let configuration: Configuration
    private let path: String

    package init(of machine: LocalMachine, options: NodeOptions, environment: [String: String]) throws {
        configuration = machine.configuration
        path = machine.directories.configurationFile
        let own = try machine.name()
        let isChosen = configuration.name == nil && own != LocalMachine.hostName
        add("name", options.name?.claimed, default: own.claimed)
        if isChosen, options.name == nil { settings[0].origin = .state }
        add("inbox", options.inbox, configuration.inbox, default: machine.directories.defaultInbox)
        add(
            "accept", options.accept?.rawValue, configuration.accept?.rawValue,
            default: "ask (without a terminal, not about friends)")
        add("max-size", options.maximumSize.map(String.init), configuration.maximumSize.map(String.init), default: nil)
        add(
            "max-per-peer", options.maximumPerPeer.map(String.init), configuration.maximumPerPeer.map(String.init), default: nil
        )
        add(
            "keep-executable", options.keepsExecutable ? "true" : nil, "\(configuration.keepsExecutable)", default: "false")
        add("read-receipts", nil, "\(configuration.sendsReadReceipts)", default: "true")
        add("message-lifetime", nil, configuration.messageLifetime?.text, default: "off")
        add("notifications", nil, "\(configuration.notifications)", default: "true")
        add(
            "existing", options.existing?.word, configuration.existing?.word, default: ExistingFilePolicy.skipIdentical.word)
        add(
            "protocols", nil, configuration.protocols.map { $0.map(\.rawValue).sorted(by: >).joined(separator: ", ") },
            default: "nearshare, localsend")
        add("port", options.port.map(String.init), configuration.port.map { "\($0)" }, default: "\(Node.defaultPort)")
        add("interface", options.interface, configuration.interface, default: nil)
        add("timeout", nil, default: "\(configuration.answerTimeout(nil).components.seconds)")
        add("profile", nil, configuration.profile, default: PropagationProfile.standardName)
        let lifetime = configuration.sessionLifetime ?? NodeSettings.defaultMeshSessionLifetime
        add("session-lifetime", nil, default: "\(lifetime.components.seconds)")
        addProfiles()
        findProblems(of: machine, interface: options.interface, inbox: options.inbox)
        for (type, words) in configuration.openers.sorted(by: { $0.key < $1.key }) {
            add("open.\(type)", nil, words.joined(separator: " "), default: nil)
        }
        let directories = machine.directories
        for (name, directory, variable) in [
            ("configuration directory", directories.configuration, "XDG_CONFIG_HOME"),
            ("state directory", directories.state, "XDG_STATE_HOME"), ("data directory", directories.data, "XDG_DATA_HOME"),
            ("run-time directory", directories.runtime, "XDG_RUNTIME_DIR"),
        ] {
            // Relative paths are ignored.
            let isSet = environment[variable]?.hasPrefix("/") == true
            settings.append(
                Setting(name: name, value: directory, origin: isSet ? .environment(variable: variable) : .default))
        }
    }

    private mutating func add(_ name: String, _ option: String?, _ configured: String? = nil, default value: String?) {
        if let option {
            settings.append(Setting(name: name, value: option, origin: .option))
        } else if let line = configuration.lines[name] {
            settings.append(Setting(name: name, value: configured ?? value, origin: .file(path: path, line: line)))
        } else {
            settings.append(Setting(name: name, value: value, origin: .default))
        }
    }

    private mutating func findProblems(of machine: LocalMachine, interface option: String?, inbox: String?) {
        if let option, if_nametoindex(option) == 0 {
            problems.append("--interface: \(MissingInterface.text(for: option))")
        }
        do throws(StorageError) {
            if option == nil { try machine.requireConfiguredInterface() }
        } catch {
            problems.append(error.description)
        }
        do throws(StorageError) {
            try machine.requireInbox(inbox)
        } catch {
            problems.append((inbox == nil ? "" : "--inbox: ") + error.description)
        }
        var profiles: [String?] = configuration.profiles.keys.sorted()
        if configuration.profile.map({ configuration.profiles[$0] == nil }) ?? false { profiles.insert(nil, at: 0) }
        for profile in profiles {
            do throws(StorageError) {
                _ = try machine.propagationProfile(profile)
            } catch {
                problems.append(error.description)
            }
        }
    }

    private mutating func addProfiles() {
        for (name, profile) in configuration.profiles.sorted(by: { $0.key < $1.key }) {
            let values = [
                ("hop-limit", profile.hopLimit), ("time-to-live", profile.timeToLive), ("sharing-time", profile.sharingTime),
                ("maximum-propagation", profile.maximumPropagation), ("tracklist-limit", profile.tracklistLimit),
            ]
            for (key, value) in values {
                guard let value, let line = configuration.lines["profiles.\(name).\(key)"] else { continue }
                settings.append(
                    Setting(name: "profiles.\(name).\(key)", value: "\(value)", origin: .file(path: path, line: line)))
            }
        }
    }
}
