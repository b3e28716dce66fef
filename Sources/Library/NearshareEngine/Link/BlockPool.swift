internal import NearshareInterfaces

/// Memory that content passes through, used again and again so that the kernel doesn't have to hand out new pages all the time.
final class BlockPool: Sendable {
    private struct Free: @unchecked Sendable {
        var memory: [UnsafeMutableRawPointer] = []
    }

    let byteCount: Int
    private let kept: Int
    private let free = Monitor(Free())

    /// - Parameter kept: limit on free blocks that stay allocated.
    init(byteCount: Int, kept: Int) {
        self.byteCount = byteCount
        self.kept = kept
    }

    deinit {
        free.withLock { free in
            for memory in free.memory { memory.deallocate() }
        }
    }

    func take() -> Block {
        let memory = free.withLock { $0.memory.popLast() } ?? .allocate(byteCount: byteCount, alignment: 64)
        return Block(memory, pool: self)
    }

    fileprivate func takeBack(_ memory: UnsafeMutableRawPointer) {
        let isKept = free.withLock { free in
            guard free.memory.count < kept else { return false }
            free.memory.append(memory)
            return true
        }
        if !isKept { memory.deallocate() }
    }
}

/// One piece of pooled memory; goes back to its pool with its last reference.
///
/// Several threads may hold it as long as they keep to different bytes: one fills the rear while another takes from the front.
final class Block: @unchecked Sendable {
    let bytes: UnsafeMutableRawBufferPointer
    private let memory: UnsafeMutableRawPointer
    private let pool: BlockPool

    fileprivate init(_ memory: UnsafeMutableRawPointer, pool: BlockPool) {
        self.memory = memory
        bytes = UnsafeMutableRawBufferPointer(start: memory, count: pool.byteCount)
        self.pool = pool
    }

    deinit { pool.takeBack(memory) }
}

/// A part of a block that holds content.
struct Piece: Sendable {
    let block: Block
    let range: Range<Int>

    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: block.bytes[range]) }
}
