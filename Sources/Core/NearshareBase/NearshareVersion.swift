/// The version of this package: the one place that states it.
///
/// `nearshare --version` prints it, and `make check` compares it with the newest heading of `CHANGELOG.md`.
package enum NearshareVersion {
    /// Semantic version, without a leading "v".
    package static let current = "0.1.0"
}
