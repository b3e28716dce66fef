import Glibc
import Nearshare
import NearshareBase
import NearshareDirect
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareService

/// The resume key of ``leavePartialTransfer(in:of:)``.
let partialResumeKey = [UInt8](repeating: 9, count: 32)

/// Leaves 500 of 1000 bytes of a file in the spool, as a sender does that does not come back.
func leavePartialTransfer(in inbox: Inbox, of sender: Fingerprint) throws {
    let name = try #require(ClaimedFileName("x"))
    let offer = Offer(
        items: [OfferedItem(kind: .file, name: name, size: 1000, entryCount: 1, mediaType: .unknown)], itemCount: 1,
        entryCount: 1, totalSize: 1000)
    let sink = try inbox.makeSink(
        for: offer, from: sender, resumeKey: partialResumeKey, clock: { MonotonicInstant(nanoseconds: 0) })
    try sink.resume(at: try sink.resumePoint())
    let header = EntryHeader(item: 0, kind: .file, path: [name], size: 1000, modified: nil, permissions: nil)
    try sink.begin(header, at: 0, entriesDigest: [UInt8](repeating: 1, count: 32))
    try [UInt8](repeating: 7, count: 500).withUnsafeBytes { try sink.write($0) }
    sink.suspend()
}

@Suite("partial transfers that nobody resumes") struct SpoolDeliveryTests {
    @Test("an attempt to deliver does not wake the watch of an inbox on another disk, whose staging area lies in it")
    func quietAttempts() async throws {
        let user = try ServiceStage().user("Bea")
        let disk = ScratchFolder(onDisk: true)
        let inbox = try user.machine.inbox(disk("inbox"), limits: InboxLimits())
        try leavePartialTransfer(in: inbox, of: try #require(Fingerprint(bytes: [UInt8](repeating: 1, count: 32))))
        let delivery = SpoolDelivery(inbox: inbox, machine: user.machine, reporter: EventRecorder())
        let watch = try #require(InboxWatch(path: disk("inbox")))
        watch.arm()
        let now = Moment(monotonic: MonotonicInstant(nanoseconds: 5), wall: SystemClock.wall())
        #expect(delivery.attempt(at: now) > .zero)
        #expect(try await watch.awaitChange(timeout: .milliseconds(1)) == false)
    }

    @Test("R8: an item that does not fit into the inbox waits in the spool, and is reported once") func withoutSpace() throws {
        let user = try ServiceStage().user("Bea")
        let disk = ScratchFolder(onDisk: true)
        let path = disk("inbox")
        func inbox(keepingFree byteCount: UInt64) throws -> Inbox {
            var limits = InboxLimits()
            limits.minimumFreeByteCount = byteCount
            return try user.machine.inbox(path, limits: limits)
        }
        // A file in the place of the inbox: what arrives waits.
        close(open(path, O_CREAT | O_WRONLY, 0o600))
        let name = try #require(ClaimedFileName("x"))
        let offer = Offer(
            items: [OfferedItem(kind: .file, name: name, size: 1000, entryCount: 1, mediaType: .unknown)], itemCount: 1,
            entryCount: 1, totalSize: 1000)
        let sender = try #require(Fingerprint(bytes: [UInt8](repeating: 1, count: 32)))
        // In a function: a sink locks its part of the spool for as long as it lives.
        func receive() throws {
            let sink = try inbox(keepingFree: 0).makeSink(
                for: offer, from: sender, resumeKey: partialResumeKey, clock: { MonotonicInstant(nanoseconds: 0) })
            try sink.resume(at: try sink.resumePoint())
            let header = EntryHeader(item: 0, kind: .file, path: [name], size: 1000, modified: nil, permissions: nil)
            try sink.begin(header, at: 0, entriesDigest: [UInt8](repeating: 1, count: 32))
            try [UInt8](repeating: 7, count: 1000).withUnsafeBytes { try sink.write($0) }
            try sink.endEntry()
            #expect(try sink.finish().map(\.isInInbox) == [false])
        }
        try receive()
        unlink(path)
        mkdir(path, 0o700)
        var (own, other) = (stat(), stat())
        // Within one device nothing is copied.
        guard stat(user.scratch.path, &own) == 0, stat(path, &other) == 0, own.st_dev != other.st_dev else { return }
        let now = Moment(monotonic: MonotonicInstant(nanoseconds: 5), wall: SystemClock.wall())
        let full = try inbox(keepingFree: .max)
        let recorder = EventRecorder()
        let delivery = SpoolDelivery(inbox: full, machine: user.machine, reporter: recorder)
        for _ in 1...2 { #expect(delivery.attempt(at: now) > .zero) }
        let warnings = recorder.events.compactMap { if case .warning(let text) = $0 { text } else { nil } }
        #expect(warnings.count == 1)
        #expect(warnings.first?.hasPrefix("x (") == true)
        #expect(warnings.first?.hasSuffix(") waits in the spool: the inbox has 0 B free") == true)
        #expect(full.pendingItems.map(\.insufficientSpace) == [0] && full.pendingPaths.count == 1)
        let roomy = try inbox(keepingFree: 0)
        #expect(roomy.pendingItems.map(\.byteCount) == [1000])
        #expect(roomy.deliverPending().map(\.path) == ["\(path)/x"] && roomy.pendingPaths.isEmpty)
    }

    @Test("Q7: a running node sweeps its spool every hour, and removes what nobody has resumed for a week") func sweep() throws
    {
        let user = try ServiceStage().user("Bea")
        let inbox = try user.machine.inbox(user.scratch("inbox"), limits: InboxLimits())
        let sender = try #require(Fingerprint(bytes: [UInt8](repeating: 1, count: 32)))
        let delivery = SpoolDelivery(inbox: inbox, machine: user.machine, reporter: EventRecorder())
        func isKept() -> Bool { inbox.partialByteCount(of: sender, except: []) > 0 }

        let start = SystemClock.wall().milliseconds
        try leavePartialTransfer(in: inbox, of: sender)
        #expect(isKept())
        // Virtual time: each attempt is made when the one before it says.
        var seconds: Int64 = 0
        var attempts: Int64 = 0
        while isKept(), seconds < 9 * 86_400 {
            let now = Moment(
                monotonic: MonotonicInstant(nanoseconds: 5 + seconds * 1_000_000_000),
                wall: WallTime(milliseconds: start + seconds * 1000))
            let wait = delivery.attempt(at: now)
            #expect(wait == .seconds(3600))
            seconds += wait.components.seconds
            attempts += 1
        }
        // The last sweep, an hour before this time, is the first one after a week.
        let week: Int64 = 7 * 86_400
        #expect(seconds > week && seconds <= week + 2 * 3600 && attempts == seconds / 3600)
    }
}
