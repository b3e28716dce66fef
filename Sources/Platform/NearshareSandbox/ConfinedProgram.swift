internal import CNearshareShims
internal import Glibc
package import NearshareInterfaces

/// A program of this machine that decodes a file of a peer. It runs in a process without rights, which reads the file and what it
/// needs to start, and writes to one socket. Reasons and limits are in docs/decisions/confined-process.md.
package struct ConfinedProgram: Sendable {
    /// The paths at which the program may be; the first one that can be executed is used.
    private let paths: [String]
    private let environment: [String]

    /// The path at which the program opens its file.
    package static let filePath = "/proc/self/fd/0"

    /// Bytes of memory that the program may have, with its libraries.
    private static let memoryLimit: rlim_t = 512 << 20
    private static let descriptorLimit: rlim_t = 64
    /// Limit on the bytes of a request.
    private static let maximumRequestByteCount = 16

    /// - Parameters:
    ///   - paths: the paths at which the program may be.
    ///   - environment: its variables, each as `NAME=value`.
    package init(paths: [String], environment: [String]) {
        self.paths = paths
        self.environment = environment
    }

    /// Whether the program is installed.
    package var isInstalled: Bool { paths.contains { access($0, X_OK) == 0 } }

    /// How the program has ended: the last byte that the worker sends, behind the output.
    package enum Ending: Sendable, Hashable {
        case exited(UInt8)
        /// The kernel or the machine cannot confine it.
        case notConfined
        case notStarted

        package init(byte: UInt8) {
            self = byte == Self.notConfinedStatus ? .notConfined : byte == Self.notStartedStatus ? .notStarted : .exited(byte)
        }

        fileprivate static let notConfinedStatus: UInt8 = 125
        fileprivate static let notStartedStatus: UInt8 = 127
    }

    /// The job of a worker: reads a request to its end, runs the program with the passed file as standard input and the socket as
    /// standard output, and sends a byte for its ``Ending``.
    /// - Parameters:
    ///   - timeout: time of the program, in whole seconds. A worker that was ended then sends no byte.
    ///   - arguments: makes the words behind the program's name from the request, which a compromised node may have written.
    package func routine(
        timeout: Duration, arguments: @escaping @Sendable (_ request: [UInt8]) -> [String]
    ) -> WorkerRoutine {
        WorkerRoutine(isConfined: false, timeout: timeout) { socket, file in
            {
                guard let file else { return }
                var request = [UInt8](repeating: 0, count: Self.maximumRequestByteCount)
                guard let count = request.withUnsafeMutableBytes({ try? DescriptorIO.read(into: $0, from: socket) }) else {
                    return
                }
                let words = arguments(Array(request[..<count]))
                // The helper ignores it, and the status of a child would be lost.
                signal(SIGCHLD, SIG_DFL)
                let worker = getpid()
                let child = nearshare_fork()
                if child == 0 { become(words, reading: file, writing: socket, timeout: timeout, endingWith: worker) }
                guard child > 0 else { return }
                var status: Int32 = 0
                while waitpid(child, &status, 0) < 0 { guard errno == EINTR else { return } }
                let number = status & 0x7f
                let code = number == 0 ? (status >> 8) & 0xff : 128 + number
                try? DescriptorIO.sendAll([UInt8(truncatingIfNeeded: code)], to: socket)
            }
        }
    }

    /// Confines this process, which is forked for this, and executes the program.
    private func become(
        _ words: [String], reading file: Int32, writing socket: Int32, timeout: Duration, endingWith worker: pid_t
    ) -> Never {
        // The terminal of the user is out of reach.
        setsid()
        guard dup2(file, STDIN_FILENO) >= 0, dup2(socket, STDOUT_FILENO) >= 0, nearshare_end_with_parent(worker) == 0,
            Confinement.restrictProgram(reading: STDIN_FILENO)
        else { _exit(Int32(Ending.notConfinedStatus)) }
        for number in 1...Self.maximumSignalNumber { signal(number, SIG_DFL) }
        let variables: [UnsafeMutablePointer<CChar>?] = environment.map { strdup($0) } + [nil]
        let programs: [[UnsafeMutablePointer<CChar>?]] = paths.map { path in ([path] + words).map { strdup($0) } + [nil] }
        HelperProcess.limit(RLIMIT_CORE, to: 0)
        HelperProcess.limit(RLIMIT_FSIZE, to: 0)
        HelperProcess.limit(RLIMIT_NOFILE, to: Self.descriptorLimit)
        HelperProcess.limit(RLIMIT_CPU, to: rlim_t(clamping: timeout.components.seconds))
        HelperProcess.limit(RLIMIT_AS, to: Self.memoryLimit)
        for program in programs {
            if let path = program[0] { execve(path, program, variables) }
        }
        _exit(Int32(Ending.notStartedStatus))
    }

    /// The last of the real-time signals (signal(7)).
    private static let maximumSignalNumber: Int32 = 64
}
