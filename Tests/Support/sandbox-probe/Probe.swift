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
