#if !canImport(Darwin)
    internal import Glibc

    /// A netlink socket (rtnetlink(7)) that is readable after interfaces or addresses of this machine have changed.
    package final class AddressMonitor: Sendable {
        package let descriptor: Int32

        /// Returns nil where netlink is not available: then changes go unnoticed.
        package init?() {
            descriptor = socket(
                AF_NETLINK, Int32(SOCK_RAW.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
            guard descriptor >= 0 else { return nil }
            // struct sockaddr_nl, which Swift does not import. Groups: links, IPv4 and IPv6 addresses (RTMGRP_…).
            var address: (family: UInt16, pad: UInt16, port: UInt32, groups: UInt32) = (
                UInt16(AF_NETLINK), 0, 0, 0x1 | 0x10 | 0x100
            )
            let bound = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, 12) }
            }
            guard bound == 0 else { return nil }
        }

        deinit { if descriptor >= 0 { close(descriptor) } }

        /// Reads and drops all messages: the kernel is asked for the addresses anew.
        package func drain() {
            withUnsafeTemporaryAllocation(byteCount: 8192, alignment: 8) { buffer in
                // ENOBUFS: messages were dropped; there may be more to read.
                while recv(descriptor, buffer.baseAddress, buffer.count, 0) > 0 || errno == ENOBUFS {}
            }
        }
    }
#endif
