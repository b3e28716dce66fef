internal import Nearshare

/// The text of the part of an offer that was accepted.
enum PartText {
    /// A sentence such as "3 of 12 files accepted, 4.1 MB".
    /// - Parameter receiver: escaped; nil where this user has accepted it.
    static func sentence(_ part: OfferPart.Counts, by receiver: String?) -> String {
        let files = "\(part.accepted) of \(part.offered) \(part.offered == 1 ? "file" : "files")"
        return receiver.map { "\($0) has accepted \(files), \(part.size.formattedByteCount)" }
            ?? "\(files) accepted, \(part.size.formattedByteCount)"
    }

    static func json(_ part: OfferPart.Counts) -> JSONValue {
        .object(["count": .number(part.accepted), "offered": .number(part.offered), "size": .number(part.size)])
    }
}
