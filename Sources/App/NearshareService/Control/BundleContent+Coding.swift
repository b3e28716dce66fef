internal import FoundationEssentials
internal import Nearshare
package import NearshareBundles

// The coding of other modules' types on the control socket.

extension BundleContent: Codable {
    /// Decodes one base64 string of the encoded content.
    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let bytes = Array(try container.decode(Data.self))
        do {
            self = try BundleContent(decoding: bytes[...])
        } catch {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "\(error)")
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(Data(try encoded()))
    }
}

extension MessageMode: Codable {}
