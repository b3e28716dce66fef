/// The identifier of a byte stream within its link: odd for streams that the link's initiator opens, even for the responder's.
/// Each is used once, in ascending order.
package struct StreamID: Sendable, Hashable, Comparable {
    /// 0 is rejected when a frame is decoded.
    package let rawValue: UInt32

    /// - Parameter rawValue: An identifier read from a frame, or the next one.
    package init(rawValue: UInt32) {
        self.rawValue = rawValue
    }

    package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}
