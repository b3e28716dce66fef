internal import Glibc
internal import NearshareTerminal

/// The status lines of a recording or a playback, drawn again when they change.
enum VoiceDisplay {
    private static let pause = Duration.milliseconds(50)

    /// Shows the lines now, after each change, and after each change of the terminal's size, until the task is cancelled.
    static func run(_ changes: AsyncStream<Void>, lines: @escaping @Sendable () -> [String]) async {
        let sizes = Signals.stream([SIGWINCH])
        StatusDisplay.shared.show(lines())
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                for await _ in changes where !Task.isCancelled {
                    StatusDisplay.shared.show(lines())
                    // Timed: limits the redraws to 20 a second, as sound arrives in smaller pieces.
                    try? await Task.sleep(for: Self.pause)
                }
            }
            group.addTask {
                for await _ in sizes where !Task.isCancelled { StatusDisplay.shared.show(lines()) }
            }
        }
    }
}
