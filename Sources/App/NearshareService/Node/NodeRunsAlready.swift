/// Another process of this user runs a node.
package struct NodeRunsAlready: Error, CustomStringConvertible {
    /// Process id.
    let process: Int32?

    package var description: String {
        "a node is already running\(process.map { " (process \($0))" } ?? ""); `nearshare mesh status` shows it, "
            + "`nearshare mesh stop` stops it"
    }
}
