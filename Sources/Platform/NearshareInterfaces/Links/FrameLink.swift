/// A link to one neighbour that sends each frame in one write, as the Bluetooth attribute protocol does.
///
/// Used by at most two threads: one that receives, one that sends. Calls block; ``close()`` from any thread wakes them.
package protocol FrameLink: AnyObject, Sendable {
    var remote: LinkAddress { get }

    /// Limit on the bytes of one ``send(_:)``.
    var maximumFrameByteCount: Int { get }

    /// How received chunks relate to frames.
    var delivery: FrameDelivery { get }

    /// The strength of the advertisement of the neighbour that this machine received last, also during the link; nil where none is
    /// known.
    var signal: SignalReading? { get }

    /// Blocks until a chunk arrives.
    /// - Returns: nil when the link is closed and no chunk that arrived before is left.
    func receive() -> [UInt8]?

    /// Blocks while the bounded send queue is full.
    func send(_ frame: [UInt8]) throws(LinkError)

    /// Closes the link. May be called more than once.
    func close()
}

extension FrameLink {
    package var signal: SignalReading? { nil }
}

/// How received chunks relate to frames.
package enum FrameDelivery: Sendable, Hashable {
    /// Each chunk is one frame.
    case whole
    /// Chunks are parts of a byte stream: frames may be joined and split anywhere.
    case stream
}

/// A radio that advertises this node, discovers neighbours and connects to them on its own.
package protocol FrameRadio: Sendable {
    /// Links to neighbours as they open, outgoing and incoming, until the sequence is no longer iterated or the radio ends.
    func links() -> AsyncStream<any FrameLink>
}

/// Opens a radio, when a node first needs it.
package typealias RadioOpener = @Sendable () throws(DiscoveryError) -> Radio

/// The services of one radio: frame links to neighbours, streams to peers, and discovery.
package struct Radio: Sendable {
    package var frames: any FrameRadio
    package var transport: any StreamTransport
    package var discovery: any Discovery
    /// Text chat with apps that support nothing else; nil where the radio does not offer it.
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
