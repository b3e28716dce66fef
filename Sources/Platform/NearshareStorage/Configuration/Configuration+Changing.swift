internal import FoundationEssentials
internal import NearshareBase
package import NearshareInterfaces

extension Configuration {
    /// Changes settings in the file, which is created if it does not exist. Everything else in it stays as it is.
    /// - Parameter settings: bare keys and strings.
    /// - Throws: ``StorageError`` when the file is not valid before or after the change; then nothing is written.
    package static func change(
        path: String, settings: [(key: String, value: String)]
    ) throws(StorageError) {
        let before = try read(path: path)
        var text = ConfigurationText((try? String(contentsOfFile: path, encoding: .utf8)) ?? "")
        for (key, value) in settings { text.set(key, to: value) }
        do {
            // Settings that were not named stay as they are.
            var expected = try Configuration(toml: text.text)
            for (key, _) in settings { expected.copy(key, from: before) }
            guard expected.isEqual(to: before) else { throw Invalid(description: "its layout is not understood") }
        } catch {
            throw StorageError(
                .failed, "\(TerminalText.escaped(path, columns: 400)) could not be changed: \(error); edit it by hand")
        }
        let folder = path.split(separator: "/").dropLast().joined(separator: "/")
        do {
            try FileManager.default.createDirectory(atPath: "/\(folder)", withIntermediateDirectories: true)
            try Data(text.text.utf8).write(to: URL(filePath: path), options: .atomic)
        } catch {
            throw StorageError(
                .failed, "\(TerminalText.escaped(path, columns: 400)) could not be written: check the permissions")
        }
    }

    private mutating func copy(_ key: String, from other: Configuration) {
        switch key {
        case "name": name = other.name
        case "inbox": inbox = other.inbox
        case "accept": accept = other.accept
        default: break
        }
    }

    /// Whether all settings are equal, wherever they stand in the file.
    private func isEqual(to other: Configuration) -> Bool {
        var other = other
        other.lines = lines
        return self == other
    }
}
