internal import Logging

/// Passes log lines to a closure of the program. A library writes nothing of its own accord.
struct ClosureLogHandler: LogHandler {
    let write: (@Sendable (String) -> Void)?
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.info

    init(write: (@Sendable (String) -> Void)?) {
        self.write = write
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) { write?("\(event.level): \(event.message)") }
}
