internal import CNearshareShims

/// A private key and a certificate that it signs, as PEM.
package struct TLSIdentity: Sendable, Hashable {
    package let pem: [UInt8]

    /// The beginning of the certificate's validity (RFC 5280, section 4.1.2.5): 1975-01-01. Both ends check the dates, and clocks
    /// may be wrong.
    private static let notBefore: Int64 = 157_766_400
    /// The end of the certificate's validity: 4096-01-01.
    private static let notAfter: Int64 = 67_090_118_400
    private static let maximumByteCount = 8192

    /// An identity that was made before.
    package init(pem: [UInt8]) {
        self.pem = pem
    }

    /// Makes an RSA key of 2048 bits with randomness of OpenSSL, which takes a tenth of a second, and its certificate.
    /// - Parameters:
    ///   - name: the common name of the certificate, which identifies no user.
    ///   - serial: the number of the certificate.
    package init(name: String, serial: UInt64) throws(TLSError) {
        try TLSError.loadLibrary()
        var pem = [UInt8](repeating: 0, count: Self.maximumByteCount)
        let count = nearshare_tls_make_identity(name, Self.notBefore, Self.notAfter, serial, &pem, Int32(pem.count))
        guard count > 0 else { throw .last("could not make a certificate") }
        self.pem = Array(pem[..<Int(count)])
    }
}

/// A failure of OpenSSL. The description is shown to the user.
package struct TLSError: Error, Sendable, CustomStringConvertible {
    package let description: String

    /// The last failure on this thread.
    static func last(_ what: String) -> TLSError {
        var text = [CChar](repeating: 0, count: 200)
        nearshare_tls_error(&text, Int32(text.count))
        let reason = String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return TLSError(description: "\(what): \(reason)")
    }

    static func loadLibrary() throws(TLSError) {
        guard let problem = nearshare_load_ssl() else { return }
        throw TLSError(description: "\(String(cString: problem)); install OpenSSL 3 (Debian: libssl3)")
    }
}
