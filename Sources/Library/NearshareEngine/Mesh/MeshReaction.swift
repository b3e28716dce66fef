package import NearshareMesh

/// An event of a ``MeshMachine``'s router.
package struct MeshReaction: Sendable {
    package var event: MeshEvent
    /// The source that the event counts towards while it waits.
    package var source: PacketSource
}
