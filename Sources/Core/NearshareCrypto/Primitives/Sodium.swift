internal import CSodium

/// Initialisation of libsodium, which must precede all its other calls and is thread-safe.
enum Sodium {
    static let isReady: Bool = sodium_init() >= 0

    static func requireReady() {
        // Safe: it depends on the machine alone.
        precondition(isReady, "libsodium cannot be initialised on this machine")
    }
}
