package import NearshareBase
package import NearshareInterfaces

/// What a command asks the node that runs on this machine to do.
package enum ControlRequest: Sendable, Hashable, Codable {
    /// What the node is doing. Answer: ``ControlReply/status(_:)``.
    case status
    /// Who is near, and who is a friend or has a conversation. Answer: ``ControlReply/people(_:)``.
    case people
    /// Whom a name means: an id, a name, or the beginning of one. Waits until somebody is heard of, for at most so many seconds.
    /// Answer: ``ControlReply/people(_:)`` with one.
    case find(String, seconds: Double)
    /// Sends a message. Answer: ``ControlReply/accepted(_:)``; what becomes of it follows as
    /// ``ControlEvent/messageChanged(id:state:detail:)``.
    case message(MessageOrder)
    /// Whether a message of ours, by its id, still waits to be delivered. Answer: ``ControlReply/waits(_:)``.
    case waits(String)
    /// Messages that have come, after a number. Answer: ``ControlReply/arrivals(_:)``.
    case arrivals(after: Int, limit: Int)
    /// Says something in a conversation. Answer: ``ControlReply/accepted(_:)`` with the id of the line, which also comes as
    /// ``ControlEvent/entry(_:)``.
    case say(String, in: Conversation)
    /// Answer: ``ControlReply/conversations(_:)``.
    case conversations
    /// The newest lines before a number, the oldest of them first. Answer: ``ControlReply/entries(_:)``.
    case history(Conversation, before: Int?, limit: Int)
    /// The person has seen what is in a conversation. Answer: ``ControlReply/done``.
    case markRead(Conversation)
    /// Sends a file; an absolute path. Answer: ``ControlReply/accepted(_:)`` with the transfer's id; how it goes follows as
    /// ``ControlEvent/transfer(_:)``. After so many seconds without an answer from there it is withdrawn; nil for the usual time.
    case sendFile(path: String, to: PeerID, timeout: Double? = nil)
    /// Events from now on. Answer: ``ControlReply/done``; before it, none comes.
    case follow
    /// Asks a node that only receives besides to leave its place to the asking process, which takes the lock next.
    /// Answer: ``ControlReply/done``; the socket closes afterwards.
    case handOver
    /// Ends the node. Answer: ``ControlReply/done``.
    case stop
}

/// The answer to one request.
package enum ControlReply: Sendable, Hashable, Codable {
    case done
    /// The id of what will be done.
    case accepted(String)
    case status(NodeStatus)
    case people([Person])
    case waits(Bool)
    case arrivals([Arrival])
    case conversations([ConversationSummary])
    case entries([ChatMessage])
    case failed(ControlFailure)
}

/// What happens in the node.
package enum ControlEvent: Sendable, Hashable, Codable {
    /// A message of ours, by its id.
    case messageChanged(id: String, state: MessageState, detail: String?)
    case arrived(Arrival)
    /// A line was written, here or elsewhere, and is in the conversation now.
    case entry(ChatMessage)
    /// A line of ours has come further, or failed; then why, for people.
    case marked(id: String, conversation: Conversation, mark: MessageStatus, reason: String?)
    /// Somebody came, went, or changed; all who are to be shown now.
    case people([Person])
    case transfer(TransferLine)
    /// A sentence for the person.
    case notice(String)
}

/// What becomes of a message.
package enum MessageState: String, Sendable, Hashable, Codable {
    /// A carrier, or the receiver, has taken it.
    case sent
    /// The receiver has acknowledged it.
    case delivered
    case failed
}

/// Why a request was not fulfilled.
package struct ControlFailure: Error, Sendable, Hashable, Codable, CustomStringConvertible {
    package enum Kind: String, Sendable, Hashable, Codable {
        /// What was asked breaks a rule.
        case refused
        case peerNotFound
        case storage
        case unavailable
        /// More than the way takes.
        case tooLarge
        /// Somebody who is blocked.
        case blocked
        /// The node has ended in the middle.
        case gone
    }

    package var kind: Kind
    /// What failed, and what to try.
    package var description: String

    package init(_ kind: Kind, _ description: String) {
        self.kind = kind
        self.description = description
    }
}

/// Somebody who is near, a friend, or in a conversation.
package struct Person: Sendable, Hashable, Codable {
    /// What they can do.
    package enum Software: String, Sendable, Hashable, Codable {
        case nearshare
        /// bitchat: texts and files, not carried.
        case phone
        /// BlueChat over Bluetooth: text.
        case blueChat
        /// Not heard of now.
        case unknown
    }

    package var id: PeerID
    /// What they call themselves, or what the person here calls them.
    package var name: DisplayName
    /// new, seen, verified, friend, blocked or changed.
    package var trustStatus: String
    package var isFriend: Bool
    /// Heard of in the mesh, or found by discovery, at the moment.
    package var isNear: Bool
    package var software: Software
    /// Messages can be sealed for them although they aren't near.
    package var hasKeys: Bool
    /// Their name is known here with another key (K2).
    package var takesAnothersName: Bool { trustStatus == "changed" }

    package init(
        id: PeerID, name: DisplayName, trustStatus: String, isFriend: Bool, isNear: Bool, software: Software, hasKeys: Bool
    ) {
        self.id = id
        self.name = name
        self.trustStatus = trustStatus
        self.isFriend = isFriend
        self.isNear = isNear
        self.software = software
        self.hasKeys = hasKeys
    }
}

