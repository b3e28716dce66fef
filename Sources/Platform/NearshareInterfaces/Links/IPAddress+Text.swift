package import NearshareBase

#if canImport(Darwin)
    internal import Darwin
#else
    internal import Glibc
#endif

extension IPAddress {
    /// - Parameter text: a numeric address without a zone.
    package init?(text: String) {
        // The parser would see the part before it.
        guard !text.utf8.contains(0) else { return nil }
        func parse(_ family: Int32, count: Int) -> [UInt8]? {
            let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
                buffer.initialize(repeating: 0)
                initialized = inet_pton(family, text, buffer.baseAddress) == 1 ? count : 0
            }
            return bytes.isEmpty ? nil : bytes
        }
        guard let bytes = parse(AF_INET, count: 4) ?? parse(AF_INET6, count: 16) else { return nil }
        self.init(bytes: bytes)
    }

    /// Whether a host is a numeric loopback address, without a zone.
    package static func isLoopback(host: String) -> Bool { IPAddress(text: host)?.isLoopback ?? false }
}
