import Glibc
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareAudio

@Suite struct InMemoryAudioTests {
    @Test("the microphone returns its samples and then its ending")
    func input() throws {
        let gone = AudioError(.deviceGone, "gone")
        let buffer = UnsafeMutableBufferPointer<Int16>.allocate(capacity: 100)
        defer { buffer.deallocate() }
        let input = try InMemoryAudio([1, 2, 3], ending: .failure(gone), lost: 5, burst: 2).openInput(
            device: nil, format: .speech)
        #expect(try input.read(into: buffer) == .frames(2) && Array(buffer[..<2]) == [1, 2])
        #expect(try input.read(into: buffer) == .frames(1) && buffer[0] == 3)
        #expect(throws: gone) { try input.read(into: buffer) }
        #expect(input.lostFrames == 5)
        let silent = try InMemoryAudio(ending: .silence).openInput(device: "memory", format: .speech)
        #expect(try silent.read(into: buffer) == .timedOut)
    }

    @Test("the loudspeaker plays nothing while it is paused")
    func output() throws {
        let audio = InMemoryAudio()
        let output = try audio.openOutput(device: nil, format: .speech)
        try output.setPaused(true)
        #expect(try [Int16(1), 2].withUnsafeBufferPointer { try output.write($0) } == 0)
        #expect(try !output.drain())
        try output.setPaused(false)
        #expect(try [Int16(1), 2].withUnsafeBufferPointer { try output.write($0) } == 2)
        #expect(try output.drain() && audio.played == [1, 2])
    }

    @Test("unknown devices are not available")
    func devices() {
        #expect(throws: AudioError.self) { try InMemoryAudio().openInput(device: "other", format: .speech) }
        #expect(throws: AudioError.self) { try InMemoryAudio().openOutput(device: "other", format: .speech) }
        #expect(InMemoryAudio().devices().count == 2)
    }

    @Test("formats have one or two channels and a rate of sound cards")
    func formats() {
        #expect(AudioFormat(rate: 8000, channels: 1) != nil && AudioFormat(rate: 192_000, channels: 2) != nil)
        #expect(AudioFormat(rate: 7999, channels: 1) == nil && AudioFormat(rate: 48_000, channels: 3) == nil)
        #expect(AudioFormat(rate: 48_000, channels: 0) == nil)
    }

    @Test("ALSA's plug-ins are no devices") func plugIns() {
        #expect(["null", "lavrate", "speexrate", "upmix"].allSatisfy(ALSA.isPlugIn))
        let devices = [
            "default", "pulse", "hw:CARD=PCH,DEV=0", "sysdefault:CARD=null", "front:CARD=Mic,DEV=0", "usbstream:CARD=1",
        ]
        #expect(!devices.contains(where: ALSA.isPlugIn))
    }

    @Test("ALSA's prefix is not part of a device's name")
    func names() {
        #expect(LinuxAudio.bareName("alsa:hw:0") == "hw:0" && LinuxAudio.bareName("hw:0") == "hw:0")
        #expect(LinuxAudio.bareName("alsa:") == "" && LinuxAudio.bareName(nil) == nil)
    }
}
