// One adapter, controlled over standard input: for tests of the adapter against a real Bluetooth stack.

internal import Glibc
internal import NearshareBase
internal import NearshareBluetooth
internal import NearshareInterfaces
internal import Synchronization

enum Probe {
    static func main() async {
        let radio: Radio
        do {
            radio = try BluetoothRadio.open(
                adapter: CommandLine.arguments.dropFirst().first, log: { say("log", $0) }, warn: { say("warning", $0) })
        } catch {
            say("error", "\(error)")
            exit(1)
        }
        say("ready")
        let session = Session(radio)
        while let line = readLine() {
            let words = line.split(separator: " ").map(String.init)
            guard words.first != "quit" else { break }
            do { try session.perform(words) } catch { say("error", "\(error)") }
        }
        session.stop()
        say("bye")
    }

    /// Prints a line with one write(2), because other threads print as well.
    static func say(_ fields: String...) {
        let line = Array(fields.joined(separator: "\t").utf8) + [UInt8(ascii: "\n")]
        _ = line.withUnsafeBytes { write(1, $0.baseAddress, $0.count) }
    }

    static var seconds: Double {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}

private final class Session: Sendable {
    private struct State {
        var advertisement: (any RunningAdvertisement)?
        var listener: (any StreamListener)?
        var links: [Int: any FrameLink] = [:]
        var streams: [any StreamLink] = []
        var tasks: [Task<Void, Never>] = []
    }

    private let radio: Radio
    private let state = Mutex(State())

    init(_ radio: Radio) {
        self.radio = radio
    }

    /// Performs a command of the test.
    func perform(_ words: [String]) throws {
        switch words.first {
        case "advertise": try advertise(words[1])
        case "withdraw": state.withLock { $0.advertisement.take() }?.stop()
        case "browse": try browse()
        case "frames": receiveFrames()
        case "write": try write(link: Int(words[1])!, count: Int(words[2])!, times: Int(words[3])!)
        case "close": state.withLock { $0.links[Int(words[1])!] }?.close()
        case "chat": try chat(words[1])
        case "say": try sayTo(words[1], words[2...].joined(separator: " "))
        case "part": radio.chat?.disconnect(LinkAddress(host: words[1], port: 0, medium: .bluetooth))
        case "hang": try hang(words)
        case "send": try send(try connect(words), count: Int(words[3])!)
        default: Probe.say("error", "no such command")
        }
    }

    func stop() {
        state.withLock { state in
            state.advertisement?.stop()
            state.listener?.close()
            for task in state.tasks { task.cancel() }
            for link in state.links.values { link.close() }
            state = State()
        }
    }

    // MARK: Discovery

    private func advertise(_ text: String) throws {
        let listener = try radio.transport.listen(port: 0, interface: nil)
        state.withLock { $0.listener = listener }
        _ = try BlockingThread.start {
            while let link = try? listener.accept() {
                Probe.say("accepted", link.remote.host)
                _ = try? BlockingThread.start { Self.drain(link) }
            }
            Probe.say("listener-ended")
        }
        let advertisement = try radio.discovery.advertise(
            Advertisement(instance: "probe", type: .nearshare, port: listener.port, txt: [Array(text.utf8)]))
        state.withLock { $0.advertisement = advertisement }
        Probe.say("advertised", "\(listener.port)")
    }

    private func browse() throws {
        let events = try radio.discovery.browse(for: .nearshare, interface: nil)
        let start = Probe.seconds
        let task = Task {
            do {
                for try await event in events {
                    switch event {
                    case .seen(let sighting):
                        let text = String(decoding: sighting.txt.first ?? [], as: UTF8.self)
                        let time = String(Int((Probe.seconds - start) * 1000))
                        Probe.say("seen", sighting.address.host, "\(sighting.address.port)", text, time)
                    case .gone(let key): Probe.say("gone", key.instance)
                    case .settled: Probe.say("settled")
                    }
                }
            } catch {
                Probe.say("error", "\(error)")
            }
        }
        state.withLock { $0.tasks.append(task) }
    }

    // MARK: Frames

    /// Reports the frame links, and what arrives on them.
    private func receiveFrames() {
        let links = radio.frames.links()
        let task = Task {
            var number = 0
            for await link in links {
                number += 1
                state.withLock { [number] in $0.links[number] = link }
                Probe.say("link", "\(number)", link.remote.host, "\(link.maximumFrameByteCount)", "\(link.delivery)")
                _ = try? BlockingThread.start { [number] in
                    while let piece = link.receive() { Probe.say("piece", "\(number)", "\(piece.count)", Self.checksum(piece)) }
                    link.close()
                    Probe.say("link-ended", "\(number)")
                }
            }
        }
        state.withLock { $0.tasks.append(task) }
    }

