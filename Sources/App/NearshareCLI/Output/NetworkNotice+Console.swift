internal import NearshareService

extension NetworkNotice {
    /// Shows a state on standard error.
    @Sendable static func show(_ state: State) {
        switch state {
        case .absent: Console.warn(state.text)
        case .available: Console.notice(state.text)
        }
    }
}
