internal import NearshareService
internal import NearshareTerminal

extension PINPrompt {
    /// The PIN of a file, once: a wrong one is not sent again. Without a file, the user is asked on the terminal; nil without a terminal.
    static func make(file: String?, isQuiet: Bool) throws -> PINPrompt? {
        if let file {
            let pin = try LocalSendPIN.read(path: file)
            return PINPrompt { _, wasWrong in wasWrong ? nil : pin }
        }
        guard !isQuiet, let terminal = TerminalDevice() else { return nil }
        return PINPrompt { name, wasWrong in
            await LinePrompt.ask("PIN of \(name): ", on: terminal) {
                if wasWrong { Console.notice("that PIN is wrong; try again") }
            }
        }
    }
}
