// What the modules that compile for Darwin use of its C library, with the types that Swift's importer gives on macOS.
// .ci/check-darwin type-checks these modules against it in place of Glibc. Nothing here can run.

// MARK: Errors

public var errno: Int32 { 0 }
public var EAGAIN: Int32 { 35 }
public var EFBIG: Int32 { 27 }
public var ECANCELED: Int32 { 89 }
public var EINPROGRESS: Int32 { 36 }
public var EINTR: Int32 { 4 }
public var EINVAL: Int32 { 22 }
public var EIO: Int32 { 5 }
public var ETIMEDOUT: Int32 { 60 }
public func strerror(_ code: Int32) -> UnsafeMutablePointer<CChar>! { nil }

// MARK: Time

public typealias time_t = Int
public struct timespec {
    public var tv_sec: time_t
    public var tv_nsec: Int

    public init() { (tv_sec, tv_nsec) = (0, 0) }
    public init(tv_sec: time_t, tv_nsec: Int) { (self.tv_sec, self.tv_nsec) = (tv_sec, tv_nsec) }
}
public struct clockid_t: RawRepresentable, Equatable {
    public var rawValue: UInt32

    public init(_ rawValue: UInt32) { self.rawValue = rawValue }
    public init(rawValue: UInt32) { self.rawValue = rawValue }
}
public var CLOCK_REALTIME: clockid_t { clockid_t(0) }
public var CLOCK_MONOTONIC: clockid_t { clockid_t(6) }
@discardableResult
public func clock_gettime(_ clock: clockid_t, _ time: UnsafeMutablePointer<timespec>!) -> Int32 { 0 }

// MARK: Threads

@discardableResult public func sched_yield() -> Int32 { 0 }

public struct _opaque_pthread_t {}
public typealias pthread_t = UnsafeMutablePointer<_opaque_pthread_t>
public struct pthread_attr_t { public init() {} }
public struct pthread_mutex_t { public init() {} }
public struct pthread_mutexattr_t { public init() {} }
public struct pthread_cond_t { public init() {} }
public struct pthread_condattr_t { public init() {} }
@discardableResult
public func pthread_create(
    _ thread: UnsafeMutablePointer<pthread_t?>!, _ attributes: UnsafePointer<pthread_attr_t>?,
    _ body: @convention(c) (UnsafeMutableRawPointer) -> UnsafeMutableRawPointer?, _ argument: UnsafeMutableRawPointer?
) -> Int32 { 0 }
@discardableResult public func pthread_detach(_ thread: pthread_t) -> Int32 { 0 }
@discardableResult
public func pthread_mutex_init(
    _ mutex: UnsafeMutablePointer<pthread_mutex_t>!, _ attributes: UnsafePointer<pthread_mutexattr_t>?
) -> Int32 { 0 }
@discardableResult public func pthread_mutex_lock(_ mutex: UnsafeMutablePointer<pthread_mutex_t>!) -> Int32 { 0 }
@discardableResult public func pthread_mutex_unlock(_ mutex: UnsafeMutablePointer<pthread_mutex_t>!) -> Int32 { 0 }
@discardableResult public func pthread_mutex_destroy(_ mutex: UnsafeMutablePointer<pthread_mutex_t>!) -> Int32 { 0 }
@discardableResult
public func pthread_condattr_init(_ attributes: UnsafeMutablePointer<pthread_condattr_t>!) -> Int32 { 0 }
@discardableResult
public func pthread_condattr_destroy(_ attributes: UnsafeMutablePointer<pthread_condattr_t>!) -> Int32 { 0 }
@discardableResult
public func pthread_cond_init(
    _ condition: UnsafeMutablePointer<pthread_cond_t>!, _ attributes: UnsafePointer<pthread_condattr_t>?
) -> Int32 { 0 }
@discardableResult public func pthread_cond_signal(_ condition: UnsafeMutablePointer<pthread_cond_t>!) -> Int32 { 0 }
@discardableResult public func pthread_cond_destroy(_ condition: UnsafeMutablePointer<pthread_cond_t>!) -> Int32 { 0 }
@discardableResult
public func pthread_cond_wait(
    _ condition: UnsafeMutablePointer<pthread_cond_t>!, _ mutex: UnsafeMutablePointer<pthread_mutex_t>!
) -> Int32 { 0 }
public func pthread_cond_timedwait_relative_np(
    _ condition: UnsafeMutablePointer<pthread_cond_t>!, _ mutex: UnsafeMutablePointer<pthread_mutex_t>!,
    _ time: UnsafePointer<timespec>?
) -> Int32 { 0 }

