/// The treatment of a received item whose name an item of the inbox has already. The raw values are stored.
package enum ExistingFilePolicy: String, Sendable, Codable, Hashable, CaseIterable {
    /// Both are kept, and the received one gets a number.
    case keepBoth
    /// An item of which everything is there already is not kept twice; any other one gets a number.
    case skipIdentical
    /// A folder is merged into the one that exists, and a file replaces an older one.
    case update
    /// Merges folders; a file replaces any other one.
    case overwrite

    /// The word for the configuration file.
    package var word: String {
        switch self {
        case .keepBoth: "keep-both"
        case .skipIdentical: "skip-identical"
        case .update: "update"
        case .overwrite: "overwrite"
        }
    }

    /// Whether files may be replaced.
    var mergesFolders: Bool { self == .update || self == .overwrite }
}
