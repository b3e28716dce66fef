public import NearshareEdges

/// The contact book on the disk. Every question reads the file anew, so that what another terminal imports counts at once.
public final class ContactFile: Sendable {
    private let directory: StateDirectory
    private static let name = "contacts.json"

    public init(in directory: StateDirectory) {
        self.directory = directory
    }

    public func read() throws(StorageError) -> ContactBook {
        try directory.read(ContactBook.self, from: Self.name) ?? ContactBook()
    }

    /// Reads, changes and replaces it, while no other process does. A node that hears much asks a copy of its own first whether
    /// there is anything to change.
    @discardableResult
    public func change<Result>(_ body: (inout ContactBook) -> Result) throws(StorageError) -> Result {
        try directory.change(Self.name, startingWith: ContactBook(), body)
    }
}
