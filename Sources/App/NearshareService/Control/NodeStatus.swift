package import Nearshare
internal import NearshareBundles

/// The state of a node.
package struct NodeStatus: Sendable, Hashable, Codable {
    package struct Profile: Sendable, Hashable, Codable {
        /// nil for a profile without a name.
        package var name: String?
        package var hopLimit: Int
        /// Seconds.
        package var timeToLive: Int
        /// Milliseconds.
        package var sharingTime: Int
        package var maximumPropagation: Int
        package var tracklistLimit: Int

        package init(
            name: String?, hopLimit: Int, timeToLive: Int, sharingTime: Int, maximumPropagation: Int, tracklistLimit: Int
        ) {
            self.name = name
            self.hopLimit = hopLimit
            self.timeToLive = timeToLive
            self.sharingTime = sharingTime
            self.maximumPropagation = maximumPropagation
            self.tracklistLimit = tracklistLimit
        }

        init(_ profile: PropagationProfile, name: String?) {
            self.init(
                name: profile.name ?? name, hopLimit: profile.hopLimit, timeToLive: profile.timeToLiveSeconds,
                sharingTime: profile.sharingTimeMilliseconds, maximumPropagation: profile.maximumPropagation,
                tracklistLimit: profile.tracklistLimit)
        }
    }

    /// The strength of an advertisement over Bluetooth.
    package struct Signal: Sendable, Hashable, Codable {
        /// dBm.
        package var strength: Int
        /// Seconds since the advertisement was received.
        package var age: Int

        package init(strength: Int, age: Int) {
            self.strength = strength
            self.age = age
        }

        init(_ reading: SignalReading, at now: MonotonicInstant) {
            self.init(strength: reading.strength, age: Int((now - reading.time).components.seconds))
        }
    }

    /// A peer in the mesh.
    package struct Neighbour: Sendable, Hashable, Codable {
        package var contact: Contact
        /// Whether there is a link to it, rather than a path through other peers.
        package var isDirect: Bool
        /// The advertisement of the neighbour that this machine received last; nil where none is known.
        package var signal: Signal?

        package init(contact: Contact, isDirect: Bool, signal: Signal? = nil) {
            self.contact = contact
            self.isDirect = isDirect
            self.signal = signal
        }
    }

    package enum Bluetooth: Sendable, Hashable, Codable {
        case starting
        case notUsed
        case on(channel: UInt16)
        case unavailable(reason: String)
    }

    package var id: PeerID
    package var name: DisplayName
    /// Process id.
    package var process: Int32
    /// Seconds since the start.
    package var uptime: Int
    /// Whether `mesh run` has started the node, rather than a command that needs one while it runs.
    package var isDaemon: Bool
    package var profile: Profile
    package var port: UInt16
    package var neighbours: [Neighbour]
    /// Number of stored messages, of this node and of others.
    package var storedBundleCount: Int
    /// Lifetime of a secure session, in seconds.
    package var sessionLifetime: Int
    package var secureSessions: [PeerID]
    package var bluetooth: Bluetooth
    /// Empty when received files are not stored.
    package var inbox: String
    /// Number of processes of the user that have asked for the links of peers; nil where the node does not count them.
    package var linkReceiverCount: Int?

    package init(
        id: PeerID, name: DisplayName, process: Int32, uptime: Int, isDaemon: Bool, profile: Profile, port: UInt16,
        neighbours: [Neighbour], storedBundleCount: Int, sessionLifetime: Int, secureSessions: [PeerID], bluetooth: Bluetooth,
        inbox: String
    ) {
        self.id = id
        self.name = name
        self.process = process
        self.uptime = uptime
        self.isDaemon = isDaemon
        self.profile = profile
        self.port = port
        self.neighbours = neighbours
        self.storedBundleCount = storedBundleCount
        self.sessionLifetime = sessionLifetime
        self.secureSessions = secureSessions
        self.bluetooth = bluetooth
        self.inbox = inbox
    }

    private enum CodingKeys: String, CodingKey {
        case id, name, process, uptime
        case isDaemon = "isStanding"
        case profile, port, neighbours, storedBundleCount, sessionLifetime, secureSessions, bluetooth, inbox, linkReceiverCount
    }
}
