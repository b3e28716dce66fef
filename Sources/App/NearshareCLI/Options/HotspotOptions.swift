internal import ArgumentParser
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// A Wi-Fi network for the phones that open a page, or for a transfer; options of `send` and `receive`.
struct HotspotOptions: ParsableArguments {
    @Flag(
        help: """
            With --qr: make a Wi-Fi network for the phones, with a random password, and show its QR code first. With \
            send --to: ask a receiver that is found only over Bluetooth to use one for the transfer.
            """)
    var hotspot = false

    @Flag(
        name: .customLong("leave-wifi"),
        help: """
            With --hotspot: do not ask before this machine leaves its Wi-Fi network and shares another connection. With \
            receive, without --hotspot: let friends use a hotspot for a transfer without a question.
            """)
    var leavesWiFi = false

    /// The user's consent to the interruptions and the shared connection of a hotspot: from the option, or asked for on the terminal.
    private var consent: HotspotOperation.Consent {
        if leavesWiFi { return .given }
        guard let terminal = TerminalDevice() else { return .unavailable }
        return .ask { await YesNoPrompt.ask($0, on: terminal) }
    }

    /// The requester of a hotspot for a transfer over Bluetooth; nil where none is wanted.
    /// - Parameter interface: the only network interface that the node uses; nil for any.
    func makeRequester(on interface: String?) -> HotspotRequester? {
        hotspot ? HotspotRequester(HotspotPreparer(interface: interface), consent: consent) : nil
    }

    /// Runs `body` while there is a hotspot, if one is wanted.
    /// - Parameters:
    ///   - interface: the only network interface that the node uses, which then makes the hotspot; nil for any.
    ///   - reporter: reports the steps.
    ///   - body: receives nil without a hotspot.
    func withHotspot(
        on interface: String?, reporter: any Reporter, _ body: @Sendable (Hotspot?) async throws -> Void
    ) async throws {
        guard hotspot else { return try await body(nil) }
        let operation = HotspotOperation(
            LocalMachine.wifiConnection(), network: LocalMachine.makeWiFiNetwork(), interface: interface, consent: consent,
            reporter: reporter)
        try await operation.run(interruption: SignalInterruption()) { try await body($0) }
    }
}
