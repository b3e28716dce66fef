internal import Glibc

/// The threads and descriptors of this process, as the kernel lists them. Only meaningful where no other test runs in the
/// process.
package struct ProcessResources: Sendable, Hashable {
    package var threadCount: Int
    /// The object that each open descriptor refers to.
    package var descriptors: [Int32: String]

    /// The present ones.
    package init() {
        threadCount = Self.entries("/proc/self/task").count
        descriptors = [:]
        for name in Self.entries("/proc/self/fd") {
            var target = [CChar](repeating: 0, count: 256)
            let count = readlink("/proc/self/fd/\(name)", &target, target.count)
            // The listing's own descriptor is closed by now.
            guard count > 0, let number = Int32(name) else { continue }
            descriptors[number] = String(decoding: target.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
        }
    }

    /// Waits until there are no more threads and descriptors than before.
    /// - Returns: what is left when the time is over.
    package static func leftovers(since before: ProcessResources, within timeout: Duration) async -> [String] {
        // The kernel announces neither the end of a thread nor that of a descriptor.
        let end = ContinuousClock.now + timeout
        var left: [String] = []
        repeat {
            let now = ProcessResources()
            left = now.descriptors.filter { before.descriptors[$0.key] == nil }.map { "descriptor \($0.key): \($0.value)" }
            if now.threadCount > before.threadCount { left.append("\(now.threadCount - before.threadCount) threads") }
            if left.isEmpty { return [] }
            try? await Task.sleep(for: .milliseconds(20))
        } while ContinuousClock.now < end
        return left
    }

    private static func entries(_ path: String) -> [String] {
        guard let directory = opendir(path) else { return [] }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if !name.hasPrefix(".") { names.append(name) }
        }
        return names
    }
}
