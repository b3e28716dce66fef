/// A value in a D-Bus message, of the types that desktop services use.
package indirect enum DBusValue: Sendable, Hashable {
    case string(String)
    case objectPath(String)
    case boolean(Bool)
    case byte(UInt8)
    case int16(Int16)
    case uint16(UInt16)
    case int32(Int32)
    case uint32(UInt32)
    /// Type `ay`.
    case bytes([UInt8])
    /// Type `aay`.
    case byteArrays([[UInt8]])
    /// Type `as`.
    case strings([String])
    /// Type `ao`.
    case objectPaths([String])
    /// Type `a{sv}`.
    case dictionary([String: DBusValue])
    /// Type `aa{sv}`.
    case dictionaries([[String: DBusValue]])
    /// Type `a{sa{sv}}`: an object's properties by interface.
    case interfaces([String: [String: DBusValue]])
    /// Type `a{oa{sa{sv}}}`: an object manager's objects.
    case objects([String: [String: [String: DBusValue]]])
    /// A value of another type that was read; never written.
    case other

    var signature: String {
        switch self {
        case .string: "s"
        case .objectPath: "o"
        case .boolean: "b"
        case .byte: "y"
        case .int16: "n"
        case .uint16: "q"
        case .int32: "i"
        case .uint32: "u"
        case .bytes: "ay"
        case .byteArrays: "aay"
        case .strings: "as"
        case .objectPaths: "ao"
        case .dictionary: "a{sv}"
        case .dictionaries: "aa{sv}"
        case .interfaces: "a{sa{sv}}"
        case .objects: "a{oa{sa{sv}}}"
        case .other: ""
        }
    }
}

extension DBusValue {
    /// The text of a string or an object path.
    package var string: String? {
        switch self {
        case .string(let value), .objectPath(let value): value
        default: nil
        }
    }

    package var bytes: [UInt8]? { if case .bytes(let value) = self { value } else { nil } }

    package var bool: Bool? { if case .boolean(let value) = self { value } else { nil } }

    /// The value of an integer of any size.
    package var integer: Int? {
        switch self {
        case .byte(let value): Int(value)
        case .int16(let value): Int(value)
        case .uint16(let value): Int(value)
        case .int32(let value): Int(value)
        case .uint32(let value): Int(value)
        default: nil
        }
    }

    /// The elements of an array of strings or object paths.
    package var strings: [String]? {
        switch self {
        case .strings(let values), .objectPaths(let values): values
        default: nil
        }
    }
}
