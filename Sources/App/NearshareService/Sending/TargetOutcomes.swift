internal import Nearshare

/// How the targets of a send have ended, by their positions. Of targets that select the same receiver, the first one counts for all.
struct TargetOutcomes: Sendable {
    private var reachedFirst: [Int] = []
    private var distrustedFirst: [Int] = []
    /// The exit codes of the failures, by position.
    private var statuses: [Int: ExitStatus] = [:]
    /// The receivers that were found, with the position of the first target that selects each.
    private var receivers: [PeerID: Int] = [:]
    /// The positions of further targets, with that of the first one with the same receiver.
    private var repeated: [Int: Int] = [:]

    /// The number of targets whose receiver another one has selected before.
    var repeatedCount: Int { repeated.count }

    /// The targets that have received everything.
    var reached: [Int] { withRepeated(reachedFirst) }

    /// The targets whose key is not trusted.
    var distrusted: [Int] { withRepeated(distrustedFirst) }

    /// The exit code where no receiver was reached: that of a key that is not trusted, or else of the first target; nil without a
    /// failure.
    var failureStatus: ExitStatus? {
        statuses.values.contains(.notTrusted) ? .notTrusted : statuses.min { $0.key < $1.key }?.value
    }

    /// Claims the receiver that a target selects.
    /// - Returns: false where another target has selected it before.
    mutating func claim(_ receiver: PeerID, at position: Int) -> Bool {
        let first = receivers[receiver] ?? position
        receivers[receiver] = first
        if first != position { repeated[position] = first }
        return first == position
    }

    /// Records the end of a target.
    /// - Parameter failure: nil for success.
    mutating func record(_ failure: CommandFailure?, at position: Int) {
        if failure == nil, repeated[position] == nil { reachedFirst.append(position) }
        statuses[position] = failure?.status
        if failure?.status == .notTrusted { distrustedFirst.append(position) }
    }

    private func withRepeated(_ positions: [Int]) -> [Int] {
        (positions + repeated.filter { positions.contains($0.value) }.keys).sorted()
    }
}
