import CZeroMQ
import Glibc
import Nearshare

/// ZeroMQ with CURVE: messages over TCP, encrypted with the keys of both ends.
enum ZeroMQMessages: MessagingSystem {
    static let name = "ZeroMQ with CURVE, encrypted"

    private struct Socket: @unchecked Sendable {
        let raw: UnsafeMutableRawPointer

        func set(_ option: Int32, _ value: Int32) {
            var value = value
            precondition(zmq_setsockopt(raw, option, &value, MemoryLayout<Int32>.size) == 0)
        }

        func set(_ option: Int32, _ key: [CChar]) { precondition(zmq_setsockopt(raw, option, key, 40) == 0) }
        func send(_ bytes: [UInt8]) { precondition(zmq_send(raw, bytes, bytes.count, 0) >= 0) }

        func receive(_ buffer: inout [UInt8]) { precondition(zmq_recv(raw, &buffer, buffer.count, 0) >= 0) }
    }

    private static func keys() -> (public: [CChar], secret: [CChar]) {
        var (open, secret) = ([CChar](repeating: 0, count: 41), [CChar](repeating: 0, count: 41))
        precondition(zmq_curve_keypair(&open, &secret) == 0, "this ZeroMQ has no CURVE")
        return (open, secret)
    }

    static func run() async throws -> (roundTrips: Cost, oneWay: Cost) {
        let context = zmq_ctx_new()!
        let (server, client) = (Socket(raw: zmq_socket(context, ZMQ_PAIR)), Socket(raw: zmq_socket(context, ZMQ_PAIR)))
        let (serverKeys, clientKeys) = (keys(), keys())
        server.set(ZMQ_CURVE_SERVER, 1)
        server.set(ZMQ_CURVE_SECRETKEY, serverKeys.secret)
        client.set(ZMQ_CURVE_SERVERKEY, serverKeys.public)
        client.set(ZMQ_CURVE_PUBLICKEY, clientKeys.public)
        client.set(ZMQ_CURVE_SECRETKEY, clientKeys.secret)
        precondition(zmq_bind(server.raw, "tcp://127.0.0.1:*") == 0)
        var (endpoint, length) = ([CChar](repeating: 0, count: 64), 64)
        precondition(zmq_getsockopt(server.raw, ZMQ_LAST_ENDPOINT, &endpoint, &length) == 0)
        precondition(zmq_connect(client.raw, endpoint) == 0)

        let echo = JoinableThread {
            var buffer = [UInt8](repeating: 0, count: messageByteCount)
            for _ in 0..<roundTripCount + 1 {
                server.receive(&buffer)
                server.send(buffer)
            }
            for _ in 0..<oneWayCount { server.receive(&buffer) }
        }
        let message = [UInt8](repeating: 7, count: messageByteCount)
        var buffer = message
        // Connected once the first answer is there.
        client.send(message)
        client.receive(&buffer)
        var start = Stopwatch()
        for _ in 0..<roundTripCount {
            client.send(message)
            client.receive(&buffer)
        }
        let roundTrips = start.cost
        start = Stopwatch()
        for _ in 0..<oneWayCount { client.send(message) }
        echo.join()
        let oneWay = start.cost
        zmq_close(client.raw)
        zmq_close(server.raw)
        zmq_ctx_term(context)
        return (roundTrips, oneWay)
    }
}

/// A thread that can be joined.
struct JoinableThread {
    private let thread: pthread_t

    init(_ body: @escaping @Sendable () -> Void) {
        final class Box {
            let body: @Sendable () -> Void
            init(_ body: @escaping @Sendable () -> Void) { self.body = body }
        }
        var thread = pthread_t()
        let code = pthread_create(
            &thread, nil,
            { raw in
                Unmanaged<Box>.fromOpaque(raw!).takeRetainedValue().body()
                return nil
            }, Unmanaged.passRetained(Box(body)).toOpaque())
        precondition(code == 0)
        self.thread = thread
    }

    func join() { pthread_join(thread, nil) }
}
