import CMosquitto
import Glibc
import Synchronization

/// MQTT over TLS through the broker mosquitto: each message goes to the broker, and from there to the subscriber. Each is
/// acknowledged (QoS 1), as those of a session are; the broker drops others when they come faster than the subscriber takes them.
enum MQTTMessages: Rival {
    static let name = "MQTT over TLS, mosquitto, QoS 1"
    private static let acknowledged: Int32 = 1

    /// A client with a thread of its own, which calls `receive` for each message.
    private final class Client: @unchecked Sendable {
        let raw: OpaquePointer
        let receive = Mutex<@Sendable () -> Void>({})
        private let isSubscribed = Atomic(false)
        private let topic: String

        init(topic: String, port: UInt16, certificate: String) {
            self.topic = topic
            raw = mosquitto_new(nil, true, nil)!
            mosquitto_user_data_set(raw, Unmanaged.passUnretained(self).toOpaque())
            precondition(mosquitto_tls_set(raw, certificate, nil, nil, nil, nil) == MOSQ_ERR_SUCCESS.code)
            mosquitto_int_option(raw, MOSQ_OPT_TCP_NODELAY, 1)
            // As many as there are.
            mosquitto_max_inflight_messages_set(raw, 0)
            mosquitto_message_callback_set(raw) { _, data, _ in
                Unmanaged<Client>.fromOpaque(data!).takeUnretainedValue().receive.withLock { $0 }()
            }
            mosquitto_subscribe_callback_set(raw) { _, data, _, _, _ in
                Unmanaged<Client>.fromOpaque(data!).takeUnretainedValue().isSubscribed.store(true, ordering: .releasing)
            }
            precondition(mosquitto_connect(raw, "localhost", Int32(port), 60) == MOSQ_ERR_SUCCESS.code)
            precondition(mosquitto_loop_start(raw) == MOSQ_ERR_SUCCESS.code)
            precondition(mosquitto_subscribe(raw, nil, topic, acknowledged) == MOSQ_ERR_SUCCESS.code)
            while !isSubscribed.load(ordering: .acquiring) { usleep(1000) }
        }

        func publish(to topic: String, _ bytes: [UInt8]) {
            let count = Int32(bytes.count)
            precondition(mosquitto_publish(raw, nil, topic, count, bytes, acknowledged, false) == MOSQ_ERR_SUCCESS.code)
        }

        func end() {
            mosquitto_disconnect(raw)
            mosquitto_loop_stop(raw, false)
            mosquitto_destroy(raw)
        }
    }

    static func run() async throws -> (roundTrips: Cost, oneWay: Cost) {
        let place = "\(directory)/mqtt"
        makeCertificate(in: place)
        let port = UInt16.random(in: 20_000..<30_000)
        let file = fopen("\(place)/configuration", "w")!
        fputs(
            """
            listener \(port) 127.0.0.1
            allow_anonymous true
            certfile \(place)/certificate
            keyfile \(place)/key
            set_tcp_nodelay true
            max_queued_messages 0
            max_inflight_messages 0
            user root

            """, file)
        fclose(file)
        mosquitto_lib_init()
        let broker = Command(["mosquitto", "-c", "\(place)/configuration"], output: "\(place)/log")
        defer { broker.end() }
        usleep(500_000)
        let (asker, answerer) = (
            Client(topic: "answers", port: port, certificate: "\(place)/certificate"),
            Client(topic: "questions", port: port, certificate: "\(place)/certificate")
        )
        defer {
            asker.end()
            answerer.end()
        }
        let message = [UInt8](repeating: 7, count: messageByteCount)
        let answered = Signal()
        asker.receive.withLock { $0 = { answered.raise() } }
        answerer.receive.withLock { $0 = { answerer.publish(to: "answers", message) } }
        func cost(_ body: () -> Void) -> Cost {
            let (start, before) = (Moment(), broker.processorTime)
            body()
            var cost = start.cost
            cost.processor += broker.processorTime - before
            return cost
        }
        let roundTrips = cost {
            for _ in 0..<roundTripCount {
                asker.publish(to: "questions", message)
                answered.wait()
            }
        }
        let left = Atomic(oneWayCount)
        answerer.receive.withLock {
            $0 = { if left.subtract(1, ordering: .relaxed).newValue == 0 { answered.raise() } }
        }
        let oneWay = cost {
            for _ in 0..<oneWayCount { asker.publish(to: "questions", message) }
            answered.wait()
        }
        return (roundTrips, oneWay)
    }
}

/// A semaphore between two threads.
final class Signal: @unchecked Sendable {
    private let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)

    init() { sem_init(semaphore, 0, 0) }

    deinit {
        sem_destroy(semaphore)
        semaphore.deallocate()
    }

    func raise() { sem_post(semaphore) }
    func wait() { while sem_wait(semaphore) != 0 {} }
}

extension mosq_err_t {
    fileprivate var code: Int32 { Int32(rawValue) }
}
