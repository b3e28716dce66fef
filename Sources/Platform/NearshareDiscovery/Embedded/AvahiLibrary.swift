internal import CAvahi
internal import CNearshareShims
internal import NearshareInterfaces
internal import Synchronization

/// libavahi-core, which is loaded when the first responder starts.
enum AvahiLibrary {
    /// Receives the library's log, for the whole process.
    static let log = Mutex<Handler<String, Void>?>(nil)

    /// Loads the library. Must succeed before any other of its functions is called.
    static func load() throws(DiscoveryError) {
        if let reason = nearshare_load_avahi() {
            throw DiscoveryError(
                "could not load libavahi-core, which discovery needs: \(String(cString: reason)); "
                    + "install it (Debian: libavahi-core7), or give the peer's address")
        }
        avahi_set_log_function(forwardLog)
    }
}

private let forwardLog: AvahiLogFunction = { _, text in
    guard let text, let log = AvahiLibrary.log.withLock({ $0 }) else { return }
    log(String(cString: text))
}
