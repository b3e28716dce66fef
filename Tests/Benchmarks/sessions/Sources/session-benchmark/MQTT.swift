import CMosquitto
import Glibc
import Synchronization

/// MQTT over TLS through the broker mosquitto: each message goes to the broker, and from there to the subscriber.
enum MQTTMessages: MessagingSystem {
    static let name = "MQTT over TLS, mosquitto"
    /// Limit on the messages on their way at once: the broker drops those for which it has no room.
    private static let windowCount = 1000

    /// A client with a thread of its own, which calls the function of ``onMessage(_:)`` for each message.
    private final class Client: @unchecked Sendable {
        let raw: OpaquePointer
        private let receiver = Mutex(Receiver(handle: {}))
        /// A value that contains the function: a mutex of the function itself wraps it once more at each use.
        private struct Receiver {
            let handle: @Sendable () -> Void
        }

        private let isSubscribed = Atomic(false)
        private let topic: String

        init(topic: String, port: UInt16, certificate: String) {
            self.topic = topic
            raw = mosquitto_new(nil, true, nil)!
            mosquitto_user_data_set(raw, Unmanaged.passUnretained(self).toOpaque())
            precondition(mosquitto_tls_set(raw, certificate, nil, nil, nil, nil) == MOSQ_ERR_SUCCESS.code)
            mosquitto_int_option(raw, MOSQ_OPT_TCP_NODELAY, 1)
            mosquitto_message_callback_set(raw) { _, data, _ in
                Unmanaged<Client>.fromOpaque(data!).takeUnretainedValue().receiver.withLock { $0.handle }()
            }
            mosquitto_subscribe_callback_set(raw) { _, data, _, _, _ in
                Unmanaged<Client>.fromOpaque(data!).takeUnretainedValue().isSubscribed.store(true, ordering: .releasing)
            }
            precondition(mosquitto_connect(raw, "localhost", Int32(port), 60) == MOSQ_ERR_SUCCESS.code)
            precondition(mosquitto_loop_start(raw) == MOSQ_ERR_SUCCESS.code)
            precondition(mosquitto_subscribe(raw, nil, topic, 0) == MOSQ_ERR_SUCCESS.code)
            while !isSubscribed.load(ordering: .acquiring) { usleep(1000) }
        }

        func onMessage(_ handle: @escaping @Sendable () -> Void) { receiver.withLock { $0 = Receiver(handle: handle) } }

        func publish(to topic: String, _ bytes: [UInt8]) {
            precondition(mosquitto_publish(raw, nil, topic, Int32(bytes.count), bytes, 0, false) == MOSQ_ERR_SUCCESS.code)
        }

        func end() {
            mosquitto_disconnect(raw)
            mosquitto_loop_stop(raw, false)
            mosquitto_destroy(raw)
        }
    }

    static func run() async throws -> (roundTrips: Cost, oneWay: Cost) {
        let folder = "\(directory)/mqtt"
        makeCertificate(in: folder)
        let port = UInt16.random(in: 20_000..<30_000)
        let file = fopen("\(folder)/configuration", "w")!
        fputs(
            """
            listener \(port) 127.0.0.1
            allow_anonymous true
            certfile \(folder)/certificate
            keyfile \(folder)/key
            set_tcp_nodelay true
            max_queued_messages 0
            max_inflight_messages 0
            user root

            """, file)
        fclose(file)
        mosquitto_lib_init()
        let broker = Command(["mosquitto", "-c", "\(folder)/configuration"], output: "\(folder)/log")
        defer { broker.end() }
        usleep(500_000)
        let (requester, responder) = (
            Client(topic: "answers", port: port, certificate: "\(folder)/certificate"),
            Client(topic: "questions", port: port, certificate: "\(folder)/certificate")
        )
        defer {
            requester.end()
            responder.end()
        }
        let message = [UInt8](repeating: 7, count: messageByteCount)
        let answered = Semaphore()
        requester.onMessage { answered.signal() }
        responder.onMessage { responder.publish(to: "answers", message) }
        func cost(_ body: () -> Void) -> Cost {
            let (start, before) = (Stopwatch(), broker.processorTime)
            body()
            var cost = start.cost
            cost.processor += broker.processorTime - before
            return cost
        }
        let roundTrips = cost {
            for _ in 0..<roundTripCount {
                requester.publish(to: "questions", message)
                answered.wait()
            }
        }
        let window = Semaphore(windowCount)
        responder.onMessage { window.signal() }
        let oneWay = cost {
            for _ in 0..<oneWayCount {
                window.wait()
                requester.publish(to: "questions", message)
            }
            for _ in 0..<windowCount { window.wait() }
        }
        return (roundTrips, oneWay)
    }
}

/// A semaphore between two threads.
final class Semaphore: @unchecked Sendable {
    private let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)

    init(_ value: Int = 0) { sem_init(semaphore, 0, UInt32(value)) }

    deinit {
        sem_destroy(semaphore)
        semaphore.deallocate()
    }

    func signal() { sem_post(semaphore) }
    func wait() { while sem_wait(semaphore) != 0 {} }
}

extension mosq_err_t {
    fileprivate var code: Int32 { Int32(rawValue) }
}
