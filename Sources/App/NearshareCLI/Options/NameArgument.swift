internal import ArgumentParser
internal import Nearshare

/// A display name of 1 to 63 bytes, with at least one visible character and without control characters and line separators. A name in
/// the form of an id is read as an id, and would select another peer or none (K2).
struct NameArgument: ExpressibleByArgument {
    let name: DisplayName

    init?(argument: String) {
        var isVisible = false
        for scalar in argument.unicodeScalars {
            switch scalar.properties.generalCategory {
            case .control, .lineSeparator, .paragraphSeparator: return nil
            case .spaceSeparator, .format, .unassigned: break
            default: isVisible = true
            }
        }
        guard isVisible, PeerID(hex: argument) == nil, let name = try? DisplayName(argument) else { return nil }
        self.name = name
    }

    static let expected = expecting(
        "a visible name of 1 to 63 bytes, without line breaks and control characters, that is not 16 hexadecimal digits like an id"
    )
}
