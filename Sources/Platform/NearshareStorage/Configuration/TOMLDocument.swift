internal import CNearshareTOML

/// The values of a TOML document, sorted by their keys. Keys in tables have dotted names, such as "profiles.village.hop-limit".
struct TOMLDocument {
    enum Value: Equatable {
        case text(String)
        case texts([String])
        case integer(Int64)
        case flag(Bool)
        /// A valid value of a type that no setting has.
        case other
    }

    /// A syntax error. The reason names the line and may quote the document: escape it before it is shown.
    struct Invalid: Error {
        let reason: String
    }

    private(set) var entries: [(key: String, value: Value, line: Int)] = []

    private static let reasonByteCount = 512

    init(_ text: String) throws(Invalid) {
        var text = text
        var reason = [CChar](repeating: 0, count: Self.reasonByteCount)
        let isValid = text.withUTF8 { text in
            text.withMemoryRebound(to: CChar.self) { text in
                withUnsafeMutablePointer(to: &entries) { entries in
                    nearshare_toml_read(text.baseAddress, text.count, entries, appendEntry, &reason, reason.count)
                }
            }
        }
        guard isValid == 1 else {
            throw Invalid(reason: String(decoding: reason.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self))
        }
    }
}

private let appendEntry: @convention(c) (UnsafeMutableRawPointer?, UnsafePointer<nearshare_toml_entry>?) -> Void = {
    context, entry in
    guard let context, let entry = entry?.pointee else { return }
    func string(_ start: UnsafePointer<CChar>?, _ count: Int) -> String {
        String(decoding: UnsafeRawBufferPointer(start: start, count: count), as: UTF8.self)
    }
    let value: TOMLDocument.Value =
        switch entry.kind {
        case NEARSHARE_TOML_TEXT: .text(string(entry.text, entry.text_length))
        case NEARSHARE_TOML_TEXTS:
            .texts(
                string(entry.text, entry.text_length).split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(
                    String.init))
        case NEARSHARE_TOML_INTEGER: .integer(entry.integer)
        case NEARSHARE_TOML_FLAG: .flag(entry.integer != 0)
        default: .other
        }
    context.assumingMemoryBound(to: [(key: String, value: TOMLDocument.Value, line: Int)].self).pointee.append(
        (string(entry.key, entry.key_length), value, Int(entry.line)))
}
