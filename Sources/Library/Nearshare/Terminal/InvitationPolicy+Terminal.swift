internal import NearshareBase
public import NearshareEngine
internal import NearshareInterfaces

extension InvitationPolicy {
    /// Asks the user at the terminal, with the peer's name and the short code that its user sees as well. Declines without a
    /// terminal, and when the link ends before a code is agreed on.
    public static let askAtTerminal = InvitationPolicy(isProof: true, asksUser: true) { invitation in
        guard let code = await invitation.shortCode else { return false }
        let name = invitation.peer.name.shown
        return await firstResult(
            of: {
                await TerminalPrompt.shared.confirm("\(name) invites; does its screen show the code \(code)? Join?")
            },
            {
                // Withdrawn or expired.
                _ = await invitation.ended
                return false
            })
    }
}

extension TrustPolicy {
    /// ``askAtFirstMeeting`` with the questions at the terminal. Without a terminal they are answered with no.
    public static let askAtTerminal = TrustPolicy.askingAtFirstMeeting { check in
        let name = check.peer.name.shown
        return await TerminalPrompt.shared.confirm("does \(name) see the short code \(check.shortCode)?")
    }
}
