import NearshareInterfaces
import NearshareTesting

/// A transport that damages data, like a hostile relay: once on each of the first links that are used for long enough.
struct TamperingTransport: StreamTransport {
    enum Tampering: CaseIterable {
        case drop, duplicate, reorder, corrupt
    }

    let inner: any StreamTransport
    let tampering: Tampering
    /// The number of links that were damaged.
    let damagedLinks: Monitor<Int>

    static let maximumDamagedLinkCount = 3

    func listen(port: UInt16, interface: String?) throws(LinkError) -> any StreamListener {
        try inner.listen(port: port, interface: interface)
    }

    func connect(
        to address: LinkAddress, timeout: Duration, cancelledBy cancellation: EventFD?
    ) throws(LinkError) -> any StreamLink {
        TamperingLink(try inner.connect(to: address, timeout: timeout, cancelledBy: cancellation), tampering, damagedLinks)
    }
}

private final class TamperingLink: ForwardingLink {
    private struct State {
        var writes = 0
        /// Bytes that follow the next write, so that the two are reordered.
        var held: [UInt8]?
    }

    let inner: any StreamLink
    private let tampering: TamperingTransport.Tampering
    private let damagedLinks: Monitor<Int>
    private let state = Monitor(State())
    /// The number of the write that is tampered with: handshake, greeting and admission are complete before it.
    private static let tamperedWrite = 40

    init(_ inner: any StreamLink, _ tampering: TamperingTransport.Tampering, _ damagedLinks: Monitor<Int>) {
        self.inner = inner
        self.tampering = tampering
        self.damagedLinks = damagedLinks
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(LinkError) {
        for piece in pieces(Array(bytes)) {
            try piece.withUnsafeBufferPointer { (raw) throws(LinkError) in try inner.write(UnsafeRawBufferPointer(raw)) }
        }
    }

    /// Writes nothing, so that all data passes ``write(_:)``.
    func writeWithoutBlocking(_ bytes: UnsafeRawBufferPointer) throws(LinkError) -> Int { 0 }

    private func pieces(_ bytes: [UInt8]) -> [[UInt8]] {
        state.update { state in
            state.writes += 1
            if let held = state.held.take() { return [bytes, held] }
            guard state.writes == Self.tamperedWrite, countDamage() else { return [bytes] }
            switch tampering {
            case .drop: return []
            case .duplicate: return [bytes, bytes]
            case .reorder:
                state.held = bytes
                return []
            case .corrupt:
                var altered = bytes
                altered[altered.count / 2] ^= 1
                return [altered]
            }
        }
    }

    /// - Returns: false when enough links were damaged.
    private func countDamage() -> Bool {
        damagedLinks.update { count in
            guard count < TamperingTransport.maximumDamagedLinkCount else { return false }
            count += 1
            return true
        }
    }
}
