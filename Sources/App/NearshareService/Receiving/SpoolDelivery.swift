internal import Nearshare

/// Moves items from the spool into the inbox once the inbox is available again.
struct SpoolDelivery: Sendable {
    let inbox: Inbox
    let state: StateDirectory
    let reporter: any Reporter

    /// Interval of the attempts. There is no notification when a medium is mounted.
    private static let interval = Duration.seconds(5)

    /// Runs until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            for item in inbox.deliverPending() {
                if let stagedPath = item.stagedPath {
                    do {
                        try ReceiveHistory(in: state).recordMove(from: stagedPath, to: item.path)
                    } catch {
                        reporter.report(.warning("\(error)"))
                    }
                }
                reporter.report(.delivered(item, from: nil, nil))
            }
            try? await Task.sleep(for: Self.interval)
        }
    }
}
