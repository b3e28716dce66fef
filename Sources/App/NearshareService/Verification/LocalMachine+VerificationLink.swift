internal import Nearshare
internal import NearshareMesh

extension LocalMachine {
    /// The link of this machine's verification code, which is valid for five minutes; nil when it cannot be encoded.
    package func verificationLink() throws -> String? {
        MeshVerificationCode.address(
            of: try state.identity(), name: try name(), nonce: Self.randomBytes(MeshVerification.nonceByteCount),
            now: SystemClock.wall())
    }
}
