internal import ArgumentParser
internal import Glibc
internal import Nearshare
internal import NearshareService

/// A peer as named on the command line: a name, a prefix of one, an id or an address.
enum PeerArgument {
    /// The help of an option that names the receivers of a transfer.
    static var receiverHelp: ArgumentHelp {
        ArgumentHelp(
            "Receiver: a name, an unambiguous prefix of one, an id or fingerprint, or an address; may be repeated.",
            valueName: "peer")
    }

    /// - Returns: the text itself, but an address without a port gets the default one, and the beginning of a known peer's id becomes
    ///   the complete id.
    /// - Throws: a `ValidationError` for a text that names no peer: an empty one, usually an unset variable, would be a prefix
    ///   of every name.
    @Sendable static func validated(_ text: String) throws -> String {
        if text.allSatisfy(\.isWhitespace) { throw ValidationError("the peer's name is empty") }
        guard let host = hostAddress(text) else {
            if let port = port(afterAddressIn: text), UInt16(port).map({ $0 == 0 }) ?? true {
                throw ValidationError(
                    "\(TerminalText.escaped(text)) names no peer: after an address and a colon, a port from 1 to 65535 is expected"
                )
            }
            return try completeID(of: text)
        }
        return "\(host.contains(":") ? "[\(host)]" : host):\(Node.defaultPort)"
    }

    private static func completeID(of text: String) throws -> String {
        do {
            return try ContactDirectory(LocalMachine()).wholeID(of: text)
        } catch let failure as ControlFailure {
            throw ValidationError(failure.description)
        } catch {
            // Where the files cannot be read, the command says so.
            return text
        }
    }

    /// The peers without repetitions.
    static func unique(_ peers: [String]) -> [String] {
        var named = Set<String>()
        return peers.filter { named.insert($0.lowercased()).inserted }
    }

    /// Shell completion: the peers in range of the running node, those that were seen lately, and those that the user knows.
    @Sendable static func completions(_ arguments: [String], _ index: Int, _ prefix: String) -> [String] {
        guard let machine = try? LocalMachine() else { return [] }
        let trust = (try? machine.trust.read()) ?? TrustStore()
        let near = ContactQuery.contacts(of: machine, timeout: nodeTimeout).filter(\.isNear).map { ($0.name, $0.id) }
        let seen = ((try? RecentPeers.read(in: machine.state))?.entries ?? []).map { entry in
            (trust.shownName(claiming: entry.id, named: entry.name), entry.id)
        }
        let known = trust.entries.map { ($0.value.name, $0.key.peerID) }.sorted { $0.0.claimed < $1.0.claimed }
        let blocked = trust.entries.filter { $0.value.trust == .blocked }.keys.map(\.peerID)
        let offered = words(
            for: (near + seen + known).filter { !blocked.contains($0.1) }, trust, shell: CompletionShell.requesting)
        return offered + renamed(prefix, besides: offered, trust, shell: CompletionShell.requesting)
    }

    /// Shell completion: the peers that the user knows.
    @Sendable static func knownCompletions(_ arguments: [String], _ index: Int, _ prefix: String) -> [String] {
        guard let trust = try? LocalMachine().trust.read() else { return [] }
        return words(for: trust.entries.map { ($0.value.name, $0.key.peerID) }, trust, shell: CompletionShell.requesting)
            .sorted()
    }

    /// The words for peers that the user has renamed, and whose own names begin with the typed text, where no other word does. A
    /// space in front tells the scripts of bash and zsh that the word replaces the typed one. fish keeps what is typed, and gets
    /// the peer's own name, with the new one beside it.
    static func renamed(
        _ typed: String, besides words: [String], _ trust: TrustStore, shell: CompletionShell?
    ) -> [String] {
        // zsh passes the option in front of an equals sign as well.
        let value = typed.hasPrefix("--") ? typed.drop { $0 != "=" }.dropFirst() : typed[...]
        let begun = value.lowercased()
        guard shell == .bash || shell == .zsh || shell == .fish, !begun.isEmpty,
            !words.contains(where: { $0.lowercased().hasPrefix(begun) })
        else { return [] }
        let found = trust.entries.filter { _, entry in
            entry.givenName != nil && entry.trust != .blocked && entry.claimedName.claimed.lowercased().hasPrefix(begun)
        }
        if shell == .fish {
            let own = found.values.filter { isQuotable($0.claimedName.claimed) && isQuotable($0.name.claimed) }
            return own.map { "\($0.claimedName.claimed)\t\($0.name.claimed)" }.sorted()
        }
        return self.words(for: found.map { ($0.value.name, $0.key.peerID) }, trust).sorted().map { " \($0)" }
    }

