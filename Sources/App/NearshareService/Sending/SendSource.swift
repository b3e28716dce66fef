internal import Glibc
package import Nearshare

/// The content of a send, and its label.
package struct SendSource: Sendable {
    /// The content in a form that can be passed to another process.
    package enum Content: Sendable {
        case files([LocalPath])
        case text(String)
        case stream
    }

    /// One source for each receiver.
    package var sources: [any ResourceSource]
    package var content: Content
    /// The label, escaped for a terminal.
    package var label: String
    /// Whether another run of the command can read the same content again.
    package var canResume: Bool
    /// Files that were left out, with the reasons.
    package var skipped: [String]
    /// The number of files that the user has named, or that lie in named folders, and that cannot be read.
    package var unreadableCount = 0
    /// The files one by one, for a transport of single files; nil for a single item.
    package var parts: (@Sendable () throws -> [any ResourceSource])?
    /// The limit for all direct receivers together.
    package var rateLimit: TransmissionLimit?

    package init(
        sources: [any ResourceSource], content: Content, label: String, canResume: Bool, skipped: [String] = [],
        parts: (@Sendable () throws -> [any ResourceSource])? = nil
    ) {
        self.sources = sources
        self.content = content
        self.label = label
        self.canResume = canResume
        self.skipped = skipped
        self.parts = parts
    }

    package static func text(_ text: String, receivers: Int) throws -> SendSource {
        let source = try TextSource(text)
        return SendSource(
            sources: Array(repeating: source, count: receivers), content: .text(text), label: "message", canResume: true)
    }

    /// Standard input, read once for all receivers.
    package static func standardInput(named name: ClaimedFileName, receivers: Int) -> SendSource {
        let stream = StreamSource(
            descriptor: STDIN_FILENO, name: name, receivers: receivers, clock: { SystemClock.monotonic() })
        return SendSource(sources: stream.readers, content: .stream, label: name.shown, canResume: false)
    }

    package static func files(_ source: FileSource, receivers: Int) throws -> SendSource {
        let paths = source.localPaths
        var result = SendSource(
            sources: Array(repeating: source, count: receivers), content: .files(paths),
            label: OfferText.summary(source.offer), canResume: true, skipped: source.skipped,
            parts: { try paths.map { try FileSource(localPaths: [$0], options: source.options) } })
        result.unreadableCount = source.unreadableCount
        return result
    }
}