/// A message that is to be sent.
package struct MessageOrder: Sendable, Hashable, Codable {
    /// An encoded structured value.
    package var content: [UInt8]
    /// direct, mesh, full or broadcast.
    package var mode: String
    package var receiver: PeerID?
    package var isEncrypted: Bool
    package var isPrivate: Bool
    /// An absolute path of a file to go beside it.
    package var file: String?
    /// Seconds after which the file is withdrawn when nobody there has answered; nil for the usual time.
    package var timeout: Double?

    package init(
        content: [UInt8], mode: String, receiver: PeerID?, isEncrypted: Bool, isPrivate: Bool = false, file: String? = nil,
        timeout: Double? = nil
    ) {
        self.content = content
        self.mode = mode
        self.receiver = receiver
        self.isEncrypted = isEncrypted
        self.isPrivate = isPrivate
        self.file = file
        self.timeout = timeout
    }
}

/// A message that has come.
package struct Arrival: Sendable, Hashable, Codable {
    /// In which order messages came, from 1.
    package var number: Int
    package var id: String
    /// Whose key sealed it; nil for what was not sealed.
    package var sender: PeerID?
    package var senderName: DisplayName?
    /// Of the key that signed it, in hexadecimal digits.
    package var signer: String
    /// An encoded structured value.
    package var content: [UInt8]
    package var isForEverybody: Bool
    /// By its sender's clock.
    package var created: WallTime
    package var received: WallTime
    package var hops: Int

    package init(
        number: Int, id: String, sender: PeerID?, senderName: DisplayName?, signer: String, content: [UInt8],
        isForEverybody: Bool, created: WallTime, received: WallTime, hops: Int
    ) {
        self.number = number
        self.id = id
        self.sender = sender
        self.senderName = senderName
        self.signer = signer
        self.content = content
        self.isForEverybody = isForEverybody
        self.created = created
        self.received = received
        self.hops = hops
    }
}

/// How a file goes.
package struct TransferLine: Sendable, Hashable, Codable {
    /// The transfer's; of a file beside a message, the message's.
    package var id: String
    package var isIncoming: Bool
    package var peer: PeerID
    package var name: String
    package var done: UInt64
    package var total: UInt64?
    /// completed, declined, expired, cancelled, failed or interrupted; nil while it goes on.
    package var outcome: String?
    /// A sentence for the person: of what goes on, what they should know of it; of what has ended, how.
    package var detail: String?

    package init(
        id: String, isIncoming: Bool, peer: PeerID, name: String, done: UInt64, total: UInt64?, outcome: String? = nil,
        detail: String? = nil
    ) {
        self.id = id
        self.isIncoming = isIncoming
        self.peer = peer
        self.name = name
        self.done = done
        self.total = total
        self.outcome = outcome
        self.detail = detail
    }
}

/// What a node is doing.
package struct NodeStatus: Sendable, Hashable, Codable {
    package struct Profile: Sendable, Hashable, Codable {
        /// nil for one that the person has put together.
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
    }

    /// Frames go to somebody without others between.
    package struct Neighbour: Sendable, Hashable, Codable {
        package var person: Person
        package var isDirect: Bool

        package init(person: Person, isDirect: Bool) {
            self.person = person
            self.isDirect = isDirect
        }
    }

    package var id: PeerID
    package var name: DisplayName
    package var process: Int32
    /// Seconds since it began.
    package var uptime: Int
    /// It was started to run by itself, rather than by a command that needed one.
    package var isStanding: Bool
    package var profile: Profile
    package var port: UInt16
    package var neighbours: [Neighbour]
    /// Messages that are carried, its own and others'.
    package var carriedCount: Int
    /// Seconds that a secure session counts without being used.
    package var sessionLifetime: Int
    package var secureSessions: [PeerID]
    /// What is to be said of Bluetooth.
    package var bluetooth: String
    package var inbox: String

    package init(
        id: PeerID, name: DisplayName, process: Int32, uptime: Int, isStanding: Bool, profile: Profile, port: UInt16,
        neighbours: [Neighbour], carriedCount: Int, sessionLifetime: Int, secureSessions: [PeerID], bluetooth: String,
        inbox: String
    ) {
        self.id = id
        self.name = name
        self.process = process
        self.uptime = uptime
        self.isStanding = isStanding
        self.profile = profile
        self.port = port
        self.neighbours = neighbours
        self.carriedCount = carriedCount
        self.sessionLifetime = sessionLifetime
        self.secureSessions = secureSessions
        self.bluetooth = bluetooth
        self.inbox = inbox
    }
}
