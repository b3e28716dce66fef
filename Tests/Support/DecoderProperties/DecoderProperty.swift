import NearshareBase

/// What one decoder is held to, whatever bytes it is given.
///
/// Written once for two readers: the fuzzer in `Tests/Fuzz`, which makes up the bytes, and `WireTests`, which feeds it what the
/// fuzzer has ever found.
public struct DecoderProperty: Sendable {
    /// Why a decoder did not do what it must.
    public struct Violation: Error, CustomStringConvertible {
        public let description: String
    }

    /// Also the name of the folder of its finds.
    public let name: String
    /// Bytes that are understood, for the fuzzer to begin with.
    public let seeds: [[UInt8]]
    /// - Returns: whether the bytes were understood.
    public let check: @Sendable (_ bytes: [UInt8]) throws(Violation) -> Bool

    static func require(_ condition: Bool, _ what: @autoclosure () -> String) throws(Violation) {
        guard condition else { throw Violation(description: what()) }
    }

    /// What was understood can be said again, and is understood again as the same.
    static func requireRoundTrip<Value: Equatable>(
        _ value: Value, encode: (Value) throws -> [UInt8], decode: (ArraySlice<UInt8>) throws -> Value
    ) throws(Violation) {
        do {
            let again = try decode(try encode(value)[...])
            try require(again == value, "\(value) comes back as \(again)")
        } catch let error as Violation {
            throw error
        } catch {
            throw Violation(description: "\(value) cannot be said again: \(error)")
        }
    }

    public static let all = mesh + direct + bundles + [structuredValue]

    /// - Parameter texts: hexadecimal digits, with spaces between fields.
    static func bytes(_ texts: String...) -> [[UInt8]] { texts.map { Hex.decode($0.filter { !$0.isWhitespace })! } }
}
