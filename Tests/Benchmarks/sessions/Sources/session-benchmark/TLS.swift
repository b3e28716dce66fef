import COpenSSL
import Glibc

/// A stream over TCP and TLS 1.3 of OpenSSL with AES-256-GCM: what a program without sessions would use.
enum TLSStream {
    /// Moves `total` bytes in pieces over loopback.
    /// - Parameter folder: the directory of the certificate.
    /// - Returns: the seconds that it took.
    static func run(total: Int, piece: Int, certificate folder: String) throws -> Double {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { raw in
                precondition(bind(listener, raw, length) == 0 && listen(listener, 1) == 0)
                precondition(getsockname(listener, raw, &length) == 0)
            }
        }
        let (endpoint, size) = (address, length)
        let writer = JoinableThread {
            var address = endpoint
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { precondition(connect(descriptor, $0, size) == 0) }
            }
            let context = SSL_CTX_new(TLS_client_method())!
            precondition(SSL_CTX_set_ciphersuites(context, "TLS_AES_256_GCM_SHA384") == 1)
            let connection = SSL_new(context)!
            SSL_set_fd(connection, descriptor)
            precondition(SSL_connect(connection) == 1)
            let bytes = [UInt8](repeating: 1, count: piece)
            for _ in 0..<total / piece { precondition(SSL_write(connection, bytes, Int32(piece)) == Int32(piece)) }
            SSL_shutdown(connection)
            SSL_free(connection)
            SSL_CTX_free(context)
            close(descriptor)
        }
        let descriptor = accept(listener, nil, nil)
        let context = SSL_CTX_new(TLS_server_method())!
        precondition(SSL_CTX_use_certificate_file(context, "\(folder)/certificate", SSL_FILETYPE_PEM) == 1)
        precondition(SSL_CTX_use_PrivateKey_file(context, "\(folder)/key", SSL_FILETYPE_PEM) == 1)
        // The writer reads none, and bytes that are unread when it closes would reset the connection.
        precondition(SSL_CTX_set_num_tickets(context, 0) == 1)
        let connection = SSL_new(context)!
        SSL_set_fd(connection, descriptor)
        precondition(SSL_accept(connection) == 1)
        let start = seconds()
        var buffer = [UInt8](repeating: 0, count: piece)
        var count = 0
        while count < total {
            let read = SSL_read(connection, &buffer, Int32(piece))
            precondition(read > 0)
            count += Int(read)
        }
        let time = seconds() - start
        writer.join()
        SSL_free(connection)
        SSL_CTX_free(context)
        close(descriptor)
        close(listener)
        return time
    }
}
