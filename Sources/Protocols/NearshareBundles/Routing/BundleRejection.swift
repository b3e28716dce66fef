/// The reason why a bundle is not accepted for sending.
package enum BundleRejection: Error, Sendable, Hashable, CustomStringConvertible {
    case tooManyWaiting
    case notInRange

    package var description: String {
        switch self {
        case .tooManyWaiting: "too many messages are waiting to be delivered; wait until some have arrived or expired"
        case .notInRange: MessageError.receiverNotInRange.description
        }
    }
}
