internal import Synchronization

/// A flag that is raised at most once and never lowered.
package final class OnceFlag: Sendable {
    private let value = Atomic(false)

    package init() {}

    package var isRaised: Bool { value.load(ordering: .acquiring) }

    /// - Returns: true for the one call that raised it.
    @discardableResult
    package func raise() -> Bool { !value.exchange(true, ordering: .acquiringAndReleasing) }
}
