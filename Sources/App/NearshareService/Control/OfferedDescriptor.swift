internal import Glibc
internal import Synchronization

/// A link that a node in another process offers. Unless its descriptor is taken, it is closed with the last reference.
final class OfferedDescriptor: Sendable {
    /// The number by which the link is claimed.
    let number: Int
    /// The bytes that the node has read.
    let opening: [UInt8]
    /// -1 when it was taken.
    private let descriptor: Atomic<Int32>

    init(number: Int, owning descriptor: Int32, opening: [UInt8]) {
        self.number = number
        self.opening = opening
        self.descriptor = Atomic(descriptor)
    }

    deinit {
        let descriptor = take()
        if descriptor >= 0 { close(descriptor) }
    }

    /// Passes the descriptor to the caller, who owns it from then on. Called once.
    func take() -> Int32 { descriptor.exchange(-1, ordering: .relaxed) }
}
