internal import Glibc
package import Nearshare

/// The transport to a peer.
package enum Transport: String, Sendable, Hashable, CaseIterable, Codable {
    // The raw values are those of `--via`.
    case network = "lan"
    case bluetooth
    case mesh

    package init(_ medium: LinkAddress.Medium) {
        self =
            switch medium {
            case .network: .network
            case .bluetooth: .bluetooth
            }
    }

    /// The media on which peers are searched for.
    /// - Parameter transport: nil for the best available one.
    package static func media(for transport: Transport?) -> Set<LinkAddress.Medium> {
        switch transport {
        // The mesh is joined apart; on the network its neighbours are found.
        case .network, .mesh: [.network]
        case .bluetooth: [.bluetooth]
        case nil: [.network, .bluetooth]
        }
    }
}

extension LinkAddress {
    /// Parses an address with a port: `192.168.1.20:4000`, `[fe80::1%eth0]:4000`, `anna.local:4000`.
    package init?(parsing text: String) {
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]), port > 0 else {
            return nil
        }
        var host = String(text[..<colon])
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = String(host.dropFirst().dropLast())
        } else if host.contains(":") {
            // An IPv6 address without a port.
            return nil
        }
        guard !host.isEmpty else { return nil }
        self.init(host: host, port: port)
    }

    /// Refuses a link-local address without its interface, and one whose interface does not exist: nothing can connect there.
    func requireZone() throws(CommandFailure) {
        let parts = host.split(separator: "%", maxSplits: 1)
        guard medium == .network, let first = parts.first, IPAddress(text: String(first))?.needsZone == true else { return }
        guard parts.count == 2 else {
            throw CommandFailure(
                .usage,
                "\(TerminalText.escaped(host)) is a link-local address, which needs the interface of this machine: "
                    + "[\(TerminalText.escaped(host))%eth0]:\(port); `ip link` lists the interfaces")
        }
        let zone = String(parts[1])
        guard UInt32(zone) != nil || if_nametoindex(zone) != 0 else {
            throw CommandFailure(.usage, MissingInterface.text(for: zone))
        }
    }
}
