import Glibc

/// Something that a compromised process could try.
struct Attempt: Sendable {
    let name: String
    /// Returns whether it succeeded; errno tells the reason otherwise.
    private let run: @Sendable () -> Bool

    init(_ name: String, _ run: @escaping @Sendable () -> Bool) {
        self.name = name
        self.run = run
    }

    /// Makes the attempt: "ok", or the number of the error.
    var result: String {
        errno = 0
        return run() ? "ok" : "\(errno)"
    }
}

func attempts(home: String) -> [Attempt] { files(in: home) + programs(in: home) + systemCalls }

private func files(in home: String) -> [Attempt] {
    let bashrc = "\(home)/.bashrc"
    return [
        Attempt("write inbox") { write("\(home)/Inbox/a") },
        Attempt("write state") { write("\(home)/state/a") },
        Attempt("folder in state") { mkdir("\(home)/state/folder", 0o700) == 0 && rmdir("\(home)/state/folder") == 0 },
        Attempt("move to inbox") { rename("\(home)/state/a", "\(home)/Inbox/b") == 0 },
        Attempt("remove from inbox") { unlink("\(home)/Inbox/b") == 0 },
        Attempt("read home") { access { open(bashrc, O_RDONLY) } },
        Attempt("append to bashrc") { access { open(bashrc, O_WRONLY | O_APPEND) } },
        Attempt("empty a file by reading it") {
            write("\(home)/Inbox/c") && access { open("\(home)/Inbox/c", O_RDONLY | O_TRUNC) }
        },
        Attempt("truncate bashrc") { truncate(bashrc, 0) == 0 },
        Attempt("remove bashrc") { unlink(bashrc) == 0 },
        Attempt("replace bashrc") { rename("\(home)/Inbox/a", bashrc) == 0 },
        Attempt("take bashrc") { rename(bashrc, "\(home)/Inbox/bashrc") == 0 },
        Attempt("link to bashrc") { link(bashrc, "\(home)/Inbox/bashrc") == 0 },
        Attempt("create in home") { write("\(home)/.profile") },
        Attempt("folder in home") { mkdir("\(home)/.config", 0o700) == 0 },
        Attempt("through a link in the inbox") {
            unlink("\(home)/Inbox/link")
            return symlink(bashrc, "\(home)/Inbox/link") == 0 && access { open("\(home)/Inbox/link", O_WRONLY) }
        },
        Attempt("device in inbox") { mknod("\(home)/Inbox/null", mode_t(S_IFCHR) | 0o600, 0x103) == 0 },
    ]
}

private func programs(in home: String) -> [Attempt] {
    [
        Attempt("run a program") {
            var process = pid_t()
            var words: [UnsafeMutablePointer<CChar>?] = [strdup("true"), nil]
            errno = posix_spawn(&process, "/bin/true", nil, nil, &words, nil)
            return errno == 0
        },
        Attempt("become a program") {
            var words: [UnsafeMutablePointer<CChar>?] = [strdup("true"), nil]
            return execv("/bin/true", &words) == 0
        },
    ]
}

/// Numbers of system calls that glibc does not wrap, or whose wrappers Swift does not import.
private enum CallNumber {
    #if arch(x86_64)
        static let (ptrace, unshare, setns, mount, bpf, keyctl, clone) = (101, 272, 308, 165, 321, 250, 56)
        static let (processVMRead, perfEventOpen, userfaultfd, openByHandle, personality) = (310, 298, 323, 304, 135)
    #else
        static let (ptrace, unshare, setns, mount, bpf, keyctl, clone) = (117, 97, 268, 40, 280, 219, 220)
        static let (processVMRead, perfEventOpen, userfaultfd, openByHandle, personality) = (270, 241, 282, 265, 92)
    #endif
    static let (ioUringSetup, clone3, pidfdGetfd) = (425, 435, 438)
}

private let systemCalls: [Attempt] = [
    Attempt("ptrace") { call(CallNumber.ptrace) >= 0 },
    Attempt("new user namespace") { call(CallNumber.unshare, 0x1000_0000) == 0 },
    Attempt("new network namespace") { call(CallNumber.unshare, 0x4000_0000) == 0 },
    Attempt("enter a namespace") { call(CallNumber.setns, -1) == 0 },
    Attempt("clone into a namespace") {
        // An invalid combination for the kernel, which the filter refuses first: nothing is cloned.
        call(CallNumber.clone, 0x1000_0000 | 0x0001_0000) == 0
    },
    Attempt("clone3") { call(CallNumber.clone3) == 0 },
    Attempt("mount") { call(CallNumber.mount) == 0 },
    Attempt("bpf") { call(CallNumber.bpf, -1) == 0 },
    Attempt("keyctl") { call(CallNumber.keyctl) >= 0 },
    Attempt("read another process") { call(CallNumber.processVMRead, Int(getppid())) >= 0 },
    Attempt("perf_event_open") { call(CallNumber.perfEventOpen) >= 0 },
    Attempt("userfaultfd") { call(CallNumber.userfaultfd) >= 0 },
    Attempt("io_uring") { call(CallNumber.ioUringSetup) >= 0 },
    Attempt("open by handle") { call(CallNumber.openByHandle) >= 0 },
    Attempt("take a descriptor") { call(CallNumber.pidfdGetfd, -1) >= 0 },
    Attempt("personality") { call(CallNumber.personality, 0x20_0000) >= 0 },
    Attempt("type on the terminal") {
        var byte = CChar(10)
        return ioctl(0, UInt(TIOCSTI), &byte) == 0
    },
    // The kernel ignores the upper half of an argument, and a filter must not be evaded by it.
    Attempt("type on the terminal, upper bits") {
        ioctlNumber(0, Int(TIOCSTI) | 1 << 32) == 0
    },
    Attempt("TCP socket") { access { socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0) } },
    Attempt("unusual socket") { access { socket(38, Int32(SOCK_SEQPACKET.rawValue), 0) } },
]

private func write(_ path: String) -> Bool { access { open(path, O_WRONLY | O_CREAT, 0o600) } }

/// Opens and closes a descriptor.
private func access(_ open: () -> Int32) -> Bool {
    let descriptor = open()
    guard descriptor >= 0 else { return false }
    close(descriptor)
    return true
}

private func call(_ number: Int, _ first: Int = 0) -> Int {
    // Safe: syscall(2) of glibc takes its arguments in registers, like a function with this type.
    typealias Call = @convention(c) (Int, Int, Int, Int, Int, Int, Int) -> Int
    guard let symbol = dlsym(nil, "syscall") else { return 0 }
    return unsafeBitCast(symbol, to: Call.self)(number, first, 0, 0, 0, 0, 0)
}

private func ioctlNumber(_ descriptor: Int, _ request: Int) -> Int {
    #if arch(x86_64)
        let number = 16
    #else
        let number = 29
    #endif
    typealias Call = @convention(c) (Int, Int, Int, Int) -> Int
    guard let symbol = dlsym(nil, "syscall") else { return 0 }
    return unsafeBitCast(symbol, to: Call.self)(number, descriptor, request, 0)
}
