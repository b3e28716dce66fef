internal import CNearshareShims
internal import Glibc
internal import NearshareInterfaces

/// Restricts what this process can do from now on, and for good: with Landlock what it can change in the file system, with
/// seccomp which system calls it can make. Reasons and limits are in docs/decisions/confined-process.md.
package enum Confinement {
    /// Refuses the system calls that no node needs, in all threads: programs, tracing, mounts, namespaces, and rarely used
    /// interfaces of the kernel.
    /// - Returns: the reason why this is not possible; nil when it is done.
    package static func restrictSystemCalls() -> String? {
        if let problem = nearshare_load_seccomp() {
            return "\(String(cString: problem)); install it (Debian: libseccomp2)"
        }
        let code = nearshare_filter_node_calls()
        return code == 0 ? nil : systemErrorText(code)
    }

    /// Refuses to write, create and remove anything outside the given paths, to execute any file, to control devices, and to
    /// reach processes outside. Reading stays allowed. Covers the calling thread and those that it starts: call it while there
    /// is one.
    /// - Parameters:
    ///   - paths: directories with all below. Those that are missing, or are no directories, are left out: nothing can be written
    ///     there.
    ///   - devices: devices, and directories of them. Missing ones are left out.
    /// - Returns: the reason why this is not possible; nil when it is done.
    package static func restrictFiles(toWriting paths: [String], usingDevices devices: [String] = []) -> String? {
        guard let threadCount else { return "the threads of this process cannot be counted" }
        guard threadCount == 1 else { return "this process has several threads" }
        guard let rights = LandlockRights(version: nearshare_landlock_version())?.deniedToNode else {
            return "this kernel has no Landlock, or one that cannot move files between directories"
        }
        return restrict(
            rights, allowing: paths.map { ($0, rights.allowedInDirectory) } + devices.map { ($0, rights.allowedOnDevice) })
    }

    /// Takes all rights from this process, except to use the descriptors that it holds: no file, no program, no network. Covers
    /// the calling thread, which must be the only one. What the kernel or the machine lacks is left out.
    /// - Parameter beforeFilter: called after the last descriptor was opened, and before the last system call is refused.
    /// - Returns: whether nothing failed that the kernel and the machine have.
    static func removeRights(beforeFilter: () -> Void) -> Bool {
        let hasFilter = nearshare_load_seccomp() == nil
        var isDone = true
        if let rights = LandlockRights(version: nearshare_landlock_version()) {
            isDone = restrict(rights, allowing: []) == nil
        }
        beforeFilter()
        if hasFilter, nearshare_filter_worker_calls() != 0 { isDone = false }
        return isDone
    }

    /// Prepares this process to execute a program that decodes what peers have written. The program can read what it needs to start,
    /// and the file; it can change no file, open no socket, start no process, and reach none. Covers the calling thread, which must
    /// be the only one.
    /// - Parameter file: a descriptor, which the program may also open again.
    /// - Returns: false where the kernel or the machine lacks a part of this: then the program must not be executed.
    static func restrictProgram(reading file: Int32) -> Bool {
        guard nearshare_load_seccomp() == nil, let rights = LandlockRights(version: nearshare_landlock_version()) else {
            return false
        }
        let files = programFiles + ["/proc/self/fd/\(file)"]
        let rules: [(path: String, access: UInt64)] =
            programDirectories.map { ($0, rights.allowedInProgramDirectory) }
            + files.map { ($0, rights.allowedOnReadFile) }
        return restrict(rights, allowing: rules) == nil && nearshare_filter_program_calls() == 0
    }

    /// The directories of programs, their libraries, data and settings. The rest of /etc, which may contain secrets, is left out.
    private static let programDirectories = [
        "/usr", "/bin", "/lib", "/lib32", "/lib64", "/etc/ImageMagick-6", "/etc/ImageMagick-7",
    ]
    /// The list of libraries that ld.so(8) reads.
    private static let programFiles = ["/etc/ld.so.cache"]

    private static func restrict(_ rights: LandlockRights, allowing rules: [(path: String, access: UInt64)]) -> String? {
        let ruleset = nearshare_landlock_create(rights.files, rights.network, rights.scopes)
        guard ruleset >= 0 else { return systemErrorText() }
        defer { close(ruleset) }
        for rule in rules {
            let descriptor = nearshare_open_path(rule.path)
            guard descriptor >= 0 else { continue }
            defer { close(descriptor) }
            // The kernel refuses rights on directories for any other file, and then nothing would be restricted.
            guard rule.access & ~rights.applicableToFiles == 0 || isDirectory(descriptor) else { continue }
            guard nearshare_landlock_allow(ruleset, descriptor, rule.access) == 0 else { return systemErrorText() }
        }
        return nearshare_landlock_restrict(ruleset) == 0 ? nil : systemErrorText()
    }

    private static func isDirectory(_ descriptor: Int32) -> Bool {
        var status = stat()
        return fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
    }

    /// The number of threads of this process; nil when it is not known.
    package static var threadCount: Int? {
        guard let directory = opendir("/proc/self/task") else { return nil }
        defer { closedir(directory) }
        var count = 0
        // The entries "." and ".." are not threads.
        while readdir(directory) != nil { count += 1 }
        return count - 2
    }
}

