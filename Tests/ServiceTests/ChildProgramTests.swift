import Glibc
import Testing

@testable import NearshareService

@Suite("programs that nearshare runs") struct ChildProgramTests {
    @Test func `a program is ended by signals that this process ignores or blocks`() {
        let former = signal(SIGPROF, SIG_IGN)
        defer { signal(SIGPROF, former) }
        var (profiling, saved) = (sigset_t(), sigset_t())
        sigemptyset(&profiling)
        sigaddset(&profiling, SIGPROF)
        pthread_sigmask(SIG_BLOCK, &profiling, &saved)
        defer { pthread_sigmask(SIG_SETMASK, &saved, nil) }
        let words = ["sh", "-c", "kill -PROF $$"]
        #expect(ChildProgram.run(words, output: STDERR_FILENO) == .killed(signal: SIGPROF))
        #expect(!ChildProgram.runInTerminal(words, isQuiet: true))
        #expect(ChildProgram.runInTerminal(["true"], isQuiet: true))
    }

    @Test func `a program that cannot be started is noticed before it is needed`() {
        for program in ["sh", "/bin/sh"] { #expect(ChildProgram.lookupError(of: program) == nil) }
        for program in ["no-such-program", "/no/such/program"] {
            #expect(ChildProgram.lookupError(of: program) == ENOENT, "\(program)")
        }
        // A folder, and a file that is no program.
        for program in ["/", "/etc/passwd"] { #expect(ChildProgram.lookupError(of: program) == EACCES, "\(program)") }
    }
}
