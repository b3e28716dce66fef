internal import ArgumentParser
internal import Nearshare

/// A display name of 1 to 63 bytes, with at least one visible character and without control characters and line separators.
struct NameArgument: ExpressibleByArgument {
    let name: DisplayName

    init?(argument: String) {
        let isPlain = argument.unicodeScalars.allSatisfy { scalar in
            switch scalar.properties.generalCategory {
            case .control, .lineSeparator, .paragraphSeparator: false
            default: true
            }
        }
        guard isPlain, !argument.allSatisfy(\.isWhitespace), let name = try? DisplayName(argument) else { return nil }
        self.name = name
    }

    static let expected = expecting("a name of 1 to 63 bytes without control characters")
}