/// The access rights of landlock(7) that a version of the kernel's interface knows.
struct LandlockRights {
    var files: UInt64
    var network: UInt64 = 0
    var scopes: UInt64 = 0

    private static let execute: UInt64 = 1 << 0
    private static let writeFile: UInt64 = 1 << 1
    private static let readFile: UInt64 = 1 << 2
    private static let readDirectory: UInt64 = 1 << 3
    private static let removeDirectory: UInt64 = 1 << 4
    private static let removeFile: UInt64 = 1 << 5
    private static let makeCharacterDevice: UInt64 = 1 << 6
    private static let makeDirectory: UInt64 = 1 << 7
    private static let makeRegularFile: UInt64 = 1 << 8
    private static let makeSocket: UInt64 = 1 << 9
    private static let makeFIFO: UInt64 = 1 << 10
    private static let makeBlockDevice: UInt64 = 1 << 11
    private static let makeSymbolicLink: UInt64 = 1 << 12
    private static let moveBetweenDirectories: UInt64 = 1 << 13
    private static let truncate: UInt64 = 1 << 14
    private static let controlDevice: UInt64 = 1 << 15
    private static let bindAndConnectTCP: UInt64 = 1 << 0 | 1 << 1
    private static let abstractSocketsAndSignals: UInt64 = 1 << 0 | 1 << 1

    /// - Parameter version: 1 refuses to move a file to another directory, which is how items reach the inbox.
    /// - Returns: nil for a version that cannot be used.
    init?(version: Int32) {
        guard version >= 2 else { return nil }
        files = (1 << 14) - 1
        if version >= 3 { files |= Self.truncate }
        if version >= 4 { network = Self.bindAndConnectTCP }
        if version >= 5 { files |= Self.controlDevice }
        if version >= 6 { scopes = Self.abstractSocketsAndSignals }
    }

    /// The rights that a node loses outside its directories. It opens any port and reads the files that the user sends.
    var deniedToNode: LandlockRights {
        var rights = self
        rights.files &= ~(Self.readFile | Self.readDirectory)
        rights.network = 0
        return rights
    }

    /// The rights below a directory that a node may change.
    var allowedInDirectory: UInt64 {
        files & ~(Self.execute | Self.makeCharacterDevice | Self.makeBlockDevice | Self.makeFIFO | Self.controlDevice)
    }

    /// The rights on a device that a node may use.
    var allowedOnDevice: UInt64 { files & (Self.writeFile | Self.truncate | Self.controlDevice) }

    /// The rights below a directory from which a program starts.
    var allowedInProgramDirectory: UInt64 { Self.execute | Self.readFile | Self.readDirectory }

    /// The right on a file that a program may read.
    var allowedOnReadFile: UInt64 { Self.readFile }

    /// The rights that a rule for a file, or a device, can have.
    var applicableToFiles: UInt64 { Self.execute | Self.readFile | allowedOnDevice }
}
