internal import Nearshare
internal import Synchronization

/// The receiver's end of a hotspot for a transfer: asks the user, and takes part in the network until the transfer has ended.
/// ``HotspotRequester`` is the other end.
final class HotspotResponder: Sendable {
    /// The parts of the receiving process that the responder uses.
    struct Context: Sendable {
        let trust: TrustRecorder
        let reporter: any Reporter
        /// nil where the user cannot be asked.
        let prompts: PromptQueue?
        /// The TCP port; 0 for none.
        let port: @Sendable () -> UInt16
        /// The transfers of a sender that have not ended.
        let transfers: @Sendable (Fingerprint) -> [Transfer]
    }

    /// Time without a transfer of the sender after which the responder ends the hotspot.
    private static let idleTimeout = Duration.seconds(30)

    /// Time for which the user's yes holds for another link of the sender, after a network whose link has broken.
    private static let reconnectionTime = Duration.seconds(120)

    /// A network that this machine has agreed on.
    private struct Agreement: Sendable {
        let sender: Fingerprint
        let negotiation: HotspotNegotiation
        /// Whether the user was asked about this very network.
        let isAsked: Bool
        /// Fulfilled when this machine has left the network.
        let left = Promise<MonotonicInstant>()
    }

    /// A machine is part of one network at a time.
    private struct State: Sendable {
        /// A request is being decided, or this machine is in a network or about to leave it.
        var isBusy = false
        /// The latest one, which may be over.
        var agreement: Agreement?
    }

    /// nil where this machine takes part in none.
    private let preparer: HotspotPreparer?
    /// Whether a friend's hotspot may take this machine off its Wi-Fi without a question (`--leave-wifi`).
    private let leavesWiFi: Bool
    private let state = Mutex(State())

    init(_ preparer: HotspotPreparer?, leavesWiFi: Bool) {
        (self.preparer, self.leavesWiFi) = (preparer, leavesWiFi)
    }

    /// Whether a transfer of this sender goes on over a network.
    func isPartner(_ sender: Fingerprint) -> Bool { state.withLock { $0.isBusy && $0.agreement?.sender == sender } }

    /// Answers requests until the node shuts down.
    func run(_ requests: AsyncStream<HotspotRequest>, for context: Context) async {
        await withDiscardingTaskGroup { group in
            for await request in requests { group.addTask { await self.answer(request, context) } }
        }
    }

    private func answer(_ request: HotspotRequest, _ context: Context) async {
        guard let preparer, context.port() != 0 else { return request.declineUnprompted(.unavailable) }
        let peer = request.peer
        // At once: a sender that gets no reply takes this version for an old one, and leaving another network or finding the device
        // takes seconds.
        request.negotiation.reportQuestion()
        let hasAgreed = await hasAgreed(to: request)
        let isIdle = state.withLock { state in
            guard !state.isBusy else { return false }
            state = State(isBusy: true)
            return true
        }
        guard isIdle else { return request.declineUnprompted(.busy) }
        defer {
            let agreement = state.withLock { state in
                state.isBusy = false
                return state.agreement
            }
            agreement?.left.fulfil(SystemClock.monotonic())
        }
        let shown = context.trust.machine.shown(peer)
        let name = shown.name.shown(of: shown.id)
        func report(_ state: HotspotStep.State, because reason: HotspotStep.Reason? = nil, _ sentence: String? = nil) {
            context.reporter.report(.hotspot(HotspotStep(state, with: peer.id, because: reason, sentence)))
        }
        let needsNoAnswer = leavesWiFi && peer.trustStatus.isFriend || hasAgreed
        guard needsNoAnswer || context.prompts?.canAsk == true else {
            report(
                .abandoned, because: .unavailable,
                "\(name) offers a hotspot, but the user cannot be asked; `nearshare receive --leave-wifi` lets friends have it")
            return request.declineUnprompted(.unavailable)
        }
        let prepared: PreparedHotspot
        do throws(WiFiError) {
            prepared = try await preparer.prepare()
        } catch {
            report(
                .abandoned, because: .unavailable,
                "could not accept the hotspot of \(name): \(error.cause); going on over Bluetooth")
            return request.declineUnprompted(.unavailable)
        }
        guard let accessPoint = Self.accessPoint(request.roles, local: prepared.roles) else {
            await prepared.stop()
            report(
                .abandoned, because: .unavailable,
                "\(name) offers a hotspot, but neither machine can be the access point; going on over Bluetooth")
            return request.declineUnprompted(.unavailable)
        }
        if !needsNoAnswer {
            report(.asking)
            if let step = await ask(about: request, prepared, accessPoint: accessPoint, context) {
                await prepared.stop()
                context.reporter.report(.hotspot(step))
                return request.negotiation.end(step.reason == .unavailable ? .unavailable : .declined)
            }
        }
        let agreement = Agreement(sender: peer.fingerprint, negotiation: request.negotiation, isAsked: !needsNoAnswer)
        state.withLock { $0.agreement = agreement }
        await useNetwork(for: request, prepared, accessPoint: accessPoint, name, context)
    }

    /// Whether the user's last yes holds for this request: the sender's link has broken, and it asks again for the rest of its
    /// transfer. Waits until this machine has left that network. The yes holds once, so that a sender that breaks its links does
    /// not keep this machine from its own networks.
    private func hasAgreed(to request: HotspotRequest) async -> Bool {
        guard let agreement = state.withLock(\.agreement), agreement.sender == request.peer.fingerprint,
            agreement.negotiation.endReason == .linkLost
        else { return false }
        guard let left = await agreement.left.value else { return false }
        return agreement.isAsked && SystemClock.monotonic() - left <= Self.reconnectionTime
    }

