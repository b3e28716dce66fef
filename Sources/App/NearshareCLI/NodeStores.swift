internal import Glibc
package import Nearshare
internal import Synchronization

/// What a node keeps in SQLite. Only `nearshare-node` has it linked: it makes every start slower, and who sends a file needs none.
package typealias NodeStores =
    @Sendable (_ directory: String) throws -> (
        carried: any BundleStore, conversations: any ConversationStore
    )

/// How this process opens them, if it can.
enum NodeStoreOpener {
    private static let opener = Mutex<NodeStores?>(nil)

    static func set(_ stores: NodeStores?) {
        opener.withLock { $0 = stores }
    }

    /// Opens them. In a process that can't, `nearshare-node` takes its place with the same arguments, and this does not return.
    static func open(in directory: String) throws -> (carried: any BundleStore, conversations: any ConversationStore) {
        if let open = opener.withLock({ $0 }) { return try open(directory) }
        try becomeNode()
    }

    /// Lets `nearshare-node` take the place of a process that can't open them: for one that may have to later on, in the middle of
    /// something.
    static func prepare() throws {
        if opener.withLock({ $0 }) == nil { try becomeNode() }
    }

    private static func becomeNode() throws -> Never {
        let own = ownPath()
        let directory = own.lastIndex(of: "/").map { String(own[..<$0]) } ?? "."
        let places = ["\(directory)/nearshare-node", "\(directory)/../libexec/nearshare/nearshare-node"]
        var arguments: [UnsafeMutablePointer<CChar>?] = CommandLine.arguments.map { strdup($0) } + [nil]
        for place in places { execv(place, &arguments) }
        throw CommandFailure(
            .failure, "nearshare-node is missing, looked for in \(directory) and ../libexec/nearshare; install nearshare again")
    }

    private static func ownPath() -> String {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
        let count = readlink("/proc/self/exe", &buffer, buffer.count - 1)
        return count > 0 ? String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self) : ""
    }
}
