package import NearshareBase
internal import NearshareCrypto

/// The public keys of somebody as a small text file, so that messages can be sealed for them who have never been met:
///
///     nearshare keys 1
///     name 416461
///     agreement 64 hexadecimal digits
///     signing 64 hexadecimal digits
///     signature 128 hexadecimal digits
///
/// The signature shows that whoever made the file has the signing key, and that the others stand in it as they were written. Whose it
/// is only the way on which it came can tell: whoever imports it says for whom.
package struct ExportedKeys: Sendable, Hashable {
    package var contact: EndpointKeys
    /// As its owner calls themselves: a claim.
    package var name: DisplayName

    package static let maximumByteCount = 1_024

    package enum Invalid: Error, Sendable, Hashable, CustomStringConvertible {
        case notAKeysFile
        case laterVersion(String)
        case damaged

        package var description: String {
            switch self {
            case .notAKeysFile: "it is no file of exported keys; make one with `nearshare keys export` on their machine"
            case .laterVersion(let version): "it was written by a later nearshare (format \(version)); update this one"
            case .damaged: "it has changed since it was exported; get it once more"
            }
        }
    }

    /// - Parameter text: the file's content.
    package init(decoding text: String) throws(Invalid) {
        guard text.utf8.count <= Self.maximumByteCount else { throw .notAKeysFile }
        var fields: [Substring: [UInt8]] = [:]
        let lines = text.split(whereSeparator: \.isNewline)
        guard let head = lines.first, head.hasPrefix("nearshare keys ") else { throw .notAKeysFile }
        guard head == "nearshare keys 1" else { throw .laterVersion(String(head.dropFirst(15).prefix(8))) }
        for line in lines.dropFirst() {
            let parts = line.split(separator: " ")
            guard parts.count == 2, let bytes = Hex.decode(String(parts[1])), fields.updateValue(bytes, forKey: parts[0]) == nil
            else { throw .damaged }
        }
        guard let name = fields["name"].flatMap({ String(validating: $0, as: UTF8.self) }).flatMap({ try? DisplayName($0) }),
            let agreementKey = fields["agreement"].flatMap({ try? AgreementPublicKey($0) }),
            let signingKey = fields["signing"].flatMap({ try? SigningPublicKey($0) }), let signature = fields["signature"],
            signingKey.isValid(signature, for: Self.signed(agreementKey, signingKey, name))
        else { throw .damaged }
        contact = EndpointKeys(agreementKey: agreementKey, signingKey: signingKey)
        self.name = name
    }

    /// One's own keys, to be given to others.
    package static func export(_ keys: RouterKeys, name: DisplayName) -> String {
        let contact = keys.contact
        let signature = keys.signingKey.signature(for: signed(contact.agreementKey, contact.signingKey, name))
        return """
            nearshare keys 1
            name \(Hex.encode(Array(name.claimed.utf8)))
            agreement \(Hex.encode(contact.agreementKey.bytes))
            signing \(Hex.encode(contact.signingKey.bytes))
            signature \(Hex.encode(signature))

            """
    }

    private static func signed(
        _ agreementKey: AgreementPublicKey, _ signingKey: SigningPublicKey, _ name: DisplayName
    ) -> [UInt8] {
        Array("nearshare keys".utf8) + agreementKey.bytes + signingKey.bytes + Array(name.claimed.utf8)
    }
}
