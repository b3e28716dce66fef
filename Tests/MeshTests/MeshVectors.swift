import NearshareBase
import NearshareCrypto
import NearshareMesh
import NearshareTesting
import Testing

// Properties of all files of bitchat's vectors, beside the shapes in NearshareTesting. Every item counts; none is skipped
// because of its content.

/// How the two phone apps judge an input.
enum Consensus: String, Decodable {
    case mustAccept = "must_accept"
    case mustReject = "must_reject"
    /// Accepted by one, or by both with different results: either is acceptable.
    case platformsDiffer = "platforms_differ"
}

extension MeshFrame {
    /// Whether the signature is that of one of the preimages in use.
    func isSigned(by key: SigningPublicKey) -> Bool {
        guard let signature = packet.signature else { return false }
        return signingPreimages.contains { key.isValid(signature, for: $0) }
    }

    /// Bit 0x04 of the flags byte: what an encoder's deflate has made is not compared byte for byte.
    var isCompressed: Bool { bytes[bytes.startIndex + 11] & 0x04 != 0 }
}

func hexBytes(_ text: String?) throws -> [UInt8] { try #require(text.flatMap(Hex.decode)) }
