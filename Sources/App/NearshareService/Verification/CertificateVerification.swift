package import Logging
package import Nearshare

/// Verifies the certificate of a LocalSend device that was met before: the user compares it with the one that the device shows.
package struct CertificateVerification: Sendable {
    private let machine: LocalMachine
    private let reporter: any Reporter
    private let log: Logger

    /// Timeout of the search for the device, whose certificate is known already.
    private static let timeout = Duration.seconds(2)

    package init(machine: LocalMachine, reporter: any Reporter, log: Logger) {
        (self.machine, self.reporter, self.log) = (machine, reporter, log)
    }

    /// - Parameters:
    ///   - entry: the device in the trust store.
    ///   - ask: asks the user whether the certificates are the same, and returns nil for no answer.
    /// - Throws: ``CommandFailure`` with ``ExitStatus/notTrusted`` when they differ.
    package func run(
        _ fingerprint: Fingerprint, of entry: TrustStore.Entry, certificate: [UInt8], ask: () async -> Bool?
    ) async throws {
        let name = entry.name
        if let other = try await otherCertificate(than: certificate, of: fingerprint.peerID, claiming: entry.claimedName) {
            throw CommandFailure(
                .notTrusted,
                "not verified: \(name.shown) has another certificate since you met it (\(CertificateText.short(certificate)), now "
                    + "\(CertificateText.short(other))); if it is a new device, or LocalSend was installed again, `nearshare peers forget "
                    + "\(fingerprint.peerID)`, and send something to it; otherwise another device uses the name")
        }
        // A "no" would revoke an earlier verification.
        guard let isSame = await ask() else { throw VerificationOperation.unanswered }
        let stored = try machine.trust.update { trust in
            trust.setDeviceVerified(fingerprint, isSame)
            return trust[fingerprint]?.trust
        }
        guard let recorded = stored else {
            throw CommandFailure(.failure, "\(name.shown) is not known any more; another command has removed it")
        }
        guard isSame else {
            throw CommandFailure(
                .notTrusted,
                "the certificates differ: another device was reached by the name \(name.shown); "
                    + "`nearshare peers forget \(fingerprint.peerID)` removes it")
        }
        guard recorded == .verified else { throw ControlFailure.blocked(name, fingerprint.peerID) }
        reporter.report(.notice(VerificationOperation.successText(for: name)))
    }

    /// The certificate that a device announces with the whole name which the known device has claimed, where none nearby announces
    /// the known one.
    private func otherCertificate(
        than certificate: [UInt8], of id: PeerID, claiming name: DisplayName
    ) async throws -> [UInt8]? {
        guard let security = machine.localSendSecurityIfAvailable(log: log) else { return nil }
        let settings = try machine.nodeSettings(
            interface: nil, discovery: machine.discovery(log: log), radio: nil, log: log)
        return try await withNode(settings) { node in
            node.findLocalSendDevices(security)
            var seen: [[UInt8]] = []
            do {
                let found = try await node.find(name.claimed, timeout: Self.timeout, on: [.network], knownAs: [id])
                seen = [found].compactMap(\.certificate)
            } catch NodeError.ambiguous(_, let peers) {
                seen = peers.compactMap(\.certificate)
            } catch NodeError.notFound {
                // Not nearby: the known certificate is compared.
            }
            return seen.contains(certificate) ? nil : seen.first
        }
    }
}
