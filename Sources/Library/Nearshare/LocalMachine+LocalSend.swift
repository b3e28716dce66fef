package import Logging
package import NearshareInterfaces
internal import NearshareStorage
internal import NearshareTLS

extension LocalMachine {
    /// Whether the user has not turned LocalSend off.
    package var usesLocalSend: Bool { configuration.protocols?.contains(.localsend) ?? true }

    /// TLS as ``localSendSecurity()`` makes it, for commands that can do without; nil where there is none.
    package func localSendSecurityIfAvailable(log: Logger) -> (any LinkSecurity)? {
        guard usesLocalSend else { return nil }
        do {
            return try localSendSecurity()
        } catch {
            log.info("LocalSend devices are not found: \(error)")
            return nil
        }
    }

    private static let certificateFileName = "localsend.pem"
    /// The common name that LocalSend devices use, which identifies no user.
    private static let certificateName = "LocalSend User"

    /// Whether this machine has shown itself to LocalSend devices before.
    package var hasLocalSendCertificate: Bool { state.hasKey(Self.certificateFileName) }

    /// TLS with the certificate that this machine shows to LocalSend devices. The first call makes it.
    package func localSendSecurity() throws(StorageError) -> any LinkSecurity {
        try Self.security(try state.key(Self.certificateFileName, make: Self.makeCertificate))
    }

    /// TLS with a certificate that is not stored, for a look at what works.
    package func temporaryLocalSendSecurity() throws(StorageError) -> any LinkSecurity {
        try Self.security(try Self.makeCertificate())
    }

    private static func makeCertificate() throws(StorageError) -> [UInt8] {
        do throws(TLSError) {
            var generator = SystemRandomNumberGenerator()
            // Positive, as RFC 5280 demands.
            return try TLSIdentity(name: certificateName, serial: generator.next() >> 1 | 1).pem
        } catch {
            throw StorageError(.failed, error.description)
        }
    }

    private static func security(_ pem: [UInt8]) throws(StorageError) -> any LinkSecurity {
        do throws(TLSError) {
            return try TLSSecurity(TLSIdentity(pem: pem))
        } catch {
            throw StorageError(.failed, "\(certificateFileName) in the state directory: \(error)")
        }
    }
}
