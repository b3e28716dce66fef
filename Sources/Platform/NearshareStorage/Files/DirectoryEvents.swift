internal import Glibc

/// Events of watched directories (inotify(7)).
package final class DirectoryEvents: Sendable {
    /// An event. Without a name it is about the directory itself, or says that others were lost.
    package struct Event {
        package let mask: UInt32
        /// The bytes of the name in the directory.
        package let name: ArraySlice<UInt8>

        package func isAny(of masks: Int32) -> Bool { mask & UInt32(bitPattern: masks) != 0 }
    }

    /// The descriptor for poll(2), readable while events wait; -1 where the kernel or the process has none left.
    package let descriptor: Int32

    package init() { descriptor = inotify_init1(Int32(IN_NONBLOCK) | Int32(IN_CLOEXEC)) }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Watches a directory.
    /// - Returns: the number of the watch; -1 where there is no such directory, or the kernel has no watches left.
    package func watch(_ path: String, for masks: Int32) -> Int32 {
        descriptor < 0 ? -1 : inotify_add_watch(descriptor, path, UInt32(bitPattern: masks))
    }

    /// Ends a watch, which is an event. Without effect where it has ended.
    package func end(_ watch: Int32) { inotify_rm_watch(descriptor, watch) }

    /// Reads the events that wait, without blocking.
    package func read() -> [Event] {
        var found: [Event] = []
        var bytes = [UInt8](repeating: 0, count: 4_096)
        while true {
            let count = Glibc.read(descriptor, &bytes, bytes.count)
            guard count > 0 else { return found }
            var position = 0
            // The kernel writes whole events: a header, and a name that zeros follow.
            while position + MemoryLayout<inotify_event>.size <= count {
                let header = bytes.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: position, as: inotify_event.self) }
                position += MemoryLayout<inotify_event>.size
                let end = min(position + Int(header.len), count)
                found.append(Event(mask: header.mask, name: bytes[position..<end].prefix { $0 != 0 }))
                position = end
            }
        }
    }
}
