internal import Nearshare

/// The texts of progress that the terminal and notifications have in common.
package enum ProgressText {
    /// The bytes that have been transferred, and the total where it is known: "1.0 MB of 2.0 MB", "1.0 MB so far".
    package static func byteCounts(_ done: UInt64, of total: UInt64?) -> String {
        done.formattedByteCount + (total.map { " of \($0.formattedByteCount)" } ?? " so far")
    }

    /// The completed part, 0 to 100; an empty transfer is complete.
    package static func percentage(_ done: UInt64, of total: UInt64) -> Int {
        total == 0 ? 100 : Int(min(100, Double(done) * 100 / Double(total)))
    }
}
