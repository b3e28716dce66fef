internal import Nearshare
internal import NearshareMesh

extension LocalMachine {
    /// The link of this machine's verification code, which is valid for five minutes; nil when the name does not fit into it. The link
    /// carries the name under which the running node is known to others, or without a node the configured one. Made in this process,
    /// from the stored identity, because no node needs to run for it; a chat asks its node (``ControlRequest/verificationLink``).
    package func verificationLink() async throws -> String? {
        // Without a reply the name is that of the configuration.
        let running = try? await withRunningNode(of: self) { try await $0.status() }
        return MeshVerificationCode.address(
            of: try state.identity(), name: try running?.name ?? name(),
            nonce: Self.randomBytes(MeshVerification.nonceByteCount), now: SystemClock.wall())
    }
}
