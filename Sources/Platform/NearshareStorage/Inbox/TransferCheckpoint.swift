internal import FoundationEssentials
internal import NearshareBase
internal import NearshareInterfaces

/// The state of an incoming transfer, stored in the file `journal` of its staging directory: enough to resume after a restart.
/// It may lag behind the received content, never be ahead of it.
///
/// A loss of power may keep the checkpoint and lose content that it covers. An ordinary checkpoint therefore is valid only
/// until the machine restarts; a durable one is written beside it now and then, after a sync.
struct TransferCheckpoint: Codable, Sendable {
    /// A folder that may receive further entries.
    struct OpenFolder: Codable, Sendable, Hashable {
        var claimed: [UInt8]
        var stored: String
        var modified: Int64?
        var permissions: UInt16?
    }

    /// The file that is being received; its length on the disk is the number of received bytes.
    struct OpenFile: Codable, Sendable, Hashable {
        var claimed: [UInt8]
        var stored: String
        var size: UInt64?
    }

    /// The changed names of complete entries.
    struct ChangedNameList: Codable, Sendable, Hashable {
        var count: UInt64
        var claimed: [[UInt8]]
        var stored: [[UInt8]]

        /// - Returns: nil where no name was changed.
        init?(_ names: ChangedNames) {
            guard !names.isEmpty else { return nil }
            count = names.count
            claimed = names.listed.map(\.claimed.bytes)
            stored = names.listed.map(\.stored.bytes)
        }
    }

    /// ``OfferDigest`` of the accepted offer: what was kept for one offer is never used for another one.
    var offerDigest: [UInt8]?
    var completeEntries: UInt64 = 0
    /// Content of the complete entries, in bytes.
    var completeBytes: UInt64 = 0
    var entriesDigest: [UInt8] = []
    /// The item that contains the folders and the file.
    var item: UInt32 = 0
    var folders: [OpenFolder] = []
    var file: OpenFile?
    /// The part of ``CompletedNames`` that is covered by this checkpoint.
    var namesByteCount: UInt64 = 0
    /// nil where no name was changed.
    var changedNames: ChangedNameList?
    /// The boot during which it was written; nil for a durable checkpoint.
    var bootID: String?

    static let fileName = "journal"
    static let durableFileName = "journal.safe"
    static let fileNames = [fileName, durableFileName, CompletedNames.fileName]
    private static let maximumByteCount = 4 << 20

    /// The latest valid checkpoint.
    static func read(in directory: FileDescriptor, bootID: String) -> TransferCheckpoint? {
        let latest = read(fileName, in: directory)
        if let latest, latest.bootID == nil || latest.bootID == bootID { return latest }
        if let durable = read(durableFileName, in: directory), durable.bootID == nil { return durable }
        // After a restart the number of complete entries may be ahead of the disk. A partial file alone can be used: its digest is
        // compared before it is resumed.
        return latest?.completeEntries == 0 ? latest : nil
    }

    private static func read(_ name: String, in directory: FileDescriptor) -> TransferCheckpoint? {
        guard let file = try? directory.openForReading(name), let bytes = try? file.read(upTo: maximumByteCount),
            let checkpoint = try? JSONDecoder().decode(TransferCheckpoint.self, from: Data(bytes)), checkpoint.isValid
        else { return nil }
        return checkpoint
    }

    /// Whether stored names are single components, the depth is allowed, and sums of two sizes cannot overflow: the file may be on
    /// a removable disk that another user has written.
    private var isValid: Bool {
        folders.count < EntryHeader.maximumDepth
            && (folders.map(\.stored) + (file.map { [$0.stored] } ?? [])).allSatisfy(Self.isComponent)
            && (completeEntries == 0 || entriesDigest.count == 32)
            && folders.allSatisfy { ClaimedFileName(bytes: $0.claimed) != nil }
            // Sums of two of these do not overflow.
            && max(completeEntries, completeBytes, namesByteCount, file?.size ?? 0) <= UInt64(Int64.max)
    }

    static func isComponent(_ name: String) -> Bool {
        !name.isEmpty && name != "." && name != ".." && !name.utf8.contains { $0 == UInt8(ascii: "/") || $0 == 0 }
    }

    var names: ChangedNames {
        guard let changedNames else { return ChangedNames() }
        return ChangedNames(
            count: changedNames.count,
            listed: zip(changedNames.claimed, changedNames.stored).lazy.compactMap { claimed, stored in
                guard let claimed = ClaimedFileName(bytes: claimed), let stored = ClaimedFileName(bytes: stored) else {
                    return nil
                }
                return ChangedNames.Change(claimed, storedAs: stored)
            })
    }

    var encoded: [UInt8] {
        // Plain values only: encoding them cannot fail.
        Array((try? JSONEncoder().encode(self)) ?? Data())
    }

    /// The kernel's boot id, the same in all containers of one machine; a random one where it cannot be read, with which only
    /// checkpoints of this process are valid.
    static let currentBootID: String = {
        guard let file = try? FileDescriptor.openForReading(path: "/proc/sys/kernel/random/boot_id"),
            let bytes = try? file.read(upTo: 64), !bytes.isEmpty
        else { return "process \(UInt64.random(in: .min ... .max))" }
        return String(decoding: bytes.filter { $0 > 0x20 }, as: UTF8.self)
    }()
}
