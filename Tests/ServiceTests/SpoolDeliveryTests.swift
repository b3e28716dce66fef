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
