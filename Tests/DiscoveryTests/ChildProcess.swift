internal import CNearshareShims
internal import FoundationEssentials
internal import Glibc
internal import NearshareInterfaces
internal import Synchronization

/// A program that a test talks to line by line. It is expected to end when its input does.
final class ChildProcess: Sendable {
    struct CannotStart: Error {
        let program: String
        let code: Int32
    }

    /// Lines of its standard output.
    let lines = Mailbox<String>()

    private let process: pid_t
    private let input: Mutex<Int32?>
    /// The wait status; nil until the process has ended and its status was read, which releases its id.
    private let status = Mutex<Int32?>(nil)

    init(_ program: String, _ arguments: [String], environment: [String: String] = [:]) throws {
        var toChild: [Int32] = [-1, -1]
        var fromChild: [Int32] = [-1, -1]
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &toChild) == 0 else {
            throw CannotStart(program: program, code: errno)
        }
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &fromChild) == 0 else {
            let code = errno
            for descriptor in toChild { Glibc.close(descriptor) }
            throw CannotStart(program: program, code: code)
        }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, toChild[1], 0)
        posix_spawn_file_actions_adddup2(&actions, fromChild[1], 1)
        // Threads of Swift's pool block most signals, and children inherit that.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        let all = ProcessInfo.processInfo.environment.merging(environment) { $1 }.map { "\($0)=\($1)" }
        var pid: pid_t = 0
        let code = Self.withPointers([program] + arguments) { argv in
            Self.withPointers(all) { posix_spawnp(&pid, program, &actions, &attributes, argv, $0) }
        }
        Glibc.close(toChild[1])
        Glibc.close(fromChild[1])
        guard code == 0 else {
            Glibc.close(toChild[0])
            Glibc.close(fromChild[0])
            throw CannotStart(program: program, code: code)
        }
        process = pid
        input = Mutex(toChild[0])
        Self.pump(fromChild[0], into: lines)
    }

    deinit { end() }

    func say(_ line: String) {
        let bytes = Array((line + "\n").utf8)
        input.withLock { descriptor in
            if let descriptor { _ = send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) }
        }
    }

    /// Ends its input, waits for it to end, and ends it after ten seconds.
    /// - Returns: its wait status.
    @discardableResult
    func end() -> Int32 {
        input.withLock { descriptor in
            if let open = descriptor { Glibc.close(open) }
            descriptor = nil
        }
        return status.withLock { status in
            if let status { return status }
            if !hasEnded(within: .seconds(10)) { Glibc.kill(process, SIGKILL) }
            var ended: Int32 = 0
            while waitpid(process, &ended, 0) < 0, errno == EINTR {}
            status = ended
            return ended
        }
    }

    private func hasEnded(within timeout: Duration) -> Bool {
        let descriptor = nearshare_pidfd_open(process)
        guard descriptor >= 0 else { return false }
        defer { Glibc.close(descriptor) }
        return DescriptorPoll.wait(for: descriptor, .readable, timeout: timeout).contains(.readable)
    }

    /// Ends the process without a goodbye, like a loss of power.
    func kill() {
        // Once the status was read, the id can be another process's.
        status.withLock { status in if status == nil { Glibc.kill(process, SIGKILL) } }
        end()
    }

    private static func pump(_ descriptor: Int32, into lines: Mailbox<String>) {
        let thread = Thread { [lines] in
            var rest: [UInt8] = []
            var buffer = [UInt8](repeating: 0, count: 65536)
            while true {
                let count = read(descriptor, &buffer, buffer.count)
                guard count > 0 else { break }
                rest += buffer.prefix(count)
                while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                    lines.put(String(decoding: rest[..<end], as: UTF8.self))
                    rest.removeSubrange(...end)
                }
            }
            Glibc.close(descriptor)
            lines.close()
        }
        thread.start()
    }

    private static func withPointers<Result>(
        _ strings: [String], _ body: (UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> Result
    ) -> Result {
        var pointers = strings.map { strdup($0) } + [nil]
        defer { for pointer in pointers { free(pointer) } }
        return pointers.withUnsafeMutableBufferPointer { body($0.baseAddress!) }
    }
}

private final class Thread: Sendable {
    private let run: @Sendable () -> Void

    init(_ run: @escaping @Sendable () -> Void) { self.run = run }

    func start() {
        var thread = pthread_t()
        pthread_create(
            &thread, nil,
            { context in
                Unmanaged<Thread>.fromOpaque(context!).takeRetainedValue().run()
                return nil
            }, Unmanaged.passRetained(self).toOpaque())
        pthread_detach(thread)
    }
}
