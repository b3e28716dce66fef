internal import Glibc
package import NearshareInterfaces

/// The in-memory form of the helper process: workers are threads, which keep their rights.
package struct ThreadLauncher: WorkerLauncher {
    private let routines: [WorkerJob: WorkerRoutine]

    package init(_ routines: [WorkerJob: WorkerRoutine]) {
        self.routines = routines
    }

    package func start(_ job: WorkerJob, passing file: Int32?) throws(SystemCallError) -> Int32 {
        var ends: [Int32] = [-1, -1]
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0 else { throw SystemCallError(code: errno) }
        let (near, far) = (ends[0], ends[1])
        let passed = file.map { dup($0) }
        let routine = routines[job]
        do throws(ThreadError) {
            _ = try BlockingThread.start {
                routine?.load(far, passed)()
                close(far)
                if let passed { close(passed) }
            }
        } catch {
            throw SystemCallError(code: EAGAIN)
        }
        return near
    }
}
