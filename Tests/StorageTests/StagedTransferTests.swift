import NearshareBase
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareStorage

@Suite("the locked folder of an incoming transfer")
struct StagedTransferTests {
    private let scratch = ScratchFolder()

    @Test("while one writer removes the folder, another never works in what is being removed")
    func removedMeanwhile() throws {
        let path = scratch("spool")
        let failures = Monitor<[String]>([])
        let workers = (0..<2).map { _ in
            Worker {
                do {
                    let area = try StagingArea(path: path)
                    for _ in 0..<500 {
                        let staged = try area.open(sender: anna, resumeKey: someKey)
                        try staged.replace("note", with: [1], durably: false)
                        if !staged.directory.exists("note") || !area.directory.exists(staged.name) {
                            failures.update { $0.append("removed while it was locked") }
                        }
                        staged.remove()
                    }
                } catch {
                    failures.update { $0.append("\(error)") }
                }
            }
        }
        for worker in workers { worker.wait() }
        #expect(failures.withLock { $0 }.isEmpty)
    }
}
