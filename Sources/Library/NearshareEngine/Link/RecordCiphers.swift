internal import NearshareCrypto

enum RecordCiphers {
    /// The ciphers that are fast on this machine, as a bit set for the handshake: bit n for cipher n.
    static let local: UInt8 = RecordCipher.Kind.allCases.reduce(0) { bits, kind in
        kind.hidesContent && kind.runsAtFullSpeed ? bits | 1 << kind.rawValue : bits
    }
}
