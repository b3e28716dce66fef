internal import CAvahi
internal import CNearshareShims
internal import NearshareInterfaces
internal import Synchronization

/// libavahi-core as a whole, which is loaded when the first responder starts.
enum AvahiLibrary {
    /// Where its log lines go.
    static let log = Mutex<(@Sendable (String) -> Void)?>(nil)

    /// Must have succeeded before anything else of the library is called.
    static func load() throws(DiscoveryError) {
        if let reason = nearshare_load_avahi() {
            throw DiscoveryError(
                "discovery needs libavahi-core, which can't be loaded: \(String(cString: reason)); "
                    + "install it (Debian: libavahi-core7), or give the peer's address")
        }
        avahi_set_log_function(logged)
    }
}

private let logged: AvahiLogFunction = { _, text in
    guard let text, let log = AvahiLibrary.log.withLock({ $0 }) else { return }
    log(String(cString: text))
}
