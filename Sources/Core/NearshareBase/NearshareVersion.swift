/// The version of this package: the one place that states it.
///
/// `nearshare --version` prints it, and `make check` compares it with the newest heading of `CHANGELOG.md`.
package enum NearshareVersion {
    /// Semantic version, without a leading "v".
    package static let current = "0.1.0"

    /// The commit of which the sources are an archive; nil for a checkout. `git archive` writes it here, so that it is the same
    /// in every build of the archive.
    package static var commit: String? { commit(inArchive: "$Format:%H$") }

    /// - Parameter text: the 40 or 64 hexadecimal digits that git has written, or its placeholder.
    static func commit(inArchive text: String) -> String? {
        [40, 64].contains(text.count) && text.allSatisfy(\.isHexDigit) ? text : nil
    }
}
