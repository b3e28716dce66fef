import NearshareBase
import Testing

@testable import NearshareBluetooth

private typealias F = DeviceFixtures

@Suite("registration and advertising")
struct AdvertisingStateTests {
    private func advertising() -> AdvertisingState {
        var state = AdvertisingState()
        #expect(state.start() == [.registerApplication])
        #expect(state.applicationRegistered(nil, at: F.at(0)) == [.registerAdvertisement])
        #expect(state.advertisementRegistered(nil, at: F.at(0)) == [.report(nil)])
        return state
    }

    @Test("the application is registered, then the advertisement, then the caller is told")
    func start() {
        var state = AdvertisingState()
        #expect(!state.isOn && !state.isAdvertising && state.nextDeadline == nil)
        #expect(state.start() == [.registerApplication])
        #expect(state.isOn && !state.isAdvertising)
        #expect(state.applicationRegistered(nil, at: F.at(0)) == [.registerAdvertisement])
        #expect(!state.isAdvertising)
        #expect(state.advertisementRegistered(nil, at: F.at(0)) == [.report(nil)])
        #expect(state.isAdvertising && state.nextDeadline == nil)
    }

    @Test("a failure of the first registration is the caller's, and ends it", arguments: [true, false])
    func firstFailure(_ isApplication: Bool) {
        var state = AdvertisingState()
        _ = state.start()
        if isApplication {
            #expect(
                state.applicationRegistered(.notPermitted, at: F.at(0))
                    == [.unregisterAdvertisement, .unregisterApplication, .report(.notPermitted)])
        } else {
            _ = state.applicationRegistered(nil, at: F.at(0))
            #expect(
                state.advertisementRegistered(.cannotAdvertise("full"), at: F.at(0))
                    == [.unregisterAdvertisement, .unregisterApplication, .report(.cannotAdvertise("full"))])
        }
        #expect(!state.isOn)
    }

    @Test("replies that come after the end change nothing")
    func stopped() {
        var state = AdvertisingState()
        _ = state.start()
        #expect(state.stop() == [.unregisterAdvertisement, .unregisterApplication])
        #expect(state.stop().isEmpty)
        #expect(state.applicationRegistered(nil, at: F.at(0)).isEmpty)
        #expect(state.advertisementRegistered(nil, at: F.at(0)).isEmpty)
        #expect(state.renew() == [.forgetDaemon])
        #expect(!state.isOn)
    }

    @Test("a device that connects or leaves renews the advertisement twice, after 0.5 s and 4.5 s")
    func renewals() {
        var state = advertising()
        state.connectionsChanged(at: F.at(10))
        #expect(state.nextDeadline == F.at(10.5))
        #expect(state.tick(at: F.at(10.4)).isEmpty)
        #expect(state.tick(at: F.at(10.5)) == [.unregisterAdvertisement, .registerAdvertisement])
        #expect(state.advertisementRegistered(nil, at: F.at(10.6)).isEmpty, "the caller has been told")
        #expect(state.nextDeadline == F.at(14.5))
        #expect(state.tick(at: F.at(14.5)) == [.unregisterAdvertisement, .registerAdvertisement])
        #expect(state.nextDeadline == nil)
        #expect(state.tick(at: F.at(100)).isEmpty)
    }

    @Test("several that connect in a row are answered by the last one's renewals")
    func manyConnections() {
        var state = advertising()
        for second in 10..<20 { state.connectionsChanged(at: F.at(Double(second))) }
        #expect(state.nextDeadline == F.at(19.5))
    }

    @Test("connections before advertising renew nothing")
    func earlyConnection() {
        var state = AdvertisingState()
        state.connectionsChanged(at: F.at(0))
        _ = state.start()
        state.connectionsChanged(at: F.at(1))
        #expect(state.nextDeadline == nil)
    }

    @Test("what has worked before and fails is tried again after ten seconds")
    func laterFailure() {
        var state = advertising()
        state.connectionsChanged(at: F.at(10))
        _ = state.tick(at: F.at(10.5))
        #expect(state.advertisementRegistered(.cannotAdvertise("connected"), at: F.at(11)).isEmpty)
        #expect(state.isAdvertising)
        #expect(state.nextDeadline == F.at(21))
        #expect(state.tick(at: F.at(21)) == [.unregisterAdvertisement, .registerAdvertisement])
        state.suspend()
        let renewal: [AdvertisingState.Reaction] = [
            .forgetDaemon, .unregisterAdvertisement, .unregisterApplication, .registerApplication,
        ]
        #expect(state.renew() == renewal)
        #expect(state.applicationRegistered(.noDaemon, at: F.at(30)).isEmpty)
        #expect(!state.isAdvertising && state.nextDeadline == F.at(40))
        #expect(state.tick(at: F.at(40)) == renewal)
        #expect(state.nextDeadline == nil, "the reply decides")
    }

    @Test("a new daemon is given everything again, and the first caller's answer with it")
    func renew() {
        var state = AdvertisingState()
        _ = state.start()
        state.suspend()
        #expect(state.isOn)
        #expect(state.renew().last == .registerApplication)
        #expect(state.applicationRegistered(nil, at: F.at(1)) == [.registerAdvertisement])
        #expect(state.advertisementRegistered(nil, at: F.at(1)) == [.report(nil)])
    }

    @Test("an advertisement that BlueZ has withdrawn is not on the air, and its renewals stay due")
    func released() {
        var state = advertising()
        state.released()
        #expect(!state.isAdvertising && state.isOn && state.nextDeadline == nil)
        state = advertising()
        state.connectionsChanged(at: F.at(0))
        state.released()
        #expect(state.nextDeadline == F.at(0.5))
        #expect(state.tick(at: F.at(0.5)).last == .registerApplication)
    }

    @Test("whatever happens in whatever order, the caller is told once at most, and nothing runs after the end")
    func noise() {
        for seed: UInt64 in 0..<50 {
            var random = SplitMix(state: seed)
            var state = AdvertisingState()
            var reports = 0
            reports -= state.start().count - 1
            for step in 0..<100 {
                let now = F.at(Double(step))
                var reactions: [AdvertisingState.Reaction] = []
                switch random.next() % 8 {
                case 0: reactions = state.applicationRegistered(random.next() % 2 == 0 ? nil : .noDaemon, at: now)
                case 1: reactions = state.advertisementRegistered(random.next() % 2 == 0 ? nil : .failed("x"), at: now)
                case 2: reactions = state.renew()
                case 3: state.suspend()
                case 4: state.released()
                case 5: state.connectionsChanged(at: now)
                case 6: if random.next() % 10 == 0 { reactions = state.stop() }
                default: reactions = state.tick(at: now)
                }
                reports += reactions.count { if case .report = $0 { true } else { false } }
                #expect(reports <= 1, "seed \(seed), step \(step)")
                if !state.isOn { #expect(state.nextDeadline == nil && !state.isAdvertising) }
            }
        }
    }
}
