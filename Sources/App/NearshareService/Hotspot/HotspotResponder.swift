internal import Nearshare
internal import Synchronization

/// The receiver's half of a hotspot for a transfer: asks the user, and takes part in the network until the transfer has ended.
/// ``SendHotspot`` is the other half.
final class HotspotResponder: Sendable {
    /// The parts of the receiver that the responder uses.
    struct Receiver: Sendable {
        let trust: TrustRecorder
        let reporter: any Reporter
        /// nil where the policy asks nothing.
        let prompts: PromptQueue?
        /// The TCP port; 0 for none.
        let port: @Sendable () -> UInt16
        /// The transfers of a sender that have not ended.
        let transfers: @Sendable (Fingerprint) -> [Transfer]
    }

    /// Time in which a sender that has a network begins to use it, and goes on after a transfer.
    private static let idleTimeout = Duration.seconds(30)

    /// nil where this machine takes part in none.
    private let hotspot: TransferHotspot?
    /// Whether friends need no answer of the user.
    private let acceptsFriends: Bool
    /// The sender with which this machine has agreed on a network; a machine is part of one at a time.
    private let partner = Mutex<Fingerprint?>(nil)
    private let isBusy = Mutex(false)

    init(_ hotspot: TransferHotspot?, acceptsFriends: Bool) {
        (self.hotspot, self.acceptsFriends) = (hotspot, acceptsFriends)
    }

    /// Whether a transfer of this sender goes on over a network.
    func isPartner(_ sender: Fingerprint) -> Bool { partner.withLock { $0 == sender } }

    /// Answers requests until the node shuts down.
    func run(_ requests: AsyncStream<HotspotRequest>, for receiver: Receiver) async {
        await withDiscardingTaskGroup { group in
            for await request in requests { group.addTask { await self.answer(request, receiver) } }
        }
    }

    private func answer(_ request: HotspotRequest, _ receiver: Receiver) async {
        guard let hotspot, receiver.port() != 0 else { return request.declineUnprompted(.unavailable) }
        let isFree = isBusy.withLock { isBusy in
            defer { isBusy = true }
            return !isBusy
        }
        guard isFree else { return request.declineUnprompted(.busy) }
        defer { isBusy.withLock { $0 = false } }
        let peer = request.peer
        let shown = receiver.trust.machine.shown(peer)
        let name = shown.name.shown(of: shown.id)
        let needsNoAnswer = acceptsFriends && peer.trustStatus.isFriend
        guard needsNoAnswer || receiver.prompts?.canAsk == true else {
            receiver.reporter.report(
                .notice(
                    "\(name) offers a hotspot, but nobody can be asked; `nearshare receive --leave-wifi` lets friends have it"))
            return request.declineUnprompted(.unavailable)
        }
        // At once: a sender that gets no reply takes this version for an old one, and finding the device takes seconds.
        request.negotiation.reportQuestion()
        let prepared: PreparedHotspot
        do throws(AccessPointError) {
            prepared = try await hotspot.prepare()
        } catch {
            receiver.reporter.report(.notice("\(name) offers a hotspot; \(error.reason); going on over Bluetooth"))
            return request.declineUnprompted(.unavailable)
        }
        guard let requesterMakes = Self.requesterMakes(request.roles, local: prepared.roles) else {
            await prepared.stop()
            receiver.reporter.report(
                .notice("\(name) offers a hotspot, but neither machine can make one; going on over Bluetooth"))
            return request.declineUnprompted(.unavailable)
        }
        if !needsNoAnswer, await !ask(about: request, prepared, requesterMakes: requesterMakes, receiver) {
            await prepared.stop()
            return request.negotiation.end(.declined)
        }
        await useNetwork(for: request, prepared, requesterMakes: requesterMakes, name, receiver)
    }

    /// The sender makes the network, if it can.
    /// - Returns: nil where neither end can.
    static func requesterMakes(_ roles: HotspotRoles, local: HotspotRoles) -> Bool? {
        if roles.contains(.makes), local.contains(.joins) { return true }
        return local.contains(.makes) && roles.contains(.joins) ? false : nil
    }

