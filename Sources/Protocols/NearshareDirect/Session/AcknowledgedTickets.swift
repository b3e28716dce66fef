internal import NearshareBase

/// The tickets of messages that the peer's program has taken, since the last restart of the peer. Dropped messages may be among
/// them.
struct AcknowledgedTickets: Sendable {
    /// For each urgency, the number after the last message before which all are acknowledged.
    private(set) var next = MessageChannel.SequenceNumbers()
    /// Tickets that are acknowledged before an earlier message: fewer than a window holds.
    private var early: Set<MessageChannel.Ticket> = []

    func contains(_ ticket: MessageChannel.Ticket) -> Bool {
        ticket.number < next[ticket.isUrgent] || early.contains(ticket)
    }

    /// Adds a ticket before an earlier one.
    mutating func insertEarly(_ ticket: MessageChannel.Ticket) { early.insert(ticket) }

    /// Adds a ticket with all of its urgency before it.
    mutating func advance(past ticket: MessageChannel.Ticket) {
        next[ticket.isUrgent] = ticket.number.addingClamped(1)
        // Hashed only where there are some: this is done for each message.
        if !early.isEmpty { early.remove(ticket) }
    }
}
