package import NearshareBase
package import NearshareCrypto
package import NearshareInterfaces
internal import Synchronization

/// The stored trust book.
package typealias TrustFile = StateFile<TrustStore>

/// The stored contact book.
package typealias ContactFile = StateFile<ContactBook>

/// A value stored as a JSON file in the state directory. Changes of other processes take effect immediately: every read checks
/// whether the file is still the version that was read last.
package final class StateFile<Value: Codable & Sendable>: Sendable {
    private struct Reading {
        let value: Value
        /// Kept open, so that no other file gets its inode number while the versions are compared.
        let file: FileDescriptor
        let version: FileVersion
    }

    private let directory: StateDirectory
    private let name: String
    private let empty: Value
    private let latest = Mutex<Reading?>(nil)

    /// - Parameter empty: the value before the file exists.
    init(_ name: String, in directory: StateDirectory, startingWith empty: Value) {
        self.directory = directory
        self.name = name
        self.empty = empty
    }

    /// - Throws: ``StorageError`` when the file cannot be read, or is damaged.
    package func read() throws(StorageError) -> Value {
        guard let version = try directory.version(of: name) else { return empty }
        if let value = latest.withLock({ $0?.version == version ? $0?.value : nil }) { return value }
        guard let file = try directory.openFile(name) else { return empty }
        // Read before the content: a later change of the file has another version.
        let read = FileVersion(try file.status())
        let value = try directory.decode(Value.self, from: file, called: name)
        latest.withLock { $0 = Reading(value: value, file: file, version: read) }
        return value
    }

    /// The value that was read last, while the file cannot be read.
    package var latestValue: Value? { latest.withLock { $0?.value } }

    /// Reads, changes and replaces the value under a lock of all processes. Callers with frequent updates first check a copy
    /// for whether there is a change.
    @discardableResult
    package func update<Result>(_ body: (inout Value) -> Result) throws(StorageError) -> Result {
        try directory.update(name, startingWith: empty, body)
    }
}

extension StateFile where Value == TrustStore {
    /// Records a contact with a peer, and pins its key. The file is not replaced for another contact within a minute.
    /// - Parameters:
    ///   - isChosen: false where a rule has accepted the peer's content, and not the user.
    ///   - mayWrite: called when the file is to be replaced; nothing is recorded when it returns false.
    package func recordContact(
        with peer: AuthenticatedPeer, named name: DisplayName, version: UInt8? = nil, isChosen: Bool = true, at now: WallTime,
        ifAllowed mayWrite: () -> Bool = { true }
    ) throws(StorageError) {
        let isRecorded = try read().isRecorded(peer, named: name, version: version, isChosen: isChosen, at: now)
        if isRecorded || !mayWrite() { return }
        try update { $0.recordContact(with: peer, named: name, version: version, isChosen: isChosen, at: now) }
    }

    package convenience init(in directory: StateDirectory) {
        self.init(StateDirectory.trustFileName, in: directory, startingWith: TrustStore())
    }
}

extension StateFile where Value == ContactBook {
    package convenience init(in directory: StateDirectory) {
        self.init(StateDirectory.contactFileName, in: directory, startingWith: ContactBook())
    }
}
