package import NearshareBase
package import NearshareCrypto

/// The public keys of an endpoint, for which bundles can be sealed: from an earlier session, an announcement, or an imported
/// file.
package struct EndpointKeys: Sendable, Hashable {
    package var agreementKey: AgreementPublicKey
    package var signingKey: SigningPublicKey

    package init(agreementKey: AgreementPublicKey, signingKey: SigningPublicKey) {
        self.agreementKey = agreementKey
        self.signingKey = signingKey
    }

    package var address: EndpointID { EndpointID(of: signingKey) }
    package var fingerprint: Fingerprint { Fingerprint(of: agreementKey) }
}
