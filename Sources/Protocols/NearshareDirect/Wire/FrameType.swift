/// The first byte of every frame.
package enum FrameType {
    // A ``ControlFrame`` (`docs/PROTOCOL.md`, section 5).
    package static let hello: UInt8 = 0x01
    /// Opens the commitment to the short authentication string.
    package static let reveal: UInt8 = 0x02
    package static let ping: UInt8 = 0x03
    package static let pong: UInt8 = 0x04
    package static let close: UInt8 = 0x05
    /// Asks the other user to compare the short authentication string.
    package static let compare: UInt8 = 0x06
    /// A user's answer to the comparison.
    package static let compared: UInt8 = 0x07
    package static let offer: UInt8 = 0x10
    package static let accept: UInt8 = 0x11
    package static let decline: UInt8 = 0x12
    package static let resume: UInt8 = 0x13
    /// Raises the limit on bytes of content that the sender may send.
    package static let credit: UInt8 = 0x14
    package static let stored: UInt8 = 0x15
    package static let cancel: UInt8 = 0x16
    package static let cancelled: UInt8 = 0x17
    package static let changedNames: UInt8 = 0x18
    package static let features: UInt8 = 0x19
    /// Asks for the files of the offer, which the receiver compares with what it has.
    package static let listFiles: UInt8 = 0x1a
    /// Files that the receiver may have already: their digests are wanted.
    package static let candidates: UInt8 = 0x1b
    /// Files that the receiver has already, which are not sent.
    package static let present: UInt8 = 0x1c
    /// The list of the offer's entries, for a user who wants to see it.
    package static let contents: UInt8 = 0x1d
    /// The accepted part of the offer.
    package static let select: UInt8 = 0x1e

    /// The transfer's id, then bytes of its content stream. Not a control frame: the driver handles content.
    package static let content: UInt8 = 0x20

    // A ``StreamFrame`` (`docs/PROTOCOL.md`, section 11).
    package static let streamOpen: UInt8 = 0x30
    package static let streamData: UInt8 = 0x31
    package static let streamCredit: UInt8 = 0x32
    package static let streamFinish: UInt8 = 0x33
    package static let streamReset: UInt8 = 0x34

    /// One unreliable message (`docs/PROTOCOL.md`, section 12.5).
    package static let datagram: UInt8 = 0x35

    // A ``SessionFrame`` (`docs/PROTOCOL.md`, section 12).
    package static let sessionInvite: UInt8 = 0x40
    package static let sessionAccept: UInt8 = 0x41
    package static let sessionRefuse: UInt8 = 0x42
    package static let sessionWithdraw: UInt8 = 0x43
    package static let sessionRoster: UInt8 = 0x44
    package static let sessionLeave: UInt8 = 0x45
    package static let sessionDatagrams: UInt8 = 0x46
    package static let sessionFounder: UInt8 = 0x47
    /// A share of the key of a room's secret (section 12.7).
    package static let sessionShare: UInt8 = 0x48
    package static let sessionConfirm: UInt8 = 0x49
    /// A step of the agreement about the end of a link, before ``sessionLeave``.
    package static let sessionLeaving: UInt8 = 0x4a

    // A ``HotspotFrame`` (`docs/PROTOCOL.md`, section 17).
    package static let hotspotRequest: UInt8 = 0x50
    package static let hotspotAsking: UInt8 = 0x51
    package static let hotspotAgree: UInt8 = 0x52
    package static let hotspotNetwork: UInt8 = 0x53
    package static let hotspotJoined: UInt8 = 0x54
    package static let hotspotEnd: UInt8 = 0x55
}
