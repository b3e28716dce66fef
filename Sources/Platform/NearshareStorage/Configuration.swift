package import NearshareBase
package import NearshareInterfaces

/// `config.toml`: what a person wants without saying it on every command line.
package struct Configuration: Sendable, Hashable {
    package enum Accept: String, Sendable, Hashable, CaseIterable {
        case ask, friends, all, none
    }

    package var name: DisplayName?
    package var inbox: String?
    package var accept: Accept?
    package var maximumSize: UInt64?
    /// Bytes that are taken from each peer without asking.
    package var maximumPerPeer: UInt64?
    package var port: UInt16?
    package var interface: String?
    /// How long an invitation waits for an answer.
    package var timeout: Duration?
    /// How far messages go: a profile's name, one of nearshare's or of ``profiles``.
    package var profile: String?
    /// Profiles that the person has put together, by their names.
    package var profiles: [String: Profile] = [:]
    /// How long a session with a single peer in the mesh counts as secure.
    package var sessionLifetime: Duration?

    /// Numbers as they stand there; nil for those that are as in the standard profile.
    package struct Profile: Sendable, Hashable {
        package var hopLimit: Int?
        /// Seconds.
        package var timeToLive: Int?
        /// Milliseconds.
        package var sharingTime: Int?
        package var maximumPropagation: Int?
        package var tracklistLimit: Int?

        /// - Returns: nil for a name that no setting has.
        fileprivate static func place(_ key: Substring) -> WritableKeyPath<Profile, Int?>? {
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

    /// Reads the file, if there is one.
    /// - Parameter home: what a leading `~/` in a path stands for.
    /// - Throws: naming the key that is wrong.
    package static func read(path: String, home: String? = nil) throws(StorageError) -> Configuration {
        let bytes: [UInt8]
        do throws(StorageError) {
            bytes = try FileDescriptor.openForReading(path: path).readAll(limit: maximumByteCount)
        } catch {
            if error.code == .notFound { return Configuration() }
            throw error
        }
        do {
            var configuration = try Configuration(toml: String(decoding: bytes, as: UTF8.self))
            if let home, let inbox = configuration.inbox, inbox == "~" || inbox.hasPrefix("~/") {
                configuration.inbox = home + inbox.dropFirst()
            }
            return configuration
        } catch {
            throw StorageError(.failed, "\(shown(path)): \(error)")
        }
    }

    /// Why a configuration can't be used.
    package struct Invalid: Error, Sendable, Hashable, CustomStringConvertible {
        package let description: String
    }

    package init(toml text: String) throws(Invalid) {
        let document: TOMLDocument
        do {
            document = try TOMLDocument(text)
        } catch {
            throw Invalid(description: "not valid TOML: \(TerminalText.escaped(error.reason, columns: 200))")
        }
        for (key, value) in document.entries {
            do {
                try take(key, value)
            } catch {
                throw Invalid(description: "\(TerminalText.escaped(key)): \(error)")
            }
        }
    }

    private mutating func take(_ key: String, _ value: TOMLDocument.Value) throws {
        func string() throws -> String {
            guard case .text(let text) = value else { throw Invalid(description: "a text in quotes is expected") }
            return text
        }
        var integer: Int64? { if case .integer(let number) = value { number } else { nil } }
        func size() throws -> UInt64 {
            let number = integer.flatMap { UInt64(exactly: $0) }
            guard let size = try number ?? ByteSize.parse(try string()) else {
                throw Invalid(description: "a size such as \"500 MB\" or \"2 GiB\" is expected")
            }
            return size
        }
        switch key {
        case "name": name = try DisplayName(try string())
        case "inbox": inbox = try string()
        case "accept":
            guard let policy = Accept(rawValue: try string()) else {
                throw Invalid(description: "one of ask, friends, all, none is expected")
            }
            accept = policy
        case "max-size": maximumSize = try size()
        case "max-per-peer": maximumPerPeer = try size()
        case "port":
            guard let number = integer, let port = UInt16(exactly: number) else {
                throw Invalid(description: "a number from 0 to 65535 is expected")
            }
            self.port = port
        case "interface": interface = try string()
        case "timeout":
            guard let seconds = integer, (1...600).contains(seconds) else {
                throw Invalid(description: "a number of seconds from 1 to 600 is expected")
            }
            timeout = .seconds(seconds)
        case "profile": profile = try string()
        case "session-lifetime":
            guard let seconds = integer, (60...604_800).contains(seconds) else {
                throw Invalid(description: "a number of seconds from 60 to 604800 is expected")
            }
            sessionLifetime = .seconds(seconds)
        default:
            let words = key.split(separator: ".", omittingEmptySubsequences: false)
            guard words.count == 3, words[0] == "profiles", !words[1].isEmpty,
                let place = Profile.place(words[2])
            else { throw Invalid(description: "there is no such setting; nearshare(5) lists them") }
            guard let number = integer.flatMap({ Int(exactly: $0) }) else {
                throw Invalid(description: "a whole number is expected")
            }
            profiles[String(words[1]), default: Profile()][keyPath: place] = number
        }
    }
}

/// Sizes as people write them: `1500`, `500 MB`, `1.5GiB`.
package enum ByteSize {
    /// - Returns: nil for what is no size, or more than can be counted.
    package static func parse(_ text: String) -> UInt64? {
        let trimmed = text.drop { $0 == " " }
        let number = trimmed.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
        let unit = trimmed.dropFirst(number.count).filter { $0 != " " }.lowercased()
        guard let factor = factor(of: unit) else { return nil }
        if let whole = UInt64(number) {
            let (bytes, overflow) = whole.multipliedReportingOverflow(by: UInt64(factor))
            return overflow ? nil : bytes
        }
        guard let value = Double(number), value >= 0 else { return nil }
        return UInt64(exactly: (value * factor).rounded())
    }

    private static func factor(of unit: String) -> Double? {
        switch unit {
        case "", "b": 1
        case "k", "kb": 1e3
        case "m", "mb": 1e6
        case "g", "gb": 1e9
        case "t", "tb": 1e12
        case "kib": 1024
        case "mib": 1_048_576
        case "gib": 1_073_741_824
        case "tib": 1_099_511_627_776
        default: nil
        }
    }
}
