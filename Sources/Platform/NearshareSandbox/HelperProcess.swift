internal import CNearshareShims
internal import Glibc
package import NearshareInterfaces

/// A process with one thread that forks a worker for each job. It is forked itself while the program has one thread and no keys
/// in memory; it reads nothing but the numbers of jobs, and ends with the program.
package final class HelperProcess: WorkerLauncher {
    private let socket: Int32

    /// Bytes of writable memory that a confined worker may have.
    private static let memoryLimit: rlim_t = 256 << 20

    private init(socket: Int32) {
        self.socket = socket
    }

    deinit { close(socket) }

    /// Starts the helper. The program has one thread.
    /// - Parameter routines: the jobs that workers can have.
    package static func start(
        _ routines: [WorkerJob: WorkerRoutine]
    ) throws(SystemCallError) -> HelperProcess {
        var (local, remote): (Int32, Int32) = (-1, -1)
        guard nearshare_socketpair(Int32(SOCK_SEQPACKET.rawValue), &local, &remote) == 0 else {
            throw SystemCallError(code: errno)
        }
        switch nearshare_fork() {
        case 0: serve(remote, routines)
        case -1:
            let code = errno
            close(local)
            close(remote)
            throw SystemCallError(code: code)
        default:
            close(remote)
            return HelperProcess(socket: local)
        }
    }

    package func start(_ job: WorkerJob, passing file: Int32?) throws(SystemCallError) -> Int32 {
        var (local, remote): (Int32, Int32) = (-1, -1)
        guard nearshare_socketpair(Int32(SOCK_STREAM.rawValue), &local, &remote) == 0 else {
            throw SystemCallError(code: errno)
        }
        defer { close(remote) }
        let passed = [remote] + (file.map { [$0] } ?? [])
        guard nearshare_send_descriptors(socket, job.rawValue, passed, Int32(passed.count)) == 0 else {
            let code = errno
            close(local)
            throw SystemCallError(code: code)
        }
        return local
    }

    // MARK: In the helper

    /// Forks workers until the program has ended.
    private static func serve(_ socket: Int32, _ routines: [WorkerJob: WorkerRoutine]) -> Never {
        nearshare_become_helper(socket, "nearshare-help")
        var byte: UInt8 = 0
        var passed = [Int32](repeating: -1, count: Int(NEARSHARE_PASSED_LIMIT))
        let process = getpid()
        while true {
            let count = Int(nearshare_receive_descriptors(socket, &byte, &passed))
            guard count >= 0 else { _exit(0) }
            let descriptors = passed.prefix(count)
            if let job = WorkerJob(rawValue: byte), let routine = routines[job], let end = descriptors.first,
                nearshare_fork() == 0
            {
                close(socket)
                guard nearshare_end_with_parent(process) == 0 else { _exit(1) }
                work(routine, on: end, file: descriptors.dropFirst().first)
            }
            for descriptor in descriptors { close(descriptor) }
        }
    }

    private static func work(_ routine: WorkerRoutine, on socket: Int32, file: Int32?) -> Never {
        if let timeout = routine.timeout { alarm(UInt32(clamping: timeout.components.seconds)) }
        let run = routine.load(socket, file)
        if routine.isConfined {
            let isDone = Confinement.removeRights {
                limit(__RLIMIT_NPROC, to: 0)
                limit(RLIMIT_NOFILE, to: 0)
                limit(RLIMIT_FSIZE, to: 0)
                limit(RLIMIT_DATA, to: memoryLimit)
            }
            guard isDone else { _exit(1) }
        }
        run()
        _exit(0)
    }

    static func limit(_ resource: __rlimit_resource, to value: rlim_t) {
        var limit = rlimit(rlim_cur: value, rlim_max: value)
        setrlimit(__rlimit_resource_t(UInt32(resource.rawValue)), &limit)
    }
}
