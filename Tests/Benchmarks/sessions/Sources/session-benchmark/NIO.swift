import NIOCore
import NIOPosix

/// Raw TCP on SwiftNIO, in the clear, with the same framing: length u32, then so many bytes.
enum NIOMessages: MessagingSystem {
    static let name = "raw TCP on SwiftNIO, not encrypted"

    struct Framing: ByteToMessageDecoder, MessageToByteEncoder {
        typealias InboundOut = ByteBuffer
        typealias OutboundIn = ByteBuffer

        mutating func decode(context: ChannelHandlerContext, buffer: inout ByteBuffer) -> DecodingState {
            guard let length = buffer.getInteger(at: buffer.readerIndex, as: UInt32.self),
                buffer.readableBytes >= 4 + Int(length)
            else { return .needMoreData }
            buffer.moveReaderIndex(forwardBy: 4)
            context.fireChannelRead(wrapInboundOut(buffer.readSlice(length: Int(length))!))
            return .continue
        }

        func encode(data: ByteBuffer, out: inout ByteBuffer) {
            out.writeInteger(UInt32(data.readableBytes))
            out.writeImmutableBuffer(data)
        }
    }

    /// Counts messages; sends each back while echoing is on.
    final class Counter: ChannelInboundHandler, @unchecked Sendable {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer
        var echoes: Int
        var left: Int
        let done: EventLoopPromise<Void>

        init(echoes: Int, left: Int, done: EventLoopPromise<Void>) {
            self.echoes = echoes
            self.left = left
            self.done = done
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            if echoes > 0 {
                echoes -= 1
                context.writeAndFlush(data, promise: nil)
                return
            }
            left -= 1
            if left == 0 { done.succeed() }
        }
    }

    /// Sends the next message when the last has come back.
    final class Asker: ChannelInboundHandler, @unchecked Sendable {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer
        var left: Int
        let done: EventLoopPromise<Void>

        init(left: Int, done: EventLoopPromise<Void>) {
            self.left = left
            self.done = done
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            left -= 1
            if left == 0 { return done.succeed() }
            context.writeAndFlush(data, promise: nil)
        }
    }

    static func run() async throws -> (roundTrips: Cost, oneWay: Cost) {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        let arrived = group.next().makePromise(of: Void.self)
        let answered = group.next().makePromise(of: Void.self)
        let server = try await ServerBootstrap(group: group).childChannelInitializer { channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHandlers(
                    ByteToMessageHandler(Framing()), MessageToByteHandler(Framing()),
                    Counter(echoes: roundTripCount, left: oneWayCount, done: arrived))
            }
        }.bind(host: "127.0.0.1", port: 0).get()
        let client = try await ClientBootstrap(group: group).channelOption(.socketOption(.tcp_nodelay), value: 1)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandlers(
                        ByteToMessageHandler(Framing()), MessageToByteHandler(Framing()),
                        Asker(left: roundTripCount, done: answered))
                }
            }.connect(to: server.localAddress!).get()
        let message = ByteBuffer(repeating: 7, count: messageByteCount)
        var start = Stopwatch()
        client.writeAndFlush(message, promise: nil)
        try await answered.futureResult.get()
        let roundTrips = start.cost
        start = Stopwatch()
        // In batches, as a program that sends much would.
        for _ in 0..<oneWayCount / 100 {
            for _ in 0..<100 { client.write(message, promise: nil) }
            client.flush()
        }
        try await arrived.futureResult.get()
        let oneWay = start.cost
        try await client.close()
        try await server.close()
        try await group.shutdownGracefully()
        return (roundTrips, oneWay)
    }
}
