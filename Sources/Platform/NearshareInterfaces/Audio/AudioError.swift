/// An error in recording, reading, writing or playing sound. The description is shown to the user.
package struct AudioError: Error, Sendable, Hashable, CustomStringConvertible {
    package enum Code: Sendable, Hashable {
        /// The library, the sound server or the device does not exist.
        case unavailable
        /// The device was disconnected.
        case deviceGone
        /// The disk is full.
        case noSpace
        /// The file is damaged or of another kind.
        case damaged
        /// A limit was exceeded.
        case overLimit
        case failed
    }

    package let code: Code
    package let description: String

    package init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }
}
