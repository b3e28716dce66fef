internal import NearshareCrypto

enum RecordCiphers {
    /// The ciphers that this machine is fast at, as the handshake tells them: bit n for cipher n.
    static let here: UInt8 = RecordCipher.Kind.allCases.reduce(0) { bits, kind in
        kind.hidesContent && kind.isAcceleratedHere ? bits | 1 << kind.rawValue : bits
    }
}
