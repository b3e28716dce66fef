import Nearshare
import NearshareAudio
import NearshareService
import NearshareTerminal
import NearshareTesting
import Testing

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
}
