import FoundationEssentials
import Glibc
import NearshareTesting
import Testing

/// The outcome of each attempt of `sandbox-probe`: "ok", or the number of the error.
private func outcomes(_ mode: String) throws -> [String: String] {
    let home = ScratchFolder()
    for folder in ["Inbox", "state"] { try #require(mkdir(home(folder), 0o700) == 0) }
    try Data("alias ls=ls\n".utf8).write(to: URL(filePath: home(".bashrc")))
    let lines = try output(of: testProgram("sandbox-probe"), [mode, home.path]).split(separator: "\n")
    #expect(try Data(contentsOf: URL(filePath: home(".bashrc"))) == Data("alias ls=ls\n".utf8))
    #expect(try FileManager.default.contentsOfDirectory(atPath: home.path).sorted() == [".bashrc", "Inbox", "state"])
    return try Dictionary(
        lines.map { line in
            let words = line.split(separator: "\t").map(String.init)
            try #require(words.count == 2, "\(line)")
            return (words[0], words[1])
        }, uniquingKeysWith: { first, second in "\(first), \(second)" })
}

private let permitted = [
    "write inbox", "write state", "folder in state", "move to inbox", "remove from inbox", "read home", "TCP socket",
]

@Suite struct ConfinementTests {
    @Test("L1: a confined node can change its directories and nothing else, from any thread", arguments: ["main", "thread"])
    func node(_ thread: String) throws {
        let outcomes = try outcomes("node")
        try #require(outcomes["missing"] == nil, "\(outcomes["missing"] ?? "")")
        let refused = ["\(EPERM)", "\(EACCES)", "\(EXDEV)"]
        for (name, outcome) in outcomes where name.hasPrefix(thread + " ") {
            let attempt = name.dropFirst(thread.count + 1)
            if permitted.contains(String(attempt)) {
                #expect(outcome == "ok", "\(name)")
            } else if attempt == "clone3" {
                #expect(outcome == "\(ENOSYS)", "\(name)")
            } else {
                #expect(refused.contains(outcome), "\(name): \(outcome)")
            }
        }
        #expect(outcomes.keys.count { $0.hasPrefix(thread) } > 35)
    }

    @Test("L2, P14: a worker can do nothing, and one that hangs or crashes does not keep the next from running")
    func worker() throws {
        let outcomes = try outcomes("helper")
        for job in ["decodeNote", "decodeSoundFile", "deliverPending", "detectMediaType"] {
            #expect(outcomes["ended \(job)"] == "ok", "\(job)")
        }
        let attempts = outcomes.filter { $0.key.hasPrefix("worker ") }
        #expect(attempts.count > 35)
        for (name, outcome) in attempts {
            // Also what a node may do: files, and sockets.
            #expect(["\(EPERM)", "\(EACCES)"].contains(outcome), "\(name): \(outcome)")
        }
    }

    @Test("L4: a program that decodes a file can read that file and those of programs, and do nothing else")
    func program() throws {
        let outcomes = try outcomes("program")
        let permitted = ["program read the file", "program open the file again", "program become a program"]
        #expect(outcomes["output read the file"] == "a picture")
        for (name, outcome) in outcomes where name.hasPrefix("program ") {
            // 125 and 127 are those of a program that was not confined, or not started.
            #expect(!["none", "125", "127"].contains(outcome), "\(name): \(outcome)")
            #expect((outcome == "ok") == permitted.contains(name), "\(name): \(outcome)")
        }
        #expect(outcomes.keys.count { $0.hasPrefix("program ") } == 14)
    }
}

/// A program that is built beside the tests.
private func testProgram(_ name: String) throws -> String {
    let executable = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
    let folders = (CommandLine.arguments + [executable]).map { $0.split(separator: "/").dropLast().joined(separator: "/") }
    let programs: [String] = folders.map { "/\($0)/\(name)" }
    return try #require(programs.first { access($0, X_OK) == 0 }, "\(name) is not beside the tests")
}

/// Runs a program to its end and returns what it has written.
private func output(of program: String, _ arguments: [String]) throws -> String {
    var pipes: [Int32] = [-1, -1]
    try #require(pipe(&pipes) == 0)
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_adddup2(&actions, pipes[1], 1)
    posix_spawn_file_actions_addclose(&actions, pipes[0])
    var words = ([program] + arguments).map { strdup($0) } + [nil]
    defer { for word in words { free(word) } }
    var process = pid_t()
    let code = posix_spawn(&process, program, &actions, nil, &words, environ)
    close(pipes[1])
    try #require(code == 0)
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 4096)
    while case let count = read(pipes[0], &buffer, buffer.count), count > 0 { bytes += buffer.prefix(count) }
    close(pipes[0])
    var status: Int32 = 0
    waitpid(process, &status, 0)
    #expect(status == 0)
    return String(decoding: bytes, as: UTF8.self)
}
