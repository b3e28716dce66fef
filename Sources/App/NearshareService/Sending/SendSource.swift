internal import Glibc
package import Nearshare
internal import NearshareMesh

/// The content of a send, and its label.
package struct SendSource: Sendable {
    /// The content in a form that can be passed to another process.
    package enum Content: Sendable {
        case files([LocalPath])
        case text(String)
        case stream
    }

    /// How receivers read the content.
    private enum Reading: Sendable {
        /// Each reads it from the beginning.
        case repeatable(any ResourceSource)
        /// All of them together, once.
        case standardInput(named: ClaimedFileName)
    }

    private let reading: Reading
    package let content: Content
    /// The label, escaped for a terminal.
    package let label: String
    /// Whether another run of the command can read the same content again.
    package let canResume: Bool
    /// Descriptions of a hundred entries at most that were left out, with the reasons: those that cannot be read first.
    package let skipped: [String]
    /// The number of all entries that were left out.
    package private(set) var skippedCount: Int
    /// The number of files that the user has named, or that lie in named folders, and that cannot be read.
    package var unreadableCount = 0
    /// The files one by one, for a transport of single files; nil for content that is no file of the user's.
    package let parts: (@Sendable () throws -> [any ResourceSource])?
    /// The limit for all direct receivers together.
    package var rateLimit: TransmissionLimit?

    /// - Parameter source: can be read again for each receiver.
    package init(
        _ source: any ResourceSource, content: Content, label: String, skipped: [String] = [],
        parts: (@Sendable () throws -> [any ResourceSource])? = nil
    ) {
        self.init(.repeatable(source), content: content, label: label, canResume: true, skipped: skipped, parts: parts)
    }

    private init(
        _ reading: Reading, content: Content, label: String, canResume: Bool, skipped: [String] = [],
        parts: (@Sendable () throws -> [any ResourceSource])? = nil
    ) {
        self.reading = reading
        self.content = content
        self.label = label
        self.canResume = canResume
        self.skipped = skipped
        skippedCount = skipped.count
        self.parts = parts
    }

    package static func text(_ text: String) throws -> SendSource {
        SendSource(try TextSource(text), content: .text(text), label: "message")
    }

    /// Standard input, read once for all receivers.
    package static func standardInput(named name: ClaimedFileName) -> SendSource {
        SendSource(.standardInput(named: name), content: .stream, label: name.shown, canResume: false)
    }

    package static func files(_ source: FileSource) -> SendSource {
        let paths = source.localPaths
        var result = SendSource(
            source, content: .files(paths), label: OfferText.summary(source.offer), skipped: source.skipped,
            parts: { try paths.map { try FileSource(localPaths: [$0], options: source.options) } })
        result.skippedCount = source.skippedCount
        result.unreadableCount = source.unreadableCount
        return result
    }

    /// The size of the content in bytes; nil for standard input.
    var size: UInt64? { if case .repeatable(let source) = reading { source.offer.totalSize } else { nil } }

    /// Lines about the entries that were left out: of the first ones with the reasons, and the number of the others.
    func leftOutLines(upTo limit: Int) -> [String] {
        let named = skipped.prefix(limit).map { "left out: \($0)" }
        let more = skippedCount - named.count
        return more > 0 ? named + ["left out: \(more) more"] : named
    }

    /// Whether it has a folder, or a file that is larger than the mesh carries to any peer.
    var exceedsMesh: Bool {
        guard case .repeatable(let source) = reading else { return false }
        return source.offer.items.contains { item in
            item.kind == .folder || (item.size ?? 0) > UInt64(MeshFile.maximumContentByteCount)
        }
    }

    /// Each receiver with the source that it reads. Standard input must be read by all of them.
    func sources<Receiver>(for receivers: [Receiver]) -> [(receiver: Receiver, source: any ResourceSource)] {
        switch reading {
        case .repeatable(let source): return receivers.map { ($0, source) }
        case .standardInput(let name):
            let stream = StreamSource(
                descriptor: STDIN_FILENO, name: name, receivers: receivers.count, clock: { SystemClock.monotonic() })
            // The stream has one reader for each.
            return zip(receivers, stream.readers).map { ($0, $1) }
        }
    }
}
