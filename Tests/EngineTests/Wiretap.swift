import NearshareInterfaces
import NearshareTCP

/// An observer between two machines, which forwards all bytes of a TCP link and keeps a copy.
final class Wiretap: Sendable {
    private struct State {
        var bytes: [UInt8] = []
        var links: [any StreamLink] = []
        var carrying = 0
    }

    private let listener: any StreamListener
    private let state = Monitor(State())
    private let target: LinkAddress
    private let transport = TCPTransport()

    init(to target: LinkAddress) throws {
        self.target = target
        listener = try transport.listen(port: 0, interface: "lo")
        Blocking.run { [self] in
            while let incoming = try? listener.accept() {
                guard let onward = try? transport.connect(to: self.target, timeout: .seconds(5)) else { continue }
                state.update { state in
                    state.links += [incoming, onward]
                    state.carrying += 2
                }
                for (source, sink) in [(incoming, onward), (onward, incoming)] {
                    Blocking.run { self.carry(source, sink) }
                }
            }
        }
    }

    var port: UInt16 { listener.port }

    /// The recorded bytes of ended links.
    func saw(_ wanted: [UInt8]) -> Bool { state.withLock { $0.bytes.firstRange(of: wanted) != nil } }

    /// Waits until both ends of all links have closed them, so that all bytes are recorded.
    func ended() async {
        await withCheckedContinuation { continuation in
            Blocking.run {
                self.state.wait { $0.carrying == 0 ? () : nil }
                continuation.resume()
            }
        }
    }

    func end() {
        listener.close()
        for link in state.withLock({ $0.links }) { link.close() }
    }

    private func carry(_ source: any StreamLink, _ sink: any StreamLink) {
        var kept: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while let count = try? buffer.withUnsafeMutableBytes({ try source.read(into: $0) }), count > 0 {
            // Each direction separately, so that the marker is contiguous.
            kept += buffer[..<count]
            guard (try? buffer.withUnsafeBytes({ try sink.write(UnsafeRawBufferPointer(rebasing: $0[..<count])) })) != nil
            else { break }
        }
        source.close()
        sink.close()
        state.update { state in
            state.bytes += kept
            state.carrying -= 1
        }
    }
}
