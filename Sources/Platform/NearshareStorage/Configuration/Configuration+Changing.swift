internal import FoundationEssentials
internal import Glibc
internal import NearshareBase
package import NearshareInterfaces

extension Configuration {
    /// Changes settings in the file, which is created for its owner alone if it does not exist. Everything else in it stays as
    /// it is.
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
        do {
            try replace(path, with: Array(text.text.utf8))
        } catch {
            throw StorageError(
                .failed, "\(TerminalText.escaped(path, columns: 400)) could not be written: check the permissions")
        }
    }

    /// Replaces the file, or the one that it links to, as a whole. Its permissions stay.
    private static func replace(_ path: String, with bytes: [UInt8]) throws {
        var target = path
        if let real = realpath(path, nil) {
            defer { free(real) }
            target = String(cString: real)
        }
        let folder = AbsolutePath.parent(of: target)
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let directory = try FileDescriptor.openDirectory(path: folder)
        let name = target.pathComponents.last ?? ""
        let mode = try directory.status(of: name).map { $0.st_mode & 0o777 } ?? 0o600
        let temporaryName = ".\(name).new"
        directory.unlink(temporaryName)
        guard let file = try directory.createFile(temporaryName) else { throw StorageError(EEXIST, "could not create a file") }
        try file.write(bytes)
        guard fchmod(file.rawValue, mode) == 0, fsync(file.rawValue) == 0,
            renameat(directory.rawValue, temporaryName, directory.rawValue, name) == 0
        else { throw StorageError(errno, "could not replace the file") }
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
