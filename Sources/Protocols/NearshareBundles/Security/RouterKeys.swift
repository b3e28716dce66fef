package import NearshareCrypto

/// The private keys with which a node opens and signs bundles.
package struct RouterKeys: Sendable {
    let agreementKey: AgreementPrivateKey
    let signingKey: SigningPrivateKey

    package init(agreementKey: AgreementPrivateKey, signingKey: SigningPrivateKey) {
        self.agreementKey = agreementKey
        self.signingKey = signingKey
    }

    package init(_ identity: LocalIdentity) {
        self.init(agreementKey: identity.agreementKey, signingKey: identity.signingKey)
    }

    /// The public keys, for senders.
    package var publicKeys: EndpointKeys {
        EndpointKeys(agreementKey: agreementKey.publicKey, signingKey: signingKey.publicKey)
    }
}
