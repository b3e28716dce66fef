/// The way to a node: the one in this process, or one that runs beside it.
package protocol NodeClient: Sendable {
    /// - Throws: ``ControlFailure``, also for ``ControlReply/failed(_:)``.
    func ask(_ request: ControlRequest) async throws(ControlFailure) -> ControlReply

    /// Events from now on, in their order, until the node ends. Who reads too slowly loses the oldest.
    func events() async throws(ControlFailure) -> AsyncStream<ControlEvent>
}

extension NodeClient {
    /// Asks for something to be done, and gives the id of what will be.
    package func order(_ request: ControlRequest) async throws(ControlFailure) -> String {
        guard case .accepted(let id) = try await ask(request) else {
            throw ControlFailure(
                .unavailable, "the node answers something else than was asked; update nearshare, or end the node")
        }
        return id
    }
}
