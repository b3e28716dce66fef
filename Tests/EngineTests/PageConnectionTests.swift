import NearshareBase
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareEngine

@Suite("connections of browsers") struct PageConnectionTests {
    /// A link whose full send buffer takes so many bytes a second of a clock.
    private final class SlowLink: ForwardingLink {
        let inner: any StreamLink
        let clock: ManualClock
        let rate: Int

        init(_ inner: any StreamLink, _ clock: ManualClock, rate: Int) {
            (self.inner, self.clock, self.rate) = (inner, clock, rate)
        }

        func writeWithoutBlocking(_ bytes: UnsafeRawBufferPointer) throws(LinkError) -> Int { 0 }

        func write(_ bytes: UnsafeRawBufferPointer) throws(LinkError) {
            clock.advance(by: .milliseconds(bytes.count * 1000 / rate))
        }
    }

    private let clock = ManualClock()

    /// A connection whose browser has proven to know the key, and has begun another request.
    private func connection(rate: Int) throws -> PageConnection {
        let transport = InMemoryTransport()
        let listener = try transport.listen(port: 0, interface: nil)
        defer { listener.close() }
        let browser = try transport.connect(
            to: LinkAddress(host: "10.0.0.1", port: listener.port), timeout: .seconds(1), cancelledBy: nil)
        let connection = PageConnection(SlowLink(try listener.accept(), clock, rate: rate), clock: clock.read)
        try LinkDemultiplexer.write([1, 2], to: browser)
        #expect(connection.unusedSince == clock.now)
        #expect(read(1, from: connection) == 1)
        connection.recordAuthentic()
        connection.endRequest()
        #expect(connection.unusedSince == clock.now)
        // Nothing is measured between two requests.
        clock.advance(by: .seconds(60))
        #expect(read(1, from: connection) == 1)
        #expect(connection.unusedSince == nil)
        return connection
    }

    private func read(_ count: Int, from connection: PageConnection) -> Int {
        withUnsafeTemporaryAllocation(byteCount: count, alignment: 1) { connection.read(into: $0) }
    }

    /// Writes blocks.
    /// - Returns: the rates that are known whenever the send buffer has taken a part.
    private func ratesOfWriting(_ count: Int, to connection: PageConnection) throws -> [Int] {
        let block = [UInt8](repeating: 0, count: 1 << 18)
        var rates: [Int] = []
        for _ in 0..<count {
            try block.withUnsafeBytes { bytes in
                try connection.write(bytes) { _ in
                    if let rate = connection.transferRate(now: clock.now) { rates.append(rate) }
                }
            }
        }
        return rates
    }

    @Test("R5: what the send buffer takes counts at once, however long a whole block takes") func writing() throws {
        let rates = try ratesOfWriting(3, to: try connection(rate: 20 << 10))
        #expect(rates.count > 30 && rates.allSatisfy { $0 > 10 << 10 })
        let trickle = try ratesOfWriting(1, to: try connection(rate: 100))
        #expect(!trickle.isEmpty && trickle.allSatisfy { $0 < ProgressMeter.minimumRate })
    }

    @Test("R5: a response that waits for a change, the disk or a limit of the rate has no rate") func waiting() throws {
        let connection = try connection(rate: 1 << 20)
        connection.recordRequest()
        for _ in 0..<10 {
            clock.advance(by: .seconds(20))
            #expect(connection.transferRate(now: clock.now) == nil && connection.unusedSince == nil)
        }
        let rates = try ratesOfWriting(60, to: connection)
        #expect(!rates.isEmpty && rates.allSatisfy { $0 > ProgressMeter.minimumRate })
    }

    @Test("Q6: a request that waits for a change where nothing is under way is no use of its connection") func idleWait() throws
    {
        let connection = try connection(rate: 1 << 20)
        let begin = clock.now
        connection.recordRequest()
        connection.recordIdleWait()
        clock.advance(by: .seconds(20))
        #expect(connection.unusedSince == begin)
        connection.endRequest()
        connection.recordRequest()
        #expect(connection.unusedSince == nil)
    }
}
