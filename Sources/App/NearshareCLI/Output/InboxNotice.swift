internal import Nearshare

/// Where received files go, and what is wrong while the inbox cannot be used.
struct InboxNotice {
    /// The directory that files go to, or wait in.
    let place: String
    /// The reason why the inbox cannot be used; nil when it can.
    let problem: String?

    /// Creates the inbox if it is missing.
    init(_ inbox: Inbox) {
        let path = TerminalText.escaped(inbox.path, columns: 1000)
        do throws(StorageError) {
            try inbox.prepare()
            (place, problem) = ("files go to \(path)", nil)
        } catch {
            let spool = inbox.spoolPath.map { "files wait in \(TerminalText.escaped($0, columns: 1000))" }
            (place, problem) = ("\(spool ?? "no files are received") until \(path) can be used", error.description)
        }
    }

    /// Writes the lines; of JSON output, the problem alone.
    func show(to reporter: any CommandReporter) {
        if let problem { Console.warn(problem) }
        reporter.writeText { Console.notice("\(place); Ctrl-C ends this") }
    }
}
