import Glibc
import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareTCP

/// Links and datagrams of the system's sockets.
@Suite(.timeLimit(.minutes(1))) struct SocketTests {
    @Test func `a link to a host by its name knows the numeric address as well`() throws {
        let transport = TCPTransport()
        let listener = try transport.listen(port: 0, interface: "lo")
        defer { listener.close() }
        let address = LinkAddress(host: "localhost", port: listener.port)
        let link = try transport.connect(to: address, timeout: .seconds(10))
        defer { link.close() }
        #expect(link.remote == address && ["127.0.0.1", "::1"].contains(link.remoteHost))
        let accepted = try listener.accept()
        #expect(accepted.remoteHost == accepted.remote.host)
        accepted.close()
    }

    @Test func `no resolver is asked for the address of a datagram`() throws {
        for host in ["127.0.0.1", "::ffff:127.0.0.1", "::1"] {
            #expect(try SocketAddress.resolve(LinkAddress(host: host, port: 1), isNumeric: true).count == 1)
        }
        for host in ["localhost", "::ffff:localhost"] {
            #expect(throws: LinkError.self) {
                _ = try SocketAddress.resolve(LinkAddress(host: host, port: 1), isNumeric: true)
            }
        }
    }

    @Test func `no name is cut at a NUL character`() throws {
        let transport = TCPTransport()
        let listener = try transport.listen(port: 0, interface: "lo")
        defer { listener.close() }
        #expect(IPAddress(text: "127.0.0.1\0") == nil)
        #expect(throws: LinkError.self) {
            _ = try transport.connect(to: LinkAddress(host: "127.0.0.1\0", port: listener.port), timeout: .seconds(10))
        }
        #expect(throws: LinkError.self) { _ = try transport.listen(port: 0, interface: "lo\0x") }
    }

    @Test func `a socket that can be read no more ends the wait for datagrams`() throws {
        let bound = try BoundSocket(SOCK_DGRAM, port: 0, interface: "lo")
        let socket = UDPSocket(bound)
        // The socket closes this descriptor. recvfrom(2) fails with ENOTSOCK from now on.
        let file = open("/dev/null", O_RDONLY)
        dup2(file, bound.descriptor)
        close(file)
        let isEnded = socket.receive(upTo: 1) == nil
        #expect(isEnded)
    }

    @Test func `a group is joined on no VPN, on few of many interfaces, and where there is a carrier first`() {
        let up = UInt32(IFF_UP) | UInt32(IFF_MULTICAST)
        let running = up | UInt32(IFF_RUNNING)
        var flags: [Int32: UInt32] = [
            1: UInt32(IFF_UP) | UInt32(IFF_RUNNING) | UInt32(IFF_LOOPBACK), 2: running | UInt32(IFF_POINTOPOINT),
            3: UInt32(IFF_MULTICAST), 4: UInt32(IFF_UP), 5: up, 6: running,
        ]
        let few = Array(UDPGroupSocket.usableInterfaces(flags))
        #expect(few == [1, 6, 5])
        for index in Int32(7)...100 { flags[index] = up }
        flags[101] = running
        let many = Array(UDPGroupSocket.usableInterfaces(flags))
        #expect(many.prefix(4) == [1, 6, 101, 5] && many.count == 16)
    }
}
