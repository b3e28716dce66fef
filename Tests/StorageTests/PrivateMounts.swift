import Glibc
import Testing

/// Runs `body` on a thread with a private mount namespace: its mounts are visible to no other thread and end with it.
/// Only for root. Blocks its caller.
func withPrivateMounts(_ body: @escaping @Sendable () throws -> Void) throws {
    final class Work: @unchecked Sendable {
        let body: @Sendable () throws -> Void
        // Written by the thread before it ends, read after it has been joined.
        var failure: (any Error)?
        init(_ body: @escaping @Sendable () throws -> Void) { self.body = body }
    }
    let work = Work(body)
    var thread = pthread_t()
    let code = pthread_create(
        &thread, nil,
        { raw in
            let work = Unmanaged<Work>.fromOpaque(raw!).takeRetainedValue()
            do {
                try leaveOthersMounts()
                try work.body()
            } catch {
                work.failure = error
            }
            return nil
        }, Unmanaged.passRetained(work).toOpaque())
    try #require(code == 0)
    pthread_join(thread, nil)
    if let failure = work.failure { throw failure }
}

let isRoot = geteuid() == 0

struct MountFailure: Error {
    let what: String
    let code = errno
}

private func leaveOthersMounts() throws {
    // glibc declares it for GNU sources only.
    guard let symbol = dlsym(nil, "unshare") else { throw MountFailure(what: "unshare") }
    let unshare = unsafeBitCast(symbol, to: (@convention(c) (Int32) -> Int32).self)
    guard unshare(0x0002_0000) == 0 else { throw MountFailure(what: "unshare") }
    // Private, recursively: nothing that happens here spreads.
    guard mount(nil, "/", nil, UInt(1 << 18 | 1 << 14), nil) == 0 else { throw MountFailure(what: "make private") }
}

func mountMemory(at path: String, megabytes: Int, isReadOnly: Bool = false) throws {
    mkdir(path, 0o700)
    guard mount("tmpfs", path, "tmpfs", isReadOnly ? 1 : 0, "size=\(megabytes)m,mode=0700") == 0 else {
        throw MountFailure(what: "mount \(path)")
    }
}

func remountMemory(at path: String, megabytes: Int) throws {
    guard mount("tmpfs", path, "tmpfs", 32, "size=\(megabytes)m") == 0 else { throw MountFailure(what: "remount \(path)") }
}

func unmount(_ path: String) throws {
    guard umount2(path, 2) == 0 else { throw MountFailure(what: "unmount \(path)") }
}

/// For the calling thread alone: glibc's own functions would change all threads.
func becomeNobody() throws {
    guard let symbol = dlsym(nil, "syscall") else { throw MountFailure(what: "syscall") }
    let call = unsafeBitCast(symbol, to: (@convention(c) (Int, Int, Int, Int) -> Int).self)
    #if arch(x86_64)
        let setresuid = 117
    #else
        let setresuid = 147
    #endif
    guard call(setresuid, 65534, 65534, 65534) == 0 else { throw MountFailure(what: "setresuid") }
}
