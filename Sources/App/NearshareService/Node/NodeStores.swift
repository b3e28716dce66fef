package import Nearshare
internal import NearshareBundles
internal import NearshareDatabase

/// The SQLite stores of a node. They are opened only by a command that runs a node, or one that lists messages without a node.
package struct NodeStores: Sendable {
    package let bundles: any BundleStore
    package let conversations: any ConversationStore

    /// - Parameter directory: the state directory.
    package init(directory: String) throws(StorageError) {
        bundles = try SQLiteBundleStore(directory: directory)
        conversations = try SQLiteConversationStore(directory: directory)
    }
}
