public import NearshareCrypto
public import NearshareSecurity

/// The two keys with which a node opens and signs what is carried.
public struct CarrierKeys: Sendable {
    let agreementKey: AgreementPrivateKey
    let signingKey: SigningPrivateKey

    public init(agreementKey: AgreementPrivateKey, signingKey: SigningPrivateKey) {
        self.agreementKey = agreementKey
        self.signingKey = signingKey
    }

    public init(_ identity: LocalIdentity) {
        self.init(agreementKey: identity.agreementKey, signingKey: identity.signingKey)
    }

    public var contact: CarriedContact {
        CarriedContact(agreementKey: agreementKey.publicKey, signingKey: signingKey.publicKey)
    }
}
