internal import Nearshare
internal import NearshareDatabase

/// The SQLite stores of a node. Only a command that becomes a node opens them.
struct NodeStores: Sendable {
    let bundles: any BundleStore
    let conversations: any ConversationStore

    /// - Parameter directory: the state directory.
    init(directory: String) throws {
        bundles = try SQLiteBundleStore(directory: directory)
        conversations = try SQLiteConversationStore(directory: directory)
    }
}
