package import NearshareBase
internal import NearshareDiscovery
package import NearshareInterfaces
internal import NearshareStorage

extension LocalMachine {
    /// Chooses the name for good, and writes the other settings to the configuration. What is nil stays as it is, and is not
    /// written: a later default applies.
    /// - Parameters:
    ///   - inbox: a path that begins with `/` or `~`.
    ///   - accept: the name of a policy.
    package func configure(name: DisplayName?, inbox: String?, accept: String?) throws(StorageError) {
        var settings: [(key: String, value: String)] = []
        if let inbox { settings.append((key: "inbox", value: inbox)) }
        if let accept { settings.append((key: "accept", value: accept)) }
        if let name {
            // A name in the configuration takes precedence over the chosen one.
            if configuration.name != nil { settings.append((key: "name", value: name.claimed)) }
            try rename(to: name)
        }
        guard !settings.isEmpty else { return }
        try Configuration.change(path: directories.configurationFile, settings: settings)
    }

    /// The commands that open the firewall in use for nearshare; none where no firewall is known to run.
    package var firewallCommands: [[String]] {
        switch NetworkDiagnosis.firewallTool() {
        case .ufw: [["sudo", "ufw", "allow", "nearshare"]]
        case .firewalld:
            [
                ["sudo", "firewall-cmd", "--permanent", "--add-service=nearshare"], ["sudo", "firewall-cmd", "--reload"],
            ]
        case nil: []
        }
    }
}
