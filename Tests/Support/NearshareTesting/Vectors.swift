import FoundationEssentials
import NearshareBase
import NearshareCrypto

/// Vectors of other implementations of the protocols spoken here, kept outside of this repository.
///
/// Vectors are looked for in the folder that `NEARSHARE_VECTORS` names, or else beside the checkout. Tests that need them are skipped
/// and say so where there are none beside the checkout; in a folder that was named they must be.
package enum Vectors {
    private static let givenFolder = ProcessInfo.processInfo.environment["NEARSHARE_VECTORS"]

    /// The folder of the package.
    package static let checkout = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(4)
        .joined(separator: "/")

    package static let folder: String = {
        if let givenFolder { return givenFolder }
        return "\(checkout)/../shared/bitchat/vectors"
    }()

    package static func exists(_ name: String) -> Bool {
        givenFolder != nil || FileManager.default.fileExists(atPath: "\(folder)/\(name)")
    }

    package static func read<Value: Decodable>(_: Value.Type = Value.self, from name: String) throws -> Value {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return try decoder.decode(Value.self, from: try Data(contentsOf: URL(filePath: "\(folder)/\(name)")))
    }

    /// A value given in full or, when it is long, by its hash.
    package struct Blob: Decodable, Sendable {
        package var hex: String?
        package var length: Int
        package var sha256: String?

        package init(hex: String?, length: Int, sha256: String?) {
            self.hex = hex
            self.length = length
            self.sha256 = sha256
        }

        /// nil when only the hash is given.
        package var bytes: [UInt8]? { hex.flatMap(Hex.decode) }

        package func matches(_ bytes: some Collection<UInt8>) -> Bool {
            guard bytes.count == length else { return false }
            return hex.map { $0 == Hex.encode(bytes) } ?? (sha256 == Hex.encode(SHA256Hasher.digest(Array(bytes))))
        }
    }

    /// The bytes for a seed: the upper bytes of a linear congruential generator.
    package static func bytes(seed: UInt32, count: Int) -> [UInt8] {
        var state = seed
        return (0..<count).map { _ in
            state = state &* 1_664_525 &+ 1_013_904_223
            return UInt8(state >> 24)
        }
    }
}
