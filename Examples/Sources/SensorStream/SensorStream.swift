import Nearshare

/// Live values: each one over a byte stream, so that none is missing, and each as an unreliable message, so that the latest one
/// is never late.
///
///     SensorStream                measures, for each peer that asks
///     SensorStream attic          shows the values of the machine called attic
@main struct SensorStream {
    struct Reading: Codable {
        var celsius: Double
        var number: Int
    }

    static func main() async throws {
        let name = CommandLine.arguments.dropFirst().first
        let machine = try LocalMachine()
        // The temperature is public.
        var settings = SessionSettings()
        settings.trust = .anyKey
        try await machine.run { [settings] node in
            let service = try ServiceType("sensor-stream")
            if let name {
                let session = try node.startSession(settings)
                _ = try await node.invite(name, into: session, for: service)
                await show(session)
            } else {
                let listener = try node.listen(
                    as: service, info: ["measures": "temperature"])
                print("measuring as \(node.name) on port \(listener.port)")
                let sessions = try listener.sessions(InvitationPolicy { _ in true }, settings: settings)
                await withDiscardingTaskGroup { group in
                    for await session in sessions {
                        group.addTask { await measure(for: session) }
                    }
                }
            }
        }
    }

    /// Sends values until the asking peer has left.
    static func measure(for session: Session) async {
        guard let watcher = session.members.first else { return }
        do {
            try await session.waitUntilConnected(to: watcher.id)
            print("\(watcher.name) watches")
            let stream = try await session.openStream(named: "temperature", to: watcher.id)
            for number in 1... {
                let reading = Reading(celsius: temperature(number), number: number)
                let message = try SessionMessage(encoding: reading)
                try await session.send(message, to: [watcher.id], mode: .unreliable)
                // Waits while the other side does not read.
                try await stream.write(Array("\(reading.celsius)\n".utf8))
                try await Task.sleep(for: .milliseconds(250))
            }
        } catch {
            print("\(watcher.name) left: \(error)")
        }
        await session.leave()
    }

    static func show(_ session: Session) async {
        await withTaskGroup { group in
            group.addTask {
                for await received in session.messages {
                    guard let reading = try? received.message.decode(Reading.self) else { continue }
                    print("now \(reading.celsius) °C (\(reading.number))")
                }
            }
            for await incoming in session.streams where incoming.name == "temperature" {
                group.addTask {
                    do {
                        for try await bytes in incoming { print("so far", String(decoding: bytes, as: UTF8.self)) }
                    } catch {
                        print("the sensor left: \(error)")
                    }
                    await session.leave()
                }
            }
        }
    }

    /// A simulated value: not every machine has a thermometer.
    static func temperature(_ number: Int) -> Double { 20 + Double(number * 7 % 30) / 10 }
}
