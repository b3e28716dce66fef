/// A link to one neighbour over which frames go whole, each in one write, as over Bluetooth's attribute protocol.
///
/// Used by two threads at most: one that receives, one that sends. Calls block; ``close()`` from any thread wakes them.
package protocol FrameLink: AnyObject, Sendable {
    var remote: LinkAddress { get }

    /// In bytes; ``send(_:)`` takes no more at once.
    var largestWrite: Int { get }

    /// How pieces that arrive relate to frames.
    var pieces: FramePieces { get }

    /// Blocks until a piece has come.
    /// - Returns: nil when the link has ended.
    func receive() -> [UInt8]?

    /// Blocks while the queue is full, which is bounded.
    func send(_ frame: [UInt8]) throws(LinkError)

    /// Ends it. May be called more than once.
    func close()
}

package enum FramePieces: Sendable, Hashable {
    /// Each is one frame, or nothing.
    case whole
    /// Frames follow each other in them, and may be cut anywhere.
    case stream
}

/// Finds neighbours by itself, lets them find us, and keeps links to them.
package protocol FrameRadio: Sendable {
    /// Links to neighbours as they come up, ours and theirs, until the sequence is no longer iterated or the radio ends.
    func links() -> AsyncStream<any FrameLink>
}

/// A radio: frames to neighbours, streams to peers, and who is there.
package struct Radio: Sendable {
    package var frames: any FrameRadio
    package var transport: any StreamTransport
    package var discovery: any Discovery
    /// Texts to those who know nothing but texts; nil where the radio has no such thing.
    package var chat: (any ChatRadio)?

    package init(
        frames: any FrameRadio, transport: any StreamTransport, discovery: any Discovery, chat: (any ChatRadio)? = nil
    ) {
        self.frames = frames
        self.transport = transport
        self.discovery = discovery
        self.chat = chat
    }
}
