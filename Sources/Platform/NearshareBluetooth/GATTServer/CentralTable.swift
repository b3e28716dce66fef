internal import NearshareBase
internal import NearshareInterfaces

/// The links of centrals that write frames to this machine, by the central's object path.
struct CentralTable {
    private struct Entry {
        let link: GATTServerLink
        var lastWrite: MonotonicInstant
    }

    private var entries: [String: Entry] = [:]

    /// Limit on centrals of one peripheral (bitchat specification, section 11).
    static let maximumCount = 8
    /// bitchat's peers announce themselves every 30 s; a link that is silent for longer than this has no peer any more.
    static let silenceTimeout = Duration.seconds(150)

    var count: Int { entries.count }
    var isFull: Bool { entries.count >= Self.maximumCount }
    var paths: Set<String> { Set(entries.keys) }

    func contains(_ path: String) -> Bool { entries[path] != nil }

    /// Delivers a write to the central's link.
    /// - Returns: false for a central without one.
    mutating func deliver(_ bytes: [UInt8], from path: String, at now: MonotonicInstant) -> Bool {
        guard let link = entries[path]?.link else { return false }
        entries[path]?.lastWrite = now
        link.deliver(bytes)
        return true
    }

    mutating func add(_ link: GATTServerLink, for path: String, at now: MonotonicInstant) {
        entries[path] = Entry(link: link, lastWrite: now)
    }

    /// Removes a link that was closed; a newer one of the same central stays.
    mutating func removeClosed(_ path: String) {
        if entries[path]?.link.isClosed == true { entries[path] = nil }
    }

    func close(_ path: String) { entries[path]?.link.close() }

    func setSignal(_ signal: SignalReading, of path: String) { entries[path]?.link.setSignal(signal) }

    func closeAll() {
        for entry in entries.values { entry.link.close() }
    }

    func closeSilent(at now: MonotonicInstant) {
        for entry in entries.values where now - entry.lastWrite >= Self.silenceTimeout { entry.link.close() }
    }

    var nextDeadline: MonotonicInstant? { entries.values.map { $0.lastWrite + Self.silenceTimeout }.min() }
}
