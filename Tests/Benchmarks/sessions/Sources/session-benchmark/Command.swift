import Glibc

/// Another program, started with its standard output and errors going to a file.
struct Command {
    let process: pid_t

    init(_ words: [String], output: String = "/dev/null") {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for descriptor: Int32 in [1, 2] {
            posix_spawn_file_actions_addopen(&actions, descriptor, output, O_WRONLY | O_CREAT | O_APPEND, 0o600)
        }
        // A thread of Swift's pool blocks most signals, and a program that it starts would never see SIGTERM.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var noSignals = sigset_t()
        sigemptyset(&noSignals)
        posix_spawnattr_setsigmask(&attributes, &noSignals)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        let arguments = words.map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        var process: pid_t = 0
        let result = posix_spawnp(&process, words[0], &actions, &attributes, arguments, environ)
        precondition(result == 0, "\(words[0]) is not installed")
        self.process = process
    }

    /// Waits for its end.
    /// - Returns: whether it has succeeded.
    @discardableResult
    func wait() -> Bool {
        var status: Int32 = 0
        return waitpid(process, &status, 0) == process && status == 0
    }

    /// Ends it, and waits for that.
    func end() {
        kill(process, SIGTERM)
        wait()
    }

    /// Processor time that it has used so far, in seconds.
    var processorTime: Double {
        guard let file = fopen("/proc/\(process)/stat", "r") else { return 0 }
        defer { fclose(file) }
        var buffer = [CChar](repeating: 0, count: 1024)
        guard fgets(&buffer, 1024, file) != nil else { return 0 }
        let text = String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        // After the name, which may contain spaces: utime and stime are fields 14 and 15.
        let fields = text.split(separator: ")").last?.split(separator: " ") ?? []
        guard fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12]) else { return 0 }
        return (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
    }
}

/// A key and a certificate of it in a directory, for TLS.
func makeCertificate(in folder: String) {
    mkdir(folder, 0o700)
    let made = Command([
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", "\(folder)/key",
        "-out", "\(folder)/certificate",
    ]).wait()
    precondition(made, "openssl made no certificate")
}
