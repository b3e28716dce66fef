internal import Glibc
internal import NearshareInterfaces

/// A socket address of any family (struct sockaddr_storage).
struct SocketAddress {
    private(set) var storage = sockaddr_storage()
    private(set) var length: socklen_t = 0

    /// Resolves a host name, or a numeric address with its zone, to addresses in the system's order of preference.
    /// - Parameter isNumeric: whether a host name is an error, which no resolver is asked for.
    static func resolve(_ address: LinkAddress, isNumeric: Bool = false) throws(LinkError) -> [SocketAddress] {
        guard !address.host.isEmpty else {
            throw LinkError(.unreachable, "the address has no host; name an IP address or a host name")
        }
        // The resolver would see the part before it.
        guard !address.host.utf8.contains(0) else {
            throw LinkError(.unreachable, "the host contains a NUL character; name an IP address or a host name")
        }
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_NUMERICSERV | (isNumeric ? AI_NUMERICHOST : 0)
        var list: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(address.host, "\(address.port)", &hints, &list)
        guard code == 0, let list else {
            throw LinkError(.unreachable, "could not resolve \(address.host): \(String(cString: gai_strerror(code)))")
        }
        defer { freeaddrinfo(list) }
        var found: [SocketAddress] = []
        var next: UnsafeMutablePointer<addrinfo>? = list
        while let entry = next {
            if let raw = entry.pointee.ai_addr {
                found.append(SocketAddress(raw, length: entry.pointee.ai_addrlen))
            }
            next = entry.pointee.ai_next
        }
        return found
    }

    init(_ raw: UnsafePointer<sockaddr>, length: socklen_t) {
        self.length = min(length, socklen_t(MemoryLayout<sockaddr_storage>.size))
        withUnsafeMutableBytes(of: &storage) {
            $0.copyMemory(from: UnsafeRawBufferPointer(start: raw, count: Int(self.length)))
        }
    }

    /// Has `body` fill in the address, as accept(2) and getsockname(2) do.
    init?(filledBy body: (UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Bool) {
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let isFilled = withUnsafeMutablePointer(to: &storage) { storage in
            storage.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, &length) }
        }
        guard isFilled else { return nil }
        self.length = length
    }

    var family: Int32 { Int32(storage.ss_family) }

    func withRaw<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
        withUnsafePointer(to: storage) { storage in
            storage.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, length) }
        }
    }

    /// The numeric form; an IPv4-mapped IPv6 address becomes an IPv4 address.
    var linkAddress: LinkAddress? {
        var host = [CChar](repeating: 0, count: Int(NI_MAXHOST))
        var service = [CChar](repeating: 0, count: Int(NI_MAXSERV))
        let code = withRaw { raw, length in
            getnameinfo(
                raw, length, &host, socklen_t(host.count), &service, socklen_t(service.count), NI_NUMERICHOST | NI_NUMERICSERV)
        }
        guard code == 0 else { return nil }
        func text(_ buffer: [CChar]) -> String {
            String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        }
        guard let port = UInt16(text(service)) else { return nil }
        let numeric = text(host)
        return LinkAddress(host: numeric.hasPrefix("::ffff:") ? String(numeric.dropFirst(7)) : numeric, port: port)
    }
}
