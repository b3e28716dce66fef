internal import CSystemd
internal import Glibc

/// A D-Bus message that is read from its beginning, or written. Reading past its end, or another type than the next value's,
/// returns nil.
package final class DBusMessage {
    let raw: OpaquePointer

    init(adopting raw: OpaquePointer) { self.raw = raw }

    init(retaining raw: OpaquePointer) { self.raw = sd_bus_message_ref(raw) }

    deinit { sd_bus_message_unref(raw) }

    // MARK: Header

    /// The object path that a signal comes from, or a call goes to.
    package var path: String { Self.text(sd_bus_message_get_path(raw)) }
    package var interface: String { Self.text(sd_bus_message_get_interface(raw)) }
    package var member: String { Self.text(sd_bus_message_get_member(raw)) }
    /// The unique name of the sender's connection.
    package var sender: String { Self.text(sd_bus_message_get_sender(raw)) }

    /// Whether the message has arguments of these types, and no others.
    package func hasSignature(_ types: String) -> Bool { sd_bus_message_has_signature(raw, types) > 0 }

    // MARK: Reading

    package func string() -> String? { text("s") }

    package func objectPath() -> String? { text("o") }

    package func int32() -> Int32? { number("i", Int32.self) }

    package func uint32() -> UInt32? { number("u", UInt32.self) }

    package func uint16() -> UInt16? { number("q", UInt16.self) }

    /// A D-Bus boolean takes four bytes.
    package func boolean() -> Bool? { number("b", Int32.self).map { $0 != 0 } }

    /// Type `ay`.
    package func bytes() -> [UInt8]? {
        var bytes: UnsafeRawPointer?
        var count = 0
        guard sd_bus_message_read_array(raw, Self.type("y"), &bytes, &count) > 0 else { return nil }
        return Array(UnsafeRawBufferPointer(start: bytes, count: count))
    }

    /// Type `aay`.
    package func byteArrays() -> [[UInt8]]? { elements("ay") { $0.bytes() } }

    /// A file descriptor that came with the message; the caller closes it.
    package func fileDescriptor() -> Int32? {
        // The message closes its own descriptor.
        guard let borrowed = number("h", Int32.self) else { return nil }
        let duplicate = fcntl(borrowed, F_DUPFD_CLOEXEC, 3)
        return duplicate >= 0 ? duplicate : nil
    }

    /// Type `a{sv}`.
    package func dictionary() -> [String: DBusValue]? {
        entries("{sv}") {
            $0.string()
        } value: {
            $0.value()
        }
    }

    /// Type `aa{sv}`.
    package func dictionaries() -> [[String: DBusValue]]? { elements("a{sv}") { $0.dictionary() } }

    /// Type `a{ss}`.
    package func stringDictionary() -> [String: String]? {
        entries("{ss}") {
            $0.string()
        } value: {
            $0.string()
        }
    }

    /// Type `a{sa{sv}}`.
    package func interfaces() -> [String: [String: DBusValue]]? {
        entries("{sa{sv}}") {
            $0.string()
        } value: {
            $0.dictionary()
        }
    }

    /// Type `a{oa{sa{sv}}}`.
    package func objects() -> [String: [String: [String: DBusValue]]]? {
        entries("{oa{sa{sv}}}") {
            $0.objectPath()
        } value: {
            $0.interfaces()
        }
    }

    /// The next value, of any type; a variant's contents in place of the variant.
    package func value() -> DBusValue? { value(depth: 0) }

    private func value(depth: Int) -> DBusValue? {
        var type: CChar = 0
        var contents: UnsafePointer<CChar>?
        guard depth < Self.maximumDepth, sd_bus_message_peek_type(raw, &type, &contents) > 0 else { return nil }
        let signature = Self.text(contents)
        switch (UInt8(bitPattern: type), signature) {
        case (UInt8(ascii: "v"), _):
            guard sd_bus_message_enter_container(raw, type, signature) > 0 else { return nil }
            defer { sd_bus_message_exit_container(raw) }
            return value(depth: depth + 1)
        case (UInt8(ascii: "s"), _): return string().map { .string($0) }
        case (UInt8(ascii: "o"), _): return objectPath().map { .objectPath($0) }
        case (UInt8(ascii: "b"), _): return boolean().map { .boolean($0) }
        case (UInt8(ascii: "y"), _): return number("y", UInt8.self).map { .byte($0) }
        case (UInt8(ascii: "n"), _): return number("n", Int16.self).map { .int16($0) }
        case (UInt8(ascii: "q"), _): return uint16().map { .uint16($0) }
        case (UInt8(ascii: "i"), _): return int32().map { .int32($0) }
        case (UInt8(ascii: "u"), _): return uint32().map { .uint32($0) }
        case (UInt8(ascii: "a"), "y"): return bytes().map { .bytes($0) }
        case (UInt8(ascii: "a"), "ay"): return byteArrays().map { .byteArrays($0) }
        case (UInt8(ascii: "a"), "s"): return elements("s") { $0.string() }.map { .strings($0) }
        case (UInt8(ascii: "a"), "o"): return elements("o") { $0.objectPath() }.map { .objectPaths($0) }
        case (UInt8(ascii: "a"), "{sv}"): return dictionary().map { .dictionary($0) }
        case (UInt8(ascii: "a"), "a{sv}"): return dictionaries().map { .dictionaries($0) }
        case (UInt8(ascii: "a"), "{sa{sv}}"): return interfaces().map { .interfaces($0) }
        case (UInt8(ascii: "a"), "{oa{sa{sv}}}"): return objects().map { .objects($0) }
        default: return sd_bus_message_skip(raw, nil) > 0 ? .other : nil
        }
    }

    private func elements<Element>(_ contents: String, _ read: (DBusMessage) -> Element?) -> [Element]? {
        guard sd_bus_message_enter_container(raw, Self.type("a"), contents) > 0 else { return nil }
        var elements: [Element] = []
        while let element = read(self) { elements.append(element) }
        sd_bus_message_exit_container(raw)
        return elements
    }

    private func entries<Value>(
        _ contents: String, key: (DBusMessage) -> String?, value: (DBusMessage) -> Value?
    ) -> [String: Value]? {
        guard sd_bus_message_enter_container(raw, Self.type("a"), contents) > 0 else { return nil }
        var entries: [String: Value] = [:]
        let entry = String(contents.dropFirst().dropLast())
        while sd_bus_message_enter_container(raw, Self.type("e"), entry) > 0 {
            if let key = key(self), let value = value(self) { entries[key] = value }
            sd_bus_message_exit_container(raw)
        }
        sd_bus_message_exit_container(raw)
        return entries
    }

    private func text(_ type: Unicode.Scalar) -> String? {
        var pointer: UnsafePointer<CChar>?
        guard sd_bus_message_read_basic(raw, Self.type(type), &pointer) > 0 else { return nil }
        return pointer.map { String(cString: $0) }
    }

    private func number<Number: FixedWidthInteger>(_ type: Unicode.Scalar, _: Number.Type) -> Number? {
        var value: Number = 0
        return sd_bus_message_read_basic(raw, Self.type(type), &value) > 0 ? value : nil
    }

    private static func text(_ pointer: UnsafePointer<CChar>?) -> String { pointer.map { String(cString: $0) } ?? "" }

    private static func type(_ letter: Unicode.Scalar) -> CChar { CChar(bitPattern: UInt8(ascii: letter)) }

    /// Limit on nested variants; more than one is never needed.
    private static let maximumDepth = 4

    // MARK: Writing

    /// - Returns: 0 or more, or a negative error number.
    func append(_ value: DBusValue) -> Int32 {
        switch value {
        // sd-bus takes the pointer of a string, and a pointer to a number.
        case .string(let value): return value.withCString { sd_bus_message_append_basic(raw, Self.type("s"), $0) }
        case .objectPath(let value): return value.withCString { sd_bus_message_append_basic(raw, Self.type("o"), $0) }
        case .boolean(let value): return append(Int32(value ? 1 : 0), "b")
        case .byte(let value): return append(value, "y")
        case .int16(let value): return append(value, "n")
        case .uint16(let value): return append(value, "q")
        case .int32(let value): return append(value, "i")
        case .uint32(let value): return append(value, "u")
        case .bytes(let bytes): return sd_bus_message_append_array(raw, Self.type("y"), bytes, bytes.count)
        case .byteArrays(let arrays): return array("ay") { arrays.map { append(.bytes($0)) } }
        case .strings(let texts): return array("s") { texts.map { append(.string($0)) } }
        case .objectPaths(let paths): return array("o") { paths.map { append(.objectPath($0)) } }
        case .dictionary(let entries):
            return array("{sv}") {
                entries.map { key, value in
                    container("e", "sv") {
                        [append(.string(key)), container("v", value.signature) { [append(value)] }]
                    }
                }
            }
        case .dictionaries(let list): return array("a{sv}") { list.map { append(.dictionary($0)) } }
        case .interfaces(let entries):
            return array("{sa{sv}}") {
                entries.map { key, value in container("e", "sa{sv}") { [append(.string(key)), append(.dictionary(value))] } }
            }
        case .objects(let entries):
            return array("{oa{sa{sv}}}") {
                entries.map { key, value in
                    container("e", "oa{sa{sv}}") { [append(.objectPath(key)), append(.interfaces(value))] }
                }
            }
        case .other: return -EINVAL
        }
    }

    private func append<Number: FixedWidthInteger>(_ number: Number, _ type: Unicode.Scalar) -> Int32 {
        var number = number
        return sd_bus_message_append_basic(raw, Self.type(type), &number)
    }

    private func array(_ contents: String, _ body: () -> [Int32]) -> Int32 { container("a", contents, body) }

    /// - Returns: 0 or more, or the lowest of the error numbers.
    private func container(_ type: Unicode.Scalar, _ contents: String, _ body: () -> [Int32]) -> Int32 {
        let opened = sd_bus_message_open_container(raw, Self.type(type), contents)
        guard opened >= 0 else { return opened }
        let lowest = body().min() ?? 0
        guard lowest >= 0 else { return lowest }
        return sd_bus_message_close_container(raw)
    }
}