    /// Chooses the end that is the access point: the requester, if it can.
    /// - Parameter roles: those of the requester.
    /// - Returns: nil where neither end can.
    static func accessPoint(_ roles: HotspotRoles, local: HotspotRoles) -> HotspotEnd? {
        if roles.contains(.accessPoint), local.contains(.station) { return .requester }
        return local.contains(.accessPoint) && roles.contains(.station) ? .responder : nil
    }

    /// Asks the user.
    /// - Returns: the step that says no; nil for a yes.
    private func ask(
        about request: HotspotRequest, _ prepared: PreparedHotspot, accessPoint: HotspotEnd, _ context: Context
    ) async -> HotspotStep? {
        let peer = request.peer
        guard let prompts = context.prompts else { return HotspotStep(.abandoned, with: peer.id, because: .unavailable) }
        let givenName = context.trust.machine.shown(peer).name
        let quoted = givenName.quoted(of: peer.id)
        let wish =
            accessPoint == .requester
            ? "offers a Wi-Fi hotspot for this transfer, which is faster than Bluetooth"
            : "asks this machine to start a Wi-Fi hotspot for this transfer, which is faster than Bluetooth"
        let consequences =
            prepared.consequences ?? "this machine uses \(prepared.plan.interface) for it until the transfer ends"
        let trust = "\(OfferText.describe(peer.trustStatus)), \(peer.id.hex)"
        var question = Question(
            "use the hotspot?", about: quoted, subject: "\(trust): \(quoted) \(wish)\n\(consequences)\n")
        question.isKnown = peer.trustStatus.isKnown
        question.blockWarning = context.trust.blockWarning(of: peer)
        question.outline = PromptQueue.Outline(
            title: "use a hotspot for the transfer from \(quoted)?", subject: "the hotspot for the transfer from \(quoted)",
            lines: [consequences, trust], yes: "Use it", no: "Stay with Bluetooth")
        let answer = await prompts.ask(
            question,
            until: {
                guard await request.negotiation.ended != nil else { return nil }
                return .interrupted
            })
        switch answer {
        case .yes: return nil
        case .no: return HotspotStep(.abandoned, with: peer.id, because: .declined)
        // `always` and `part` are not offered by this question.
        case .unwatched, .closed, .always, .part: return HotspotStep(.abandoned, with: peer.id, because: .unavailable)
        case .block:
            context.trust.block(peer)
            return HotspotStep(.abandoned, with: peer.id, because: .declined)
        case .ended:
            return HotspotStep(
                .abandoned, with: peer.id, because: .transferEnded, "the hotspot is not needed any more; nothing was changed")
        }
    }

    /// Starts the access point or joins the network, and stays in the network until the transfers in it have ended.
    private func useNetwork(
        for request: HotspotRequest, _ prepared: PreparedHotspot, accessPoint: HotspotEnd, _ name: String, _ context: Context
    ) async {
        let (sender, peer) = (request.peer.fingerprint, request.peer.id)
        let (reporter, plan) = (context.reporter, prepared.plan)
        request.agree(accessPoint: accessPoint, port: context.port())
        let isAccessPoint = accessPoint == .responder
        let sentence = isAccessPoint ? "starting a hotspot on \(plan.interface)…" : "joining the hotspot of \(name)…"
        reporter.report(
            .hotspot(HotspotStep(isAccessPoint ? .starting : .joining, with: peer, interface: plan.interface, sentence)))
        do throws(PreparedHotspot.Failure) {
            let path = try await prepared.establish(request.negotiation)
            reporter.report(
                .hotspot(
                    HotspotStep(
                        .active, with: peer, network: path.network, interface: plan.interface,
                        "in the hotspot \(path.network) with \(name); the transfer goes on there")))
            if let failure = await awaitEndOfUse(of: request.negotiation, prepared, sender, context) {
                reporter.report(.hotspot(.ended(plan, with: peer, because: .failed, failure.reason)))
            }
        } catch {
            reporter.report(.hotspot(error.step(with: peer, named: name)))
        }
        let wasActive = await prepared.stop()
        // No effect where the sender has ended it.
        request.negotiation.end(.done)
        if wasActive { reporter.report(.hotspot(.ended(plan, with: peer, "the hotspot is over"))) }
    }

    /// Waits until the sender ends the network, or the sender's link and transfers have ended, or no transfer has run for
    /// ``idleTimeout``.
    /// - Returns: the reason why the network has ended by itself; nil otherwise.
    private func awaitEndOfUse(
        of negotiation: HotspotNegotiation, _ prepared: PreparedHotspot, _ sender: Fingerprint, _ context: Context
    ) async -> WiFiError? {
        let failed = Promise<WiFiError>()
        await firstResult(
            of: {
                guard let failure = await prepared.failure else { return }
                failed.fulfil(failure)
                negotiation.end(.failed)
            },
            {
                while !Task.isCancelled {
                    switch (context.transfers(sender).first, negotiation.endReason) {
                    // The link has been lost: what runs in the network goes on.
                    case (let transfer?, .linkLost?): await Self.awaitEnd(of: transfer)
                    case (_, .some): return
                    case (let transfer?, nil):
                        await firstResult(of: { await Self.awaitEnd(of: transfer) }, { _ = await negotiation.ended })
                    case (nil, nil):
                        _ = await withTimeout(Self.idleTimeout) { await negotiation.ended }
                        if negotiation.endReason == nil, context.transfers(sender).isEmpty { return negotiation.end(.timedOut) }
                    }
                }
            })
        return failed.current
    }

    /// Waits for the end of a transfer, or of the task: a result cannot be given up.
    private static func awaitEnd(of transfer: Transfer) async {
        for await _ in transfer.progress {}
    }
}
