internal import ArgumentParser
internal import Nearshare

/// A size such as `500MB`.
struct SizeArgument: ExpressibleByArgument {
    let bytes: UInt64

    init?(argument: String) {
        guard let bytes = ByteSize.parse(argument) else { return nil }
        self.bytes = bytes
    }

    static let expected = expecting("a size such as 500MB")
}
