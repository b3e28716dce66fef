internal import ArgumentParser
internal import Glibc
internal import Nearshare
internal import NearshareService

/// A peer as named on the command line: a name, a prefix of one, an id or an address.
enum PeerArgument {
    /// - Returns: the text; an address without a port with the default one.
    /// - Throws: a `ValidationError` for a text that names no peer: an empty one, usually an unset variable, would be a prefix
    ///   of every name.
    @Sendable static func validated(_ text: String) throws -> String {
        if text.allSatisfy(\.isWhitespace) { throw ValidationError("the peer's name is empty") }
        guard isHostAddress(text) else {
            if let port = port(behindAddressIn: text), UInt16(port).map({ $0 == 0 }) ?? true {
                throw ValidationError(
                    "\(TerminalText.escaped(text)) names no peer: behind an address and a colon, a port from 1 to 65535 is expected"
                )
            }
            return text
        }
        return "\(text.contains(":") ? "[\(text)]" : text):\(Node.defaultPort)"
    }

    /// The peers without repetitions.
    static func unique(_ peers: [String]) -> [String] {
        var named = Set<String>()
        return peers.filter { named.insert($0.lowercased()).inserted }
    }

    /// Shell completion: recently seen peers.
    @Sendable static func completions(_ arguments: [String], _ index: Int, _ prefix: String) -> [String] {
        guard let state = try? LocalMachine().state, let recent = try? RecentPeers.read(in: state) else { return [] }
        return recent.entries.map { completion($0.name, $0.id) }
    }

    /// The word that a shell offers for a peer: its name, or its id where a shell would give a character of the name a meaning
    /// (T8). bash expands offered words, and no shell quotes what it inserts.
    static func completion(_ name: DisplayName, _ id: PeerID) -> String {
        isPlainWord(name.claimed) ? name.claimed : id.hex
    }

    /// Whether the text consists of letters, digits, and characters that no shell gives a meaning in the middle of a word.
    static func isPlainWord(_ text: String) -> Bool {
        guard let first = text.unicodeScalars.first, first != "-" else { return false }
        return text.unicodeScalars.allSatisfy { scalar in
            switch scalar.properties.generalCategory {
            case .lowercaseLetter, .uppercaseLetter, .titlecaseLetter, .otherLetter, .decimalNumber: true
            default: scalar == "-" || scalar == "_" || scalar == "."
            }
        }
    }

    /// The text behind a numeric address and a colon; nil for any other text.
    private static func port(behindAddressIn text: String) -> Substring? {
        guard let colon = text.lastIndex(of: ":") else { return nil }
        var host = text[..<colon]
        let isBracketed = host.hasPrefix("[") && host.hasSuffix("]")
        if isBracketed { host = host.dropFirst().dropLast() }
        guard isHostAddress(String(host)), isBracketed || !host.contains(":") else { return nil }
        return text[text.index(after: colon)...]
    }

    private static func isHostAddress(_ text: String) -> Bool {
        var address = in6_addr()
        let host = text.split(separator: "%", maxSplits: 1).first.map(String.init) ?? text
        return [AF_INET, AF_INET6].contains { inet_pton($0, host, &address) == 1 }
    }
}
