package import NearshareBase
internal import NearshareCrypto

/// A node's public keys as a small text file, so that messages can be sealed for a node that has never been in range:
///
///     nearshare keys 1
///     name 416461
///     agreement 64 hexadecimal digits
///     signing 64 hexadecimal digits
///     signature 128 hexadecimal digits
///
/// The signature proves that the author of the file has the signing key, and that the other fields are unchanged. It does not
/// prove who the author is: the user who imports the file says whose it is.
package struct ExportedKeys: Sendable, Hashable {
    package var publicKeys: EndpointKeys
    /// Claimed by the author.
    package var name: DisplayName

    package static let maximumByteCount = 1_024

    /// The reason why a text is not a file of exported keys.
    package enum Invalid: Error, Sendable, Hashable, CustomStringConvertible {
        case notAKeysFile
        case laterVersion(Int)
        case damaged

        package var description: String {
            switch self {
            case .notAKeysFile: "not a file of exported keys"
            case .laterVersion(let version): "written by a later version of nearshare (format \(version)); update this one"
            case .damaged: "changed since it was exported; get the file again"
            }
        }
    }

    /// - Parameter text: the content of the file.
    package init(decoding text: String) throws(Invalid) {
        guard text.utf8.count <= Self.maximumByteCount else { throw .notAKeysFile }
        var fields: [Substring: [UInt8]] = [:]
        let lines = text.split(whereSeparator: \.isNewline)
        guard let head = lines.first, head.hasPrefix("nearshare keys ") else { throw .notAKeysFile }
        guard let version = Int(head.dropFirst("nearshare keys ".count)), version >= 1 else { throw .notAKeysFile }
        guard version == 1 else { throw .laterVersion(version) }
        for line in lines.dropFirst() {
            let parts = line.split(separator: " ")
            guard parts.count == 2, let bytes = Hex.decode(String(parts[1])), fields.updateValue(bytes, forKey: parts[0]) == nil
            else { throw .damaged }
        }
        guard let name = fields["name"].flatMap({ String(validating: $0, as: UTF8.self) }).flatMap({ try? DisplayName($0) }),
            let agreementKey = fields["agreement"].flatMap({ try? AgreementPublicKey($0) }),
            let signingKey = fields["signing"].flatMap({ try? SigningPublicKey($0) }), let signature = fields["signature"],
            signingKey.isValid(signature, for: Self.signedBytes(agreementKey, signingKey, name))
        else { throw .damaged }
        publicKeys = EndpointKeys(agreementKey: agreementKey, signingKey: signingKey)
        self.name = name
    }

    /// Writes the file of a node's own keys.
    package static func export(_ keys: RouterKeys, name: DisplayName) -> String {
        let publicKeys = keys.publicKeys
        let signature = keys.signingKey.signature(for: signedBytes(publicKeys.agreementKey, publicKeys.signingKey, name))
        return """
            nearshare keys 1
            name \(Hex.encode(Array(name.claimed.utf8)))
            agreement \(Hex.encode(publicKeys.agreementKey.bytes))
            signing \(Hex.encode(publicKeys.signingKey.bytes))
            signature \(Hex.encode(signature))

            """
    }

    private static func signedBytes(
        _ agreementKey: AgreementPublicKey, _ signingKey: SigningPublicKey, _ name: DisplayName
    ) -> [UInt8] {
        Array("nearshare keys".utf8) + agreementKey.bytes + signingKey.bytes + Array(name.claimed.utf8)
    }
}