    private func ask(
        about request: HotspotRequest, _ prepared: PreparedHotspot, requesterMakes: Bool, _ receiver: Receiver
    ) async -> Bool {
        guard let prompts = receiver.prompts else { return false }
        let peer = request.peer
        let givenName = receiver.trust.machine.shown(peer).name
        let quoted = givenName.quoted(of: peer.id)
        let (facts, consequences) = Self.question(prepared.plan, requesterMakes: requesterMakes)
        let standing = "\(OfferText.describe(peer.trustStatus)), \(peer.id.hex)"
        let answer = await prompts.ask(
            "\(standing): \(quoted) \(facts)\n\(consequences)\n", question: "use the hotspot?", about: quoted,
            isKnown: peer.trustStatus.isKnown,
            outline: PromptQueue.Outline(
                title: "use a hotspot for the transfer from \(quoted)?", lines: [consequences, standing], yes: "Use it",
                no: "Stay with Bluetooth"),
            until: {
                guard await request.negotiation.ended != nil else { return nil }
                return .interrupted
            })
        switch answer {
        case .yes, .always, .part: return true
        case .no, .unwatched: return false
        case .block:
            receiver.trust.block(peer)
            return false
        case .ended:
            receiver.reporter.report(.notice("the hotspot is not needed any more; nothing was changed"))
            return false
        }
    }

    /// The question, in two clauses: what the sender wants, and what happens here.
    static func question(_ plan: AccessPointPlan, requesterMakes: Bool) -> (facts: String, consequences: String) {
        let facts =
            requesterMakes
            ? "offers a Wi-Fi hotspot for this transfer, which is faster than Bluetooth"
            : "asks this computer to make a Wi-Fi hotspot for this transfer, which is faster than Bluetooth"
        var consequences = plan.replacedConnection.map {
            "this computer leaves the Wi-Fi network \(TerminalText.quoted($0)) until the transfer ends"
        }
        if plan.replacedConnection != nil, !plan.keepsInternet { consequences? += ", and has no internet meanwhile" }
        return (facts, consequences ?? "this computer uses \(plan.interface) for it until the transfer ends")
    }

    /// Makes the network or joins it, until the transfers in it have ended.
    private func useNetwork(
        for request: HotspotRequest, _ prepared: PreparedHotspot, requesterMakes: Bool, _ name: String, _ receiver: Receiver
    ) async {
        let sender = request.peer.fingerprint
        let reporter = receiver.reporter
        partner.withLock { $0 = sender }
        defer { partner.withLock { $0 = nil } }
        request.agree(requesterMakes: requesterMakes, port: receiver.port())
        reporter.report(
            .notice(requesterMakes ? "joining the hotspot of \(name)…" : "starting a hotspot on \(prepared.plan.interface)…"))
        do throws(PreparedHotspot.Failure) {
            let path = try await prepared.establish(request.negotiation)
            reporter.report(.notice("in the hotspot \(path.network) with \(name); the transfer goes on there"))
            await hold(request.negotiation, prepared, sender, receiver)
        } catch {
            reporter.report(.notice("\(error.sentence(name)); going on over Bluetooth"))
        }
        let wasActive = await prepared.stop()
        // No effect where the sender has ended it.
        request.negotiation.end(.done)
        guard wasActive else { return }
        let ending = prepared.plan.replacedConnection.map {
            "; \(prepared.plan.interface) returns to \(TerminalText.quoted($0))"
        }
        reporter.report(.notice("the hotspot is over\(ending ?? "")"))
    }

    /// Waits until the sender ends the network, or its link has ended and so have its transfers; or until it has not used the
    /// network for a time.
    private func hold(
        _ negotiation: HotspotNegotiation, _ prepared: PreparedHotspot, _ sender: Fingerprint, _ receiver: Receiver
    ) async {
        await firstResult(
            of: {
                guard let failure = await prepared.failure else { return }
                receiver.reporter.report(.warning(failure.reason))
                negotiation.end(.failed)
            },
            {
                while !Task.isCancelled {
                    switch (receiver.transfers(sender).first, negotiation.refusal) {
                    // The link has been lost: what runs in the network goes on.
                    case (let transfer?, .linkLost?): await Self.awaitEnd(of: transfer)
                    case (_, .some): return
                    case (let transfer?, nil):
                        await firstResult(of: { await Self.awaitEnd(of: transfer) }, { _ = await negotiation.ended })
                    case (nil, nil):
                        _ = await withTimeout(Self.idleTimeout) { await negotiation.ended }
                        if negotiation.refusal == nil, receiver.transfers(sender).isEmpty { return negotiation.end(.timedOut) }
                    }
                }
            })
    }

    /// Waits for the end of a transfer, or of the task: a result cannot be given up.
    private static func awaitEnd(of transfer: Transfer) async {
        for await _ in transfer.progress {}
    }
}
