internal import NearshareInterfaces

/// A pool of memory blocks for content, which spares the kernel from handing out new pages for every block.
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

    func acquire() -> Block {
        let memory = free.withLock { $0.memory.popLast() } ?? .allocate(byteCount: byteCount, alignment: 64)
        return Block(memory, pool: self)
    }

    fileprivate func reuse(_ memory: UnsafeMutableRawPointer) {
        let isKept = free.withLock { free in
            guard free.memory.count < kept else { return false }
            free.memory.append(memory)
            return true
        }
        if !isKept { memory.deallocate() }
    }
}

/// One block of pooled memory; returns to its pool when its last reference is released.
///
/// Several threads may use it as long as they access different bytes: one fills the rear while another reads the front.
final class Block: @unchecked Sendable {
    let bytes: UnsafeMutableRawBufferPointer
    private let memory: UnsafeMutableRawPointer
    private let pool: BlockPool

    fileprivate init(_ memory: UnsafeMutableRawPointer, pool: BlockPool) {
        self.memory = memory
        bytes = UnsafeMutableRawBufferPointer(start: memory, count: pool.byteCount)
        self.pool = pool
    }

    deinit { pool.reuse(memory) }
}

/// A part of a block that holds content.
struct Piece: Sendable {
    let block: Block
    let range: Range<Int>

    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: block.bytes[range]) }
}
