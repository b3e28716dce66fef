import NearshareBase

/// The property of one decoder that holds for all inputs, or of state machines that holds for all scripts of events, see
/// ``EventScript``.
///
/// Shared by the fuzzer in `Tests/Fuzz`, which generates inputs, and `FindTests`, which replays its finds.
public struct DecoderProperty: Sendable {
    /// The property that a decoder violates.
    public struct Violation: Error, CustomStringConvertible {
        public let description: String
    }

    /// The name of the decoder or the machines, also that of the folder of its finds.
    public let name: String
    /// Valid bytes, as seeds for the fuzzer.
    public let seeds: [[UInt8]]
    /// - Returns: Whether the bytes were decoded, or the script reached what its seeds are for.
    public let check: @Sendable (_ bytes: [UInt8]) throws(Violation) -> Bool

    static func require(_ condition: Bool, _ what: @autoclosure () -> String) throws(Violation) {
        guard condition else { throw Violation(description: what()) }
    }

    /// A decoded value can be encoded, and decodes again to the same value.
    static func requireRoundTrip<Value: Equatable>(
        _ value: Value, encode: (Value) throws -> [UInt8], decode: (ArraySlice<UInt8>) throws -> Value
    ) throws(Violation) {
        do {
            let again = try decode(try encode(value)[...])
            try require(again == value, "\(value) comes back as \(again)")
        } catch let error as Violation {
            throw error
        } catch {
            throw Violation(description: "\(value) cannot be encoded: \(error)")
        }
    }

    public static let all = mesh + direct + bundles + web + localSend + [structuredValue] + machines

    /// - Parameter texts: hexadecimal digits, with spaces between fields.
    static func bytes(_ texts: String...) -> [[UInt8]] { texts.map { Hex.decode($0.filter { !$0.isWhitespace })! } }
}
