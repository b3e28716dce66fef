package import NearshareBase
package import NearshareInterfaces

/// The user's settings in `config.toml`, which command-line options override.
package struct Configuration: Sendable, Hashable {
    package enum Accept: String, Sendable, Hashable, CaseIterable {
        case ask, friends, all, none
    }

    /// A protocol by which peers are found and served.
    package enum PeerProtocol: String, Sendable, Hashable, CaseIterable {
        case nearshare, localsend
    }

    package var name: DisplayName?
    package var inbox: String?
    package var accept: Accept?
    package var maximumSize: UInt64?
    /// Limit on the bytes that are accepted from each peer without asking.
    package var maximumPerPeer: UInt64?
    /// Whether received files keep the executable bits that the sender has set.
    package var keepsExecutable = false
    /// nil for the default of the program.
    package var existing: ExistingFilePolicy?
    /// Whether authors learn that their lines were read.
    package var sendsReadReceipts = true
    /// The lifetime of the lines of conversations for which the user has set none; nil where lines stay.
    package var messageLifetime: MessageLifetime?
    /// Whether `nearshare notify` shows notifications.
    package var notifications = true
    /// The protocols by which peers are found and served; nil for the default.
    package var protocols: Set<PeerProtocol>?
    package var port: UInt16?
    package var interface: String?
    /// The time after which an invitation times out.
    package var timeout: Duration?
    /// The propagation profile of messages: the name of a standard profile or of one in ``profiles``.
    package var profile: String?
    /// The user's own profiles by name.
    package var profiles: [String: Profile] = [:]
    /// The lifetime of a Noise session with a peer in the mesh.
    package var sessionLifetime: Duration?
    /// The commands that open received items, by media types such as "image/png" or "image/*".
    package var openers: [String: [String]] = [:]
    /// The lines of the file on which settings stand, by their full names.
    package internal(set) var lines: [String: Int] = [:]

    /// The settings of a profile; nil for the standard profile's value.
    package struct Profile: Sendable, Hashable {
        package var hopLimit: Int?
        /// Seconds.
        package var timeToLive: Int?
        /// Milliseconds.
        package var sharingTime: Int?
        package var maximumPropagation: Int?
        package var tracklistLimit: Int?

        /// - Returns: nil for an unknown setting.
        fileprivate static func setting(_ key: Substring) -> WritableKeyPath<Profile, Int?>? {
            switch key {
            case "hop-limit": \.hopLimit
            case "time-to-live": \.timeToLive
            case "sharing-time": \.sharingTime
            case "maximum-propagation": \.maximumPropagation
            case "tracklist-limit": \.tracklistLimit
            default: nil
            }
        }
    }

    private static let maximumByteCount = 1 << 20

    package init() {}

    /// Reads the file; the default settings when it does not exist.
    /// - Parameter home: the replacement for a leading `~/` in paths.
    /// - Throws: an error that names the invalid settings, and their lines.
    package static func read(path: String, home: String? = nil) throws(StorageError) -> Configuration {
        let bytes: [UInt8]
        do throws(StorageError) {
            let file = try FileDescriptor.openForReading(path: path)
            let status = try file.status()
            guard !status.isFolder else { throw StorageError(.rejected, "\(shown(path)) is a folder") }
            // A FIFO without a writer would count as an empty file, as /dev/null should.
            guard status.isFile || status.isCharacterDevice else {
                throw StorageError(.rejected, "\(shown(path)) is not a file")
            }
            bytes = try file.read(upTo: maximumByteCount + 1)
        } catch {
            // A link that leads nowhere was made for a file that the user misses.
            if error.code == .notFound, LocalPath(path).linkTarget == nil { return Configuration() }
            throw error
        }
        guard bytes.count <= maximumByteCount else {
            throw StorageError(.rejected, "\(shown(path)) is larger than 1 MiB, which is no configuration")
        }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
            let index = lines.firstIndex { String(validating: $0, as: UTF8.self) == nil } ?? 0
            throw StorageError(.failed, "\(shown(path)): line \(index + 1): not UTF-8")
        }
        do {
            var configuration = try Configuration(toml: text)
            if let home {
                configuration.inbox = configuration.inbox.map { Directories.expanding($0, home: home) }
                configuration.openers = configuration.openers.mapValues { words in
                    words.map { Directories.expanding($0, home: home) }
                }
            }
            return configuration
        } catch {
            throw StorageError(.failed, "\(shown(path)):\(error.description.hasPrefix("\n") ? "" : " ")\(error)")
        }
    }

    /// Invalid settings.
    package struct Invalid: Error, Sendable, Hashable, CustomStringConvertible {
        package let description: String

        init(description: String) { self.description = description }

        /// - Parameter problems: at least one.
        fileprivate init(_ problems: [TOMLDocument.Problem]) {
            let lines = problems.sorted { $0.line < $1.line }.map { "line \($0.line): \($0.text)" }
            description = lines.count == 1 ? lines[0] : lines.map { "\n  \($0)" }.joined()
        }
    }

    package init(toml text: String) throws(Invalid) {
        let document = TOMLDocument(text)
        var problems = document.problems
        for (key, value, line) in document.entries {
            do {
                try set(key, to: value)
                lines[key.hasPrefix("open.") ? key.lowercased() : key] = line
            } catch {
                problems.append(TOMLDocument.Problem(line: line, text: "\(TerminalText.escaped(key)): \(error)"))
            }
        }
        guard problems.isEmpty else { throw Invalid(problems) }
    }

    /// The command that opens items of a type: for the type itself, for all of its kind, or for all.
    /// - Returns: nil where none is configured.
    package func opener(for type: String?) -> [String]? {
        guard let type = type?.lowercased(), let kind = type.pathComponents.first else { return openers["*/*"] }
        return openers[type] ?? openers["\(kind)/*"] ?? openers["*/*"]
    }

    private mutating func set(_ key: String, to value: TOMLDocument.Value) throws {
        func string() throws -> String {
            guard case .text(let text) = value else { throw Invalid(description: "expected a string in quotes") }
            return text
        }
        func flag() throws -> Bool {
            guard case .flag(let isOn) = value else { throw Invalid(description: "expected true or false") }
            return isOn
        }
        var integer: Int64? { if case .integer(let number) = value { number } else { nil } }
        func size() throws -> UInt64 {
            if let number = integer.flatMap({ UInt64(exactly: $0) }) { return number }
            if case .text(let text) = value, let size = ByteSize.parse(text) { return size }
            throw Invalid(description: "expected a size such as \"500 MB\" or \"2 GiB\"")
        }
        switch key {
        case "name": name = try DisplayName(try string())
        case "inbox":
            let path = try string()
            guard path.hasPrefix("/") || path == "~" || path.hasPrefix("~/") else {
                throw Invalid(description: "expected a path that begins with / or ~/")
            }
            inbox = path
        case "accept":
            guard let policy = Accept(rawValue: try string()) else {
                throw Invalid(description: "expected one of ask, friends, all, none")
            }
            accept = policy
        case "max-size": maximumSize = try size()
        case "max-per-peer": maximumPerPeer = try size()
        case "existing":
            let word = try string()
            guard let policy = ExistingFilePolicy.allCases.first(where: { $0.word == word }) else {
                throw Invalid(description: "expected one of keep-both, skip-identical, update, overwrite")
            }
            existing = policy
        case "keep-executable": keepsExecutable = try flag()
        case "read-receipts": sendsReadReceipts = try flag()
        case "message-lifetime":
            let text = try string()
            messageLifetime = MessageLifetime(text)
            guard messageLifetime != nil || text == "off" else {
                throw Invalid(
                    description: "expected \"off\", or a time from \"1m\" to \"365d\", such as \"10m\", \"1h\" or \"7d\"")
            }
        case "notifications": notifications = try flag()
        case "protocols":
            guard case .texts(let words) = value, case let known = words.compactMap({ PeerProtocol(rawValue: $0) }),
                known.count == words.count, known.contains(.nearshare)
            else { throw Invalid(description: "expected [\"nearshare\"] or [\"nearshare\", \"localsend\"]") }
            protocols = Set(known)
        case "port":
            guard let number = integer, let port = UInt16(exactly: number) else {
                throw Invalid(description: "expected a number from 0 to 65535")
            }
            self.port = port
        case "interface": interface = try string()
        case "timeout":
            guard let seconds = integer, (1...600).contains(seconds) else {
                throw Invalid(description: "expected a number of seconds from 1 to 600")
            }
            timeout = .seconds(seconds)
        case "profile": profile = try string()
        case "session-lifetime":
            guard let seconds = integer, (60...604_800).contains(seconds) else {
                throw Invalid(description: "expected a number of seconds from 60 to 604800")
            }
            sessionLifetime = .seconds(seconds)
        case let key where key.hasPrefix("open."):
            let words = try string().split(whereSeparator: \.isWhitespace).map(String.init)
            guard !words.isEmpty else { throw Invalid(description: "expected a command, such as \"feh --fullscreen\"") }
            let type = key.dropFirst("open.".count).lowercased()
            guard type.split(atScalar: "/", omittingEmpty: false).count == 2 else {
                throw Invalid(description: "expected a media type, such as \"image/png\" or \"image/*\"")
            }
            openers[type] = words
        default:
            let words = key.split(separator: ".", omittingEmptySubsequences: false)
            guard words.count == 3, words[0] == "profiles", !words[1].isEmpty,
                let setting = Profile.setting(words[2])
            else { throw Invalid(description: "unknown setting; nearshare(5) lists all") }
            guard let number = integer.flatMap({ Int(exactly: $0) }) else {
                throw Invalid(description: "expected a whole number")
            }
            profiles[String(words[1]), default: Profile()][keyPath: setting] = number
        }
    }
}
