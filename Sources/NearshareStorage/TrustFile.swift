public import NearshareEdges
public import NearshareSecurity

/// The trust book on the disk. Every question reads the file anew, so that a decision made in another terminal counts at once.
public final class TrustFile: Sendable {
    private let directory: StateDirectory
    private static let name = "trust.json"

    public init(in directory: StateDirectory) {
        self.directory = directory
    }

    public func read() throws(StorageError) -> TrustBook {
        try directory.read(TrustBook.self, from: Self.name) ?? TrustBook()
    }

    @discardableResult
    public func change<Result>(_ body: (inout TrustBook) -> Result) throws(StorageError) -> Result {
        try directory.change(Self.name, startingWith: TrustBook(), body)
    }
}
