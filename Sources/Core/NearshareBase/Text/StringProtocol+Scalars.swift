/// Operations on scalars instead of characters. A `Character` contains the marks that follow its first scalar, so that a slash or a
/// quotation mark before such a mark does not equal `"/"` or `"\""`. The kernel, shells and terminals see it all the same (T4).
extension StringProtocol {
    /// The text with another text in place of each occurrence of a scalar.
    package func replacing(scalar: Unicode.Scalar, with replacement: String) -> String {
        var result = String.UnicodeScalarView()
        for each in unicodeScalars {
            if each == scalar { result.append(contentsOf: replacement.unicodeScalars) } else { result.append(each) }
        }
        return String(result)
    }

    /// The parts between the occurrences of a scalar.
    package func split(atScalar separator: Unicode.Scalar, omittingEmpty: Bool = true) -> [String] {
        unicodeScalars.split(separator: separator, omittingEmptySubsequences: omittingEmpty)
            .map { String(String.UnicodeScalarView($0)) }
    }

    /// The components of a path.
    package var pathComponents: [String] { split(atScalar: "/") }

    /// The part of a path before its last slash; nil without one.
    package var pathOfParent: String? {
        unicodeScalars.lastIndex(of: "/").map { String(String.UnicodeScalarView(unicodeScalars[..<$0])) }
    }

    /// A path without slashes at its end, such as shells write behind the name of a folder; the root as it is.
    package var withoutFinalSlashes: String {
        guard let last = unicodeScalars.lastIndex(where: { $0 != "/" }) else { return String(self) }
        return String(String.UnicodeScalarView(unicodeScalars[...last]))
    }

    /// The part of a path after its last slash; all of it without one.
    package var nameInParent: String {
        guard let slash = unicodeScalars.lastIndex(of: "/") else { return String(self) }
        return String(String.UnicodeScalarView(unicodeScalars[slash...].dropFirst()))
    }

    /// The part of a file name after its last dot; nil without one.
    package var fileNameExtension: String? {
        unicodeScalars.lastIndex(of: ".").map {
            String(String.UnicodeScalarView(unicodeScalars[unicodeScalars.index(after: $0)...]))
        }
    }

    /// Whether this path denotes a directory, or something in it. Both are absolute and resolved.
    package func isPath(inside directory: String) -> Bool {
        utf8.elementsEqual(directory.utf8) || utf8.starts(with: "\(directory)/".utf8)
    }
}