    /// The time that completion waits for the running node, which replies within milliseconds.
    private static let nodeTimeout = Duration.milliseconds(250)

    /// The words for peers: names, or ids of peers whose name selects another one, or several.
    /// - Parameter shell: shows the name beside an id, if it can.
    static func words(
        for peers: [(name: DisplayName, id: PeerID)], _ trust: TrustStore, shell: CompletionShell? = nil
    ) -> [String] {
        var ids = Set<PeerID>()
        let peers = peers.filter { ids.insert($0.id).inserted }
        let sharing = Dictionary(grouping: peers) { $0.name.claimed.lowercased() }
        let separator: String? = shell == .zsh ? ":" : shell == .fish ? "\t" : nil
        return peers.map { peer in
            let isShared = sharing[peer.name.claimed.lowercased()].map { $0.count > 1 } ?? false
            let trusted = isShared ? trust.trustedPeers(named: peer.name.claimed) : []
            let isMeant = !isShared || (trusted.count == 1 && trusted.first?.id == peer.id)
            guard isQuotable(peer.name.claimed) else { return peer.id.hex }
            return isMeant ? peer.name.claimed : peer.id.hex + (separator.map { $0 + peer.name.claimed } ?? "")
        }
    }

    /// The word for a peer in advice, which the user may copy into a shell: its name, or its id where a shell would give a
    /// character of the name a meaning (T8).
    static func wordForAdvice(_ name: DisplayName, _ id: PeerID) -> String {
        isPlainWord(name.claimed) ? name.claimed : id.hex
    }

    /// Whether the scripts of all shells quote the text as one word: what a shell would expand within quotation marks, and what
    /// separates a word from its description, is left out.
    static func isQuotable(_ text: String) -> Bool {
        guard let first = text.unicodeScalars.first, let last = text.unicodeScalars.last, first != "-", first != "~",
            first != " ", last != " "
        else { return false }
        return text.unicodeScalars.allSatisfy(isQuotableScalar)
    }

    /// Whether the scripts of all shells quote a character inside a word.
    private static func isQuotableScalar(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .lowercaseLetter, .uppercaseLetter, .titlecaseLetter, .otherLetter, .modifierLetter, .decimalNumber,
            .nonspacingMark, .spacingMark, .otherSymbol:
            true
        default: " '’-_.,()&+#@".unicodeScalars.contains(scalar)
        }
    }

    /// Whether the script of a shell quotes the text as one word.
    static func isQuotable(_ text: String, for shell: CompletionShell?) -> Bool {
        isQuotable(text) || shell == .bash && isQuotable(inBash: text)
    }

    /// Whether the script of bash quotes the text as one word. It escapes each character that the shell would expand; a colon and an
    /// equals sign separate words for its completion.
    private static func isQuotable(inBash text: String) -> Bool {
        guard let first = text.unicodeScalars.first, first != "-", first != " " else { return false }
        return text.unicodeScalars.allSatisfy { scalar in
            scalar != ":" && scalar != "=" && ((0x20...0x7e).contains(scalar.value) || isQuotableScalar(scalar))
        }
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

    /// The text after a numeric address and a colon; nil for any other text.
    private static func port(afterAddressIn text: String) -> Substring? {
        guard let colon = text.lastIndex(of: ":") else { return nil }
        let host = String(text[..<colon])
        guard let address = hostAddress(host), host.hasPrefix("[") || !address.contains(":") else { return nil }
        return text[text.index(after: colon)...]
    }

    /// The numeric address that a text consists of, without brackets and with its zone; nil for any other text.
    private static func hostAddress(_ text: String) -> String? {
        var host = text
        let isBracketed = text.hasPrefix("[") && text.hasSuffix("]")
        if isBracketed { host = String(text.dropFirst().dropLast()) }
        let parts = host.split(separator: "%", maxSplits: 1, omittingEmptySubsequences: false)
        var address = in6_addr()
        let families = isBracketed || parts.count > 1 ? [AF_INET6] : [AF_INET, AF_INET6]
        guard parts.count == 1 || !parts[1].isEmpty,
            families.contains(where: { inet_pton($0, String(parts[0]), &address) == 1 })
        else { return nil }
        return host
    }
}
