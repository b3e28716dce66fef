internal import CNearshareShims
package import NearshareBase
package import NearshareInterfaces

/// TLS 1.2 and 1.3 by OpenSSL, which is loaded when it is first needed. Certificates are checked for their dates and their own
/// signatures; renegotiation and resumption are off.
package final class TLSSecurity: LinkSecurity {
    package let fingerprint: [UInt8]
    private let server: TLSContext
    private let client: TLSContext

    package init(_ identity: TLSIdentity) throws(TLSError) {
        try TLSError.loadLibrary()
        server = try TLSContext(identity, isServer: true)
        client = try TLSContext(identity, isServer: false)
        fingerprint = server.fingerprint
    }

    package func accept(_ link: any StreamLink, now: WallTime) throws(LinkError) -> any SecureLink {
        try TLSLink(link, server, now: now)
    }

    package func connect(over link: any StreamLink, now: WallTime) throws(LinkError) -> any SecureLink {
        try TLSLink(link, client, now: now)
    }
}

/// The settings of one role.
final class TLSContext: @unchecked Sendable {
    // OpenSSL counts the references of a context itself, and nothing changes it after init.
    let raw: UnsafeMutableRawPointer
    let isServer: Bool

    init(_ identity: TLSIdentity, isServer: Bool) throws(TLSError) {
        guard
            let raw = nearshare_tls_context_open(identity.pem, Int32(clamping: identity.pem.count), isServer ? 1 : 0)
        else { throw .last("the certificate cannot be used") }
        self.raw = raw
        self.isServer = isServer
    }

    deinit { nearshare_tls_context_close(raw) }

    var fingerprint: [UInt8] {
        var fingerprint = [UInt8](repeating: 0, count: Int(NEARSHARE_FINGERPRINT_LENGTH))
        return nearshare_tls_own_fingerprint(raw, &fingerprint) == 1 ? fingerprint : []
    }
}
