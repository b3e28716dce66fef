internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

extension PINPrompt {
    /// The prompt of a command with the option `--pin-file`. The PIN of a file is returned once: a wrong one is not sent again.
    /// - Parameter file: nil to ask the user, where there is a terminal.
    static func make(file: String?, isQuiet: Bool) throws -> PINPrompt {
        guard let file else {
            return onTerminal(isQuiet: isQuiet) ?? PINPrompt(advice: "Give it with --pin-file") { _, _ in nil }
        }
        let pin = try LocalSendPIN.read(path: file)
        return PINPrompt(advice: "The PIN in \(TerminalText.escaped(file, columns: 400)) is wrong") { _, wasWrong in
            wasWrong ? nil : pin
        }
    }

    /// The prompt that asks the user; nil without a terminal.
    static func onTerminal(isQuiet: Bool) -> PINPrompt? {
        guard !isQuiet, let terminal = TerminalDevice() else { return nil }
        return PINPrompt { name, wasWrong in
            await LinePrompt.ask("PIN of \(name): ", on: terminal) {
                if wasWrong { Console.notice("that PIN is wrong; try again") }
            }
        }
    }
}
