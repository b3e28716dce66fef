internal import ArgumentParser
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// A Wi-Fi network for the phones that open a page; options of `send` and `receive`.
struct HotspotOptions: ParsableArguments {
    @Flag(help: "With --qr: make a Wi-Fi network for the phones, with a random password, and show its QR code first.")
    var hotspot = false

    @Flag(
        name: .customLong("leave-wifi"),
        help: "With --hotspot: do not ask before this machine leaves its Wi-Fi network, and shares its other ones.")
    var leavesWiFi = false

    func validate(hasPage: Bool) throws {
        if hotspot, !hasPage { throw ValidationError("--hotspot needs --qr") }
        if leavesWiFi, !hotspot { throw ValidationError("--leave-wifi needs --hotspot") }
    }

    /// Runs `body` while there is a hotspot, if one is wanted.
    /// - Parameters:
    ///   - interface: the only network interface that the node uses, which then makes the hotspot; nil for any.
    ///   - isSilent: whether steps are not reported.
    ///   - body: receives nil without a hotspot.
    func run(
        on interface: String?, isSilent: Bool, _ body: @Sendable (Hotspot?) async throws -> Void
    ) async throws {
        guard hotspot else { return try await body(nil) }
        var consent = HotspotOperation.Consent.unavailable
        if leavesWiFi {
            consent = .given
        } else if let terminal = TerminalDevice() {
            consent = .ask { await YesNoPrompt.ask($0, on: terminal) }
        }
        let operation = HotspotOperation(
            LocalMachine.accessPoint(), network: LocalMachine.makeWiFiNetwork(), interface: interface, consent: consent,
            notify: { if !isSilent { Console.notice($0) } })
        try await operation.run(interruption: SignalInterruption()) { try await body($0) }
    }
}