// MARK: Descriptors

public typealias off_t = Int64
public var F_GETFL: Int32 { 3 }
public var F_SETFL: Int32 { 4 }
public var F_SETFD: Int32 { 2 }
public var FD_CLOEXEC: Int32 { 1 }
public var O_NONBLOCK: Int32 { 4 }
public func fcntl(_ descriptor: Int32, _ command: Int32) -> Int32 { 0 }
public func fcntl(_ descriptor: Int32, _ command: Int32, _ value: Int32) -> Int32 { 0 }
@discardableResult public func close(_ descriptor: Int32) -> Int32 { 0 }
public func pipe(_ ends: UnsafeMutablePointer<Int32>!) -> Int32 { 0 }
public func read(_ descriptor: Int32, _ bytes: UnsafeMutableRawPointer!, _ count: Int) -> Int { 0 }
public func write(_ descriptor: Int32, _ bytes: UnsafeRawPointer!, _ count: Int) -> Int { 0 }
public func pread(_ descriptor: Int32, _ bytes: UnsafeMutableRawPointer!, _ count: Int, _ position: off_t) -> Int { 0 }
public func pwrite(_ descriptor: Int32, _ bytes: UnsafeRawPointer!, _ count: Int, _ position: off_t) -> Int { 0 }

public struct pollfd {
    public var fd: Int32
    public var events: Int16
    public var revents: Int16

    public init() { (fd, events, revents) = (0, 0, 0) }
    public init(fd: Int32, events: Int16, revents: Int16) { (self.fd, self.events, self.revents) = (fd, events, revents) }
}
public typealias nfds_t = UInt32
public var POLLIN: Int32 { 1 }
public var POLLPRI: Int32 { 2 }
public var POLLOUT: Int32 { 4 }
public var POLLERR: Int32 { 8 }
public var POLLHUP: Int32 { 16 }
public var POLLNVAL: Int32 { 32 }
@discardableResult
public func poll(_ descriptors: UnsafeMutablePointer<pollfd>!, _ count: nfds_t, _ timeout: Int32) -> Int32 { 0 }

// MARK: Sockets

public typealias socklen_t = UInt32
public var AF_UNIX: Int32 { 1 }
public var AF_INET: Int32 { 2 }
public var AF_INET6: Int32 { 30 }
public var SOCK_DGRAM: Int32 { 2 }
public var SOL_SOCKET: Int32 { 0xffff }
public var SO_ERROR: Int32 { 0x1007 }
public var SO_NOSIGPIPE: Int32 { 0x1022 }
public var MSG_DONTWAIT: Int32 { 0x80 }
public var SHUT_WR: Int32 { 1 }
public func socket(_ family: Int32, _ kind: Int32, _ proto: Int32) -> Int32 { 0 }
public func send(_ socket: Int32, _ bytes: UnsafeRawPointer!, _ count: Int, _ flags: Int32) -> Int { 0 }
public func recv(_ socket: Int32, _ bytes: UnsafeMutableRawPointer!, _ count: Int, _ flags: Int32) -> Int { 0 }
@discardableResult public func shutdown(_ socket: Int32, _ direction: Int32) -> Int32 { 0 }
@discardableResult
public func getsockopt(
    _ socket: Int32, _ level: Int32, _ option: Int32, _ value: UnsafeMutableRawPointer!,
    _ length: UnsafeMutablePointer<socklen_t>!
) -> Int32 { 0 }
@discardableResult
public func setsockopt(
    _ socket: Int32, _ level: Int32, _ option: Int32, _ value: UnsafeRawPointer!, _ length: socklen_t
) -> Int32 { 0 }
public func inet_pton(_ family: Int32, _ text: UnsafePointer<CChar>!, _ address: UnsafeMutableRawPointer!) -> Int32 { 0 }
