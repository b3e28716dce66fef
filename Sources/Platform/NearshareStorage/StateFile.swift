package import NearshareCrypto
package import NearshareInterfaces
internal import Synchronization

/// Who has been dealt with, on the disk.
package typealias TrustFile = StateFile<TrustStore>

/// The keys that are known, on the disk.
package typealias ContactFile = StateFile<ContactBook>

/// A value that a file of JSON in the state directory holds. What another process writes counts at once: every question looks
/// whether the file is still the one that was read last.
package final class StateFile<Value: Codable & Sendable>: Sendable {
    private struct Reading {
        let value: Value
        /// Held open, so that its number can't become another file's while the two are compared.
        let file: FileDescriptor
        let version: FileVersion
    }

    private let directory: StateDirectory
    private let name: String
    private let empty: Value
    private let latest = Mutex<Reading?>(nil)

    /// - Parameter empty: what counts before there is a file.
    init(_ name: String, in directory: StateDirectory, startingWith empty: Value) {
        self.directory = directory
        self.name = name
        self.empty = empty
    }

    /// - Throws: ``StorageError`` when the file can't be read, or is damaged.
    package func read() throws(StorageError) -> Value {
        guard let version = try directory.version(of: name) else { return empty }
        if let value = latest.withLock({ $0?.version == version ? $0?.value : nil }) { return value }
        guard let file = try directory.openFile(name) else { return empty }
        // Before the content: whatever is written over it afterwards shows as another version.
        let read = FileVersion(try file.status())
        let value = try directory.decode(Value.self, from: file, called: name)
        latest.withLock { $0 = Reading(value: value, file: file, version: read) }
        return value
    }

    /// Reads, changes and replaces it, while no other process does. A node that hears much asks a copy of its own first whether
    /// there is anything to change.
    @discardableResult
    package func update<Result>(_ body: (inout Value) -> Result) throws(StorageError) -> Result {
        try directory.update(name, startingWith: empty, body)
    }
}

extension StateFile where Value == TrustStore {
    package convenience init(in directory: StateDirectory) {
        self.init("trust.json", in: directory, startingWith: TrustStore())
    }
}

extension StateFile where Value == ContactBook {
    package convenience init(in directory: StateDirectory) {
        self.init("contacts.json", in: directory, startingWith: ContactBook())
    }
}
