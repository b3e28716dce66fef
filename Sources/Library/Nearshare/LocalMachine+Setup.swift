package import NearshareBase
internal import NearshareDiscovery
package import NearshareInterfaces
internal import NearshareStorage

extension LocalMachine {
    /// Chooses the name for good, and writes the other settings to the configuration.
    /// - Parameters:
    ///   - name: nil to keep it.
    ///   - inbox: a path that begins with `/` or `~`.
    ///   - accept: the name of a policy.
    package func configure(name: DisplayName?, inbox: String, accept: String) throws(StorageError) {
        var settings = [(key: "inbox", value: inbox), (key: "accept", value: accept)]
        if let name {
            // A name in the configuration takes precedence over the chosen one.
            if configuration.name != nil { settings.append((key: "name", value: name.claimed)) }
            try rename(to: name)
        }
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
