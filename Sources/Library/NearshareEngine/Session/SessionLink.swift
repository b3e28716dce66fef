internal import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareInterfaces
internal import Synchronization

/// A link to a member of a session, created when both ends have agreed.
final class SessionLink: Sendable {
    /// The address for datagrams, as far as it is known.
    struct DatagramPath {
        var cipher: NoiseDatagrams
        var remote: (address: LinkAddress, tag: UInt64)?
        /// The peer has answered a probe on this path.
        var isProven = false
    }

    let peer: PeerID
    let driver: LinkDriver
    /// The numeric address of the peer's host; nil for a link that is not over the network.
    let remoteHost: String?
    /// This node's host address on the link.
    let localHost: String?
    /// The relaying member; nil for a direct link.
    let relay: PeerID?
    let isInitiator: Bool
    /// Whether the peer has become a member by this link.
    let isAdmission: Bool
    /// The latest time at which the other end agrees; nil when it has agreed already.
    let expiry: MonotonicInstant?
    let channelLink: MessageChannel.LinkID
    /// Tag that prefixes datagrams received for this link.
    let datagramTag: UInt64
    let datagramPath: Mutex<DatagramPath>
    /// Whether both ends accept streams and offers on the link.
    let isComplete = Atomic(false)
    /// The agreement about the end of the link, when one of its ends leaves the session.
    let departure = Mutex(LinkDeparture())
    /// State of writing to the message stream; one thread at a time.
    let output = Mutex(Output())

    struct Output {
        var stream: ByteStream?
        /// Bytes that the stream had no room for.
        var pending: ArraySlice<UInt8> = []
    }

    init(
        peer: PeerID, driver: LinkDriver, remoteHost: String?, localHost: String?, relay: PeerID?, isInitiator: Bool,
        isAdmission: Bool, expiry: MonotonicInstant?, channelLink: MessageChannel.LinkID, datagramTag: UInt64,
        cipher: NoiseDatagrams
    ) {
        self.peer = peer
        self.driver = driver
        self.remoteHost = remoteHost
        self.localHost = localHost
        self.relay = relay
        self.isInitiator = isInitiator
        self.isAdmission = isAdmission
        self.expiry = expiry
        self.channelLink = channelLink
        self.datagramTag = datagramTag
        datagramPath = Mutex(DatagramPath(cipher: cipher))
    }

    /// Schedules a turn of the link's writer thread, because the message stream may have frames to send.
    func wake() {
        driver.streams.requestFrames()
    }

    /// Does the same as ``wake()``, but on the calling thread unless another is writing.
    func flush() {
        driver.streams.requestFrames(wakesWriter: false)
        driver.flush()
    }
}
