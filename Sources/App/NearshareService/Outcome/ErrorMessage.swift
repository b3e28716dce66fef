internal import Nearshare
internal import NearshareBundles

/// The sentence by which a command tells its user of an error. The library's errors say what failed; the commands that help
/// are added here.
package enum ErrorMessage {
    package static func text(for error: any Error) -> String {
        guard let advice = advice(on: error) else { return "\(error)" }
        return "\(error); \(advice)"
    }

    /// How this machine gets the keys of a receiver of messages.
    static let missingKeysAdvice =
        "run `nearshare receive` on the receiver's machine, near this one, and send it again; or run `nearshare keys export` "
        + "there, and `nearshare keys import FILE --for NAME` here"

    /// The address book is full of peers that the user has decided about.
    static let addressBookFull = "the address book is full; `nearshare peers forget` makes room"

    private static func advice(on error: any Error) -> String? {
        switch error {
        case NodeError.notFound(_, let nearby) where nearby.isEmpty:
            "is `nearshare receive` running there, on the same network? `nearshare doctor` looks for causes"
        case NodeError.blocked(let peer): "`nearshare peers unblock\(PeerID(hex: peer).map { " \($0.hex)" } ?? "")` unblocks it"
        case MessageError.fileTooLarge: "send it with `nearshare send`"
        case ExportedKeys.Invalid.notAKeysFile: "create one with `nearshare keys export` on the other machine"
        case MessageError.receiverKeyUnknown: missingKeysAdvice
        case MessageError.receiverTakesNone: "use `nearshare chat`"
        default: nil
        }
    }
}
