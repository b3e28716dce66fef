internal import Nearshare
internal import NearshareMesh

extension LocalMachine {
    /// The link of this machine's verification code, which is valid for five minutes; nil when it cannot be encoded. It has the name
    /// under which the running node is known to others, where there is one.
    package func verificationLink() async throws -> String? {
        // Without a reply the name is that of the configuration.
        let running = try? await withRunningNode(of: self) { try await $0.status() }
        return MeshVerificationCode.address(
            of: try state.identity(), name: try running?.name ?? name(),
            nonce: Self.randomBytes(MeshVerification.nonceByteCount), now: SystemClock.wall())
    }
}
