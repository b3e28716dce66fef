import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareAudio

@Suite struct RecorderMachineTests {
    @Test("frames count while recording, not while paused or finished")
    func story() {
        var machine = RecorderMachine()
        machine.togglePause()
        #expect(machine.phase == .idle)
        #expect(machine.receive(frames: 100) == 100)
        #expect(machine.phase == .recording)
        machine.togglePause()
        #expect(machine.phase == .paused)
        #expect(machine.receive(frames: 100) == 0)
        machine.togglePause()
        #expect(machine.receive(frames: 50) == 50)
        #expect(machine.frames == 150)
        machine.stop(.requested)
        #expect(machine.phase == .finished(.requested))
        #expect(machine.receive(frames: 10) == 0)
        #expect(machine.frames == 150)
    }

    @Test("the first stop reason counts")
    func firstReason() {
        var machine = RecorderMachine(maximumFrames: 120)
        #expect(machine.receive(frames: 100) == 100)
        #expect(machine.receive(frames: 100) == 20)
        #expect(machine.stopReason == .duration)
        machine.stop(.interrupted)
        machine.togglePause()
        #expect(machine.phase == .finished(.duration) && machine.frames == 120)
    }

    @Test("every state can be stopped", arguments: [0, 1, 2])
    func stopping(_ state: Int) {
        var machine = RecorderMachine()
        if state > 0 { _ = machine.receive(frames: 5) }
        if state > 1 { machine.togglePause() }
        machine.stop(.terminated)
        #expect(machine.stopReason == .terminated)
        #expect(machine.frames == (state > 0 ? 5 : 0))
    }

    @Test("a recording that ends exactly at its limit is finished")
    func exactLimit() {
        var machine = RecorderMachine(maximumFrames: 100)
        #expect(machine.receive(frames: 100) == 100)
        #expect(machine.phase == .finished(.duration))
    }

    @Test("the largest counts do not overflow")
    func extremes() {
        var machine = RecorderMachine()
        #expect(machine.receive(frames: .max - 1) == .max - 1)
        #expect(machine.receive(frames: .max) == 1)
        #expect(machine.phase == .finished(.duration))
    }
}
