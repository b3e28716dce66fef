import NearshareBase
import NearshareBundles
import NearshareCrypto
import NearshareTesting
import Testing

@Suite("exported keys")
struct ExportedKeysTests {
    private let keys = RouterKeys(
        agreementKey: try! AgreementPrivateKey(seed: [UInt8](repeating: 4, count: 32)),
        signingKey: try! SigningPrivateKey(seed: [UInt8](repeating: 5, count: 32)))

    @Test("what is exported can be imported, also when its lines end as on another system")
    func roundTrip() throws {
        let name = try DisplayName("Ada Löve")
        let text = ExportedKeys.export(keys, name: name)
        for text in [text, text.split(separator: "\n").joined(separator: "\r\n")] {
            let imported = try ExportedKeys(decoding: text)
            #expect(imported.publicKeys == keys.publicKeys && imported.name == name)
        }
    }

    @Test("K2: no changed digit is taken")
    func changed() throws {
        let text = Array(ExportedKeys.export(keys, name: try DisplayName("Ada")).utf8)
        for index in text.indices.dropFirst(17) where text[index] != UInt8(ascii: "\n") {
            var changed = text
            changed[index] = changed[index] == UInt8(ascii: "1") ? UInt8(ascii: "2") : UInt8(ascii: "1")
            #expect(throws: ExportedKeys.Invalid.self) { try ExportedKeys(decoding: String(decoding: changed, as: UTF8.self)) }
        }
    }

    @Test("other files, later versions and too long ones are said to be so")
    func refused() {
        #expect(throws: ExportedKeys.Invalid.notAKeysFile) { try ExportedKeys(decoding: "") }
        #expect(throws: ExportedKeys.Invalid.notAKeysFile) { try ExportedKeys(decoding: "-----BEGIN\n") }
        #expect(throws: ExportedKeys.Invalid.laterVersion(2)) { try ExportedKeys(decoding: "nearshare keys 2\n") }
        // No text of the file is shown (T1).
        #expect(throws: ExportedKeys.Invalid.notAKeysFile) { try ExportedKeys(decoding: "nearshare keys \u{1b}[2J\n") }
        #expect(throws: ExportedKeys.Invalid.damaged) { try ExportedKeys(decoding: "nearshare keys 1\nname 41\nname 41\n") }
        #expect(throws: ExportedKeys.Invalid.notAKeysFile) {
            try ExportedKeys(decoding: "nearshare keys 1\n" + String(repeating: "a 00\n", count: 300))
        }
    }

    @Test("modes: every forbidden mix has its rule", arguments: MessageMode.allCases)
    func modes(mode: MessageMode) {
        for hasReceiver in [false, true] {
            for isEncrypted in [false, true] {
                for file in [nil, 1_000, MessageRequest.fileLimit + 1] {
                    let request = MessageRequest(
                        .structured(.null), mode: mode, hasReceiver: hasReceiver, isEncrypted: isEncrypted, fileByteCount: file)
                    let isAllowed =
                        mode == .broadcast
                        ? !hasReceiver && !isEncrypted && file == nil
                        : hasReceiver && (file == nil || (mode == .direct && file! <= MessageRequest.fileLimit))
                    let isTaken = (try? request.validatedEncoding(needsRadio: false)) != nil
                    #expect(isTaken == isAllowed, "\(request)")
                }
            }
        }
        func text(_ count: Int) -> MessageRequest {
            // Three bytes say that it is a text, and how long.
            MessageRequest(
                .structured(.string(String(repeating: "x", count: count - 3))), mode: mode, hasReceiver: mode != .broadcast,
                isEncrypted: false)
        }
        for (limit, isRadio) in [(2_048, false), (1_024, true)] {
            #expect(throws: Never.self) { try text(limit).validatedEncoding(needsRadio: isRadio) }
            #expect(throws: MessageError.contentTooLarge(limit + 1, limit: limit, isRadio: isRadio)) {
                try text(limit + 1).validatedEncoding(needsRadio: isRadio)
            }
            // Nine bytes stand around the text of a line, and do not count for the user.
            func line(_ count: Int) -> MessageRequest {
                MessageRequest(
                    .structured(.object(["text": .string(String(repeating: "x", count: count))])), mode: mode,
                    hasReceiver: mode != .broadcast, isEncrypted: false)
            }
            #expect(throws: Never.self) { try line(limit - 9).validatedEncoding(needsRadio: isRadio) }
            #expect(throws: MessageError.textTooLarge(limit - 8, limit: limit - 9, isRadio: isRadio)) {
                try line(limit - 8).validatedEncoding(needsRadio: isRadio)
            }
        }
    }
}
