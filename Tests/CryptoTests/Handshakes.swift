import NearshareCrypto
import NearshareTesting

/// Both sides of one Noise handshake, with keys from a seed.
struct HandshakePair {
    static let identities = (
        LocalIdentity(seed: [UInt8](repeating: 1, count: 64)), LocalIdentity(seed: [UInt8](repeating: 2, count: 64))
    )

    var initiator: HandshakeState
    var responder: HandshakeState

    init(
        seed: UInt64 = 1, prologue: [UInt8] = [], initiator: LocalIdentity = identities.0,
        responder: LocalIdentity = identities.1
    ) {
        var random = SeededRandom(seed: seed)
        self.initiator = HandshakeState(
            role: .initiator, prologue: prologue, staticKey: initiator.agreementKey, ephemeral: random.bytes(32))
        self.responder = HandshakeState(
            role: .responder, prologue: prologue, staticKey: responder.agreementKey, ephemeral: random.bytes(32))
    }

    /// - Parameter payload: what rides in each of the three messages.
    mutating func complete(payload: [UInt8] = []) throws -> (initiator: TransportKeys, responder: TransportKeys) {
        _ = try responder.readMessage(try initiator.writeMessage(payload: payload))
        _ = try initiator.readMessage(try responder.writeMessage(payload: payload))
        _ = try responder.readMessage(try initiator.writeMessage(payload: payload))
        return (try initiator.split(), try responder.split())
    }
}
