import Glibc
import NearshareBase
import NearshareInterfaces
import NearshareSandbox

enum Probe {
    /// Called while there is one thread.
    static func confineAsNode(home: String) {
        if let problem = Confinement.restrictSystemCalls() { print("missing\tsystem calls: \(problem)") }
        // The paths that lead to no directory give no right, and take none of the others away.
        let writable = ["\(home)/Inbox", "\(home)/.bashrc", "/dev/null", "\(home)/state", "\(home)/missing"]
        if let problem = Confinement.restrictFiles(toWriting: writable) { print("missing\tfiles: \(problem)") }
    }

    /// Makes all attempts on the calling thread.
    static func report(_ thread: String, home: String) { print(results(thread, home: home), terminator: "") }

    private static func results(_ thread: String, home: String) -> String {
        attempts(home: home).map { "\(thread) \($0.name)\t\($0.result)\n" }.joined()
    }

    /// Attempts of a confined program, which is a shell: each is a line of it that starts no other program.
    static func usePrograms(home: String) {
        let attempts = shellAttempts
        let program = ConfinedProgram(paths: ["/usr/bin/missing", "/bin/bash"], environment: ["HOME=\(home)"])
        let routine = program.routine(timeout: .seconds(30)) { request in
            ["-c", request.first.map { attempts[Int($0)].line } ?? "exit 1"]
        }
        let picture = "\(home)/Inbox/picture"
        let created = open(picture, O_WRONLY | O_CREAT | O_EXCL, 0o600)
        _ = Array("a picture\n".utf8).withUnsafeBytes { Glibc.write(created, $0.baseAddress, $0.count) }
        close(created)
        do throws(SystemCallError) {
            let helper = try HelperProcess.start([.drawPicture: routine])
            for (index, attempt) in attempts.enumerated() {
                let file = open(picture, O_RDONLY | O_CLOEXEC)
                defer { close(file) }
                let worker = try WorkerConnection(helper, .drawPicture, passing: file)
                let deadline = SystemClock.monotonic() + .seconds(30)
                _ = [UInt8(index)].withUnsafeBytes { worker.send($0, by: deadline) }
                worker.finishSending()
                let answer = worker.receiveAll(limit: 65_536, by: deadline) ?? []
                print("program \(attempt.name)\t\(answer.last.map { $0 == 0 ? "ok" : "\($0)" } ?? "none")")
                let output = String(decoding: answer.dropLast(), as: UTF8.self)
                if !output.isEmpty { print("output \(attempt.name)\t\(output)") }
            }
        } catch {
            print("helper\t\(error.code)")
        }
    }

    private static let shellAttempts = [
        (name: "read the file", line: "read line && echo -n \"$line\""),
        (name: "open the file again", line: "read line < \(ConfinedProgram.filePath)"),
        (name: "become a program", line: "exec /bin/true"),
        (name: "write to the file", line: "echo >> \(ConfinedProgram.filePath)"),
        (name: "read home", line: "read line < \"$HOME/.bashrc\""),
        (name: "read accounts", line: "read line < /etc/passwd"),
        (name: "write inbox", line: "echo > \"$HOME/Inbox/a\""),
        (name: "append to bashrc", line: "echo >> \"$HOME/.bashrc\""),
        (name: "write to a folder for all", line: "echo > /tmp/nearshare-probe"),
        (name: "start a process", line: "( : )"),
        (name: "signal the worker", line: "kill -0 $PPID"),
        (name: "connect", line: "exec 3<>/dev/tcp/127.0.0.1/9"),
        (name: "use the terminal", line: "exec 3<>/dev/tty"),
        (name: "allocate 600 MB", line: "printf -v x %600000000s x"),
    ]

    /// Attempts inside a worker, and workers that fail.
    static func useWorkers(home: String) {
        let attack = WorkerRoutine { socket, _ in
            { try? DescriptorIO.sendAll(Array(results("worker", home: home).utf8), to: socket) }
        }
        let hang = WorkerRoutine(timeout: .seconds(1)) { _, _ in { while true { sched_yield() } } }
        let crash = WorkerRoutine { _, _ in { abort() } }
        do throws(SystemCallError) {
            let helper = try HelperProcess.start([.detectMediaType: attack, .decodeNote: hang, .decodeSoundFile: crash])
            for job in [WorkerJob.decodeNote, .decodeSoundFile, .deliverPending, .detectMediaType] {
                let worker = try WorkerConnection(helper, job)
                let answer = worker.receiveAll(limit: 65_536, by: SystemClock.monotonic() + .seconds(30))
                print("ended \(job)\t\(answer == nil ? "late" : "ok")")
                print(String(decoding: answer ?? [], as: UTF8.self), terminator: "")
            }
        } catch {
            print("helper\t\(error.code)")
        }
    }
}
