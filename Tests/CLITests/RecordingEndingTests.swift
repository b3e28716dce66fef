import Nearshare
import NearshareService
import NearshareTerminal
import NearshareTesting
import Testing

@testable import NearshareAudio
@testable import NearshareCLI

@Suite("endings of a recording") struct RecordingEndingTests {
    @Test(
        "every ending has its JSON value",
        arguments: [
            (RecorderMachine.StopReason.requested, "asked"), (.interrupted, "interrupted"), (.terminated, "terminated"),
            (.duration, "duration"), (.limit, "limit"), (.sourceEnded, "source-ended"),
            (.failed(AudioError(.noSpace, "x")), "disk-full"), (.failed(AudioError(.deviceGone, "x")), "device-gone"),
            (.failed(AudioError(.failed, "x")), "failed"),
        ])
    func words(_ ending: RecorderMachine.StopReason, _ word: String) {
        #expect(ending.word == word)
    }

    @Test(
        "audio errors have exit statuses",
        arguments: [
            (AudioError(.noSpace, "x"), NearshareService.ExitStatus.noSpace), (AudioError(.overLimit, "x"), .noSpace),
            (AudioError(.damaged, "x"), .damaged), (AudioError(.unavailable, "x"), .failure),
            (AudioError(.deviceGone, "x"), .failure), (AudioError(.failed, "x"), .failure),
        ])
    func statuses(_ error: AudioError, _ status: NearshareService.ExitStatus) {
        #expect(CommandFailure(error).status == status)
    }

    private func conclusion(
        _ reason: RecorderMachine.StopReason, receiverLimit: String? = nil, input: String? = nil, isReviewed: Bool = false,
        isEmpty: Bool = false
    ) throws -> RecordingConclusion {
        let result = Recording.Result(
            reason: reason, duration: .seconds(5), byteCount: 1, lostFrames: 0, recorded: .seconds(5), isEmpty: isEmpty)
        return try RecordingConclusion(
            of: result, at: "/note.opus", limit: .mesh, receiverLimit: receiverLimit, input: input,
            isReviewed: isReviewed)
    }

    @Test func `a recording whose device fails is kept, and fails the command unless the user decides about it`() throws {
        let failed = RecorderMachine.StopReason.failed(AudioError(.noSpace, "full"))
        let unasked = try conclusion(failed)
        #expect(unasked.warnings == ["full"])
        #expect(unasked.failure?.status == .noSpace && unasked.failure?.message.hasSuffix("/note.opus") == true)
        let asked = try conclusion(failed, isReviewed: true)
        #expect(asked.failure == nil && asked.warnings.count == 2)
    }

    @Test func `an input file beyond a receiver's limit is not kept, and a recording of a microphone is`() throws {
        #expect(throws: CommandFailure.self) { try conclusion(.limit, receiverLimit: "anna takes 5 MB", input: "a.wav") }
        #expect(try conclusion(.limit, receiverLimit: "anna takes 5 MB").notices.count == 1)
        let silent = #expect(throws: CommandFailure.self) { try conclusion(.requested, isEmpty: true) }
        #expect(silent?.message.contains("check the microphone") == true)
        let file = #expect(throws: CommandFailure.self) { try conclusion(.sourceEnded, input: "a.wav", isEmpty: true) }
        #expect(file?.message == "there is only silence in a.wav; --no-trim keeps silence")
    }
}
