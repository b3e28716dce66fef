public import NearshareBase
public import NearshareDirect
public import NearshareEngine
public import NearshareInterfaces

extension LocalMachine {
    /// Runs a node of this machine for as long as `body` does; then all that it has begun is over.
    ///
    ///     try await LocalMachine().run { node in
    ///         let anna = try await node.find("anna", timeout: .seconds(5))
    ///         …
    ///     }
    /// - Parameters:
    ///   - name: what others see; nil for ``name(_:)``.
    ///   - interface: the network interface that it keeps to; nil for the configured one, or all.
    ///   - findsOthers: false for a node that neither advertises nor browses, which starts faster.
    ///   - usesBluetooth: also advertises, browses and connects over Bluetooth, where this machine has it.
    ///   - encryption: for all its links.
    /// - Throws: `StorageError` and `DiscoveryError` when it can't begin, and what `body` throws.
    public func run<Result: Sendable>(
        as name: DisplayName? = nil, interface: String? = nil, findsOthers: Bool = true, usesBluetooth: Bool = false,
        encryption: EncryptionPreference = .required,
        body: @Sendable (Node) async throws -> Result
    ) async throws -> Result {
        var settings = try nodeSettings(
            name: name, interface: interface, discovery: findsOthers ? discovery() : nil,
            radio: usesBluetooth ? LocalMachine.radio() : nil)
        settings.encryption = encryption
        return try await withNode(settings, body: body)
    }
}

extension Node {
    /// Looks for somebody by name, and invites them into a session.
    /// - Parameters:
    ///   - name: of the peer, its beginning, or an id.
    ///   - service: the type that they advertise.
    ///   - lookTime: how long they are looked for.
    ///   - context: bytes for the program there: at most `SessionFrame.maximumContextByteCount`.
    ///   - secret: proven to the other side, not sent; see `InvitationPolicy.secret(_:)`.
    ///   - timeout: how long the other person may think about it; 1 to 600 seconds.
    /// - Returns: who joined.
    /// - Throws: `PeerLookupError` when nobody is found, `NodeError` without discovery, `SessionError` when it comes to nothing.
    public func invite(
        _ name: String, into session: Session, for service: ServiceType = .nearshare,
        lookTime: Duration = .seconds(5), context: [UInt8] = [], secret: [UInt8]? = nil, timeout: Duration = .seconds(30)
    ) async throws -> PeerID {
        let peer = try await find(name, for: service, timeout: lookTime)
        return try await session.invite(peer.destination, context: context, secret: secret, timeout: timeout)
    }
}
