internal import ArgumentParser
internal import Glibc

/// Shell completion of the name of a program. The shell's own lists its functions and aliases as well, which no other process can
/// start.
enum ProgramCompletion {
    @Sendable static func completions(_ arguments: [String], _ index: Int, _ prefix: String) -> [String] {
        programs(beginningWith: prefix, in: getenv("PATH").map { String(cString: $0) } ?? "")
    }

    /// - Parameter path: folders, separated by colons.
    /// - Returns: the names of the executable files in the folders, in ascending order.
    static func programs(beginningWith prefix: String, in path: String) -> [String] {
        var names = Set<String>()
        for folder in path.split(separator: ":") {
            guard let directory = opendir(String(folder)) else { continue }
            defer { closedir(directory) }
            while let entry = readdir(directory) {
                let name = withUnsafePointer(to: &entry.pointee.d_name) { tuple in
                    tuple.withMemoryRebound(to: CChar.self, capacity: MemoryLayout.size(ofValue: tuple.pointee)) {
                        String(cString: $0)
                    }
                }
                // A shell would give a meaning to characters of other names (T8).
                guard name.hasPrefix(prefix), PeerArgument.isPlainWord(name), !names.contains(name) else { continue }
                var status = stat()
                let path = "\(folder)/\(name)"
                if stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG, access(path, X_OK) == 0 { names.insert(name) }
            }
        }
        return names.sorted()
    }
}