    private func write(link number: Int, count: Int, times: Int) throws {
        guard let link = state.withLock({ $0.links[number] }) else { return Probe.say("error", "no such link") }
        _ = try BlockingThread.start {
            let start = Probe.seconds
            do throws(LinkError) {
                for time in 0..<times {
                    let frame = (0..<count).map { UInt8(truncatingIfNeeded: $0 &+ time) }
                    try link.send(frame)
                }
                Probe.say("written", "\(number)", "\(times)", String(Int((Probe.seconds - start) * 1000)))
            } catch {
                Probe.say("error", "\(error)")
            }
        }
    }

    private static func checksum(_ bytes: [UInt8]) -> String { "\(bytes.reduce(0) { $0 &+ Int($1) })" }

    // MARK: Chat

    private func chat(_ name: String) throws {
        guard let chat = radio.chat else { return Probe.say("error", "no chat") }
        let events = chat.join(as: try DisplayName(name))
        let task = Task {
            for await event in events {
                switch event {
                case .found(let peer, let name): Probe.say("met", peer.host, name?.shown ?? "")
                case .text(let text, let peer): Probe.say("heard", peer.host, text)
                case .gone(let peer): Probe.say("parted", peer.host)
                }
            }
        }
        state.withLock { $0.tasks.append(task) }
    }

    private func sayTo(_ host: String, _ text: String) throws {
        _ = try BlockingThread.start { [radio] in
            do throws(LinkError) {
                try radio.chat?.send(text, to: LinkAddress(host: host, port: 0, medium: .bluetooth))
                Probe.say("said", host)
            } catch {
                Probe.say("unsaid", host, "\(error)")
            }
        }
    }

    // MARK: Channels

    /// Reads to the end, prints the number of bytes, and closes in order; never while the other side still sends.
    private static func drain(_ link: any StreamLink) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)
        defer { buffer.deallocate() }
        var total = 0
        do throws(LinkError) {
            while true {
                let count = try link.read(into: buffer)
                if count == 0 { break }
                total += count
            }
            var answer = UInt64(total).bigEndian
            var failure: LinkError?
            withUnsafeBytes(of: &answer) { bytes in
                do throws(LinkError) { try link.write(bytes) } catch { failure = error }
            }
            if let failure { throw failure }
            link.finishWriting()
            Probe.say("received", "\(total)")
        } catch {
            Probe.say("broken", "\(total)", "\(error)")
        }
        link.close()
    }

    private func connect(_ words: [String]) throws -> any StreamLink {
        let start = Probe.seconds
        let address = LinkAddress(host: words[1], port: UInt16(words[2])!, medium: .bluetooth)
        let link = try radio.transport.connect(to: address, timeout: .seconds(20))
        Probe.say("connected", String(Int((Probe.seconds - start) * 1000)))
        return link
    }

    /// Connects and sends nothing, until the other side closes the connection or refuses it.
    private func hang(_ words: [String]) throws {
        guard let link = try? connect(words) else { return Probe.say("hung-up", words[1]) }
        state.withLock { $0.streams.append(link) }
        _ = try BlockingThread.start {
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 4096, alignment: 1)
            defer { buffer.deallocate() }
            while let count = try? link.read(into: buffer), count > 0 {}
            Probe.say("hung-up", link.remote.host)
        }
    }

    private func send(_ link: any StreamLink, count: Int) throws {
        _ = try BlockingThread.start {
            let start = Probe.seconds
            let block = [UInt8](repeating: 7, count: 64 << 10)
            var left = count
            do throws(LinkError) {
                while left > 0 {
                    let size = min(left, block.count)
                    var failure: LinkError?
                    block.withUnsafeBytes { bytes in
                        do throws(LinkError) { try link.write(UnsafeRawBufferPointer(rebasing: bytes[..<size])) } catch {
                            failure = error
                        }
                    }
                    if let failure { throw failure }
                    left -= size
                }
                link.finishWriting()
                let answer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64, alignment: 8)
                defer { answer.deallocate() }
                let got = try link.read(into: answer)
                let total = got == 8 ? answer.load(as: UInt64.self).bigEndian : 0
                Probe.say("sent", "\(total)", String(Int((Probe.seconds - start) * 1000)))
                _ = try link.read(into: answer)
            } catch {
                Probe.say("broken", "\(count - left)", "\(error)")
            }
            link.close()
        }
    }
}
