package import NearshareCrypto

/// The two keys with which a node opens and signs what is carried.
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

    package var contact: EndpointKeys {
        EndpointKeys(agreementKey: agreementKey.publicKey, signingKey: signingKey.publicKey)
    }
}
