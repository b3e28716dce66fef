import NearshareService
import Testing

@testable import NearshareCLI

@Suite("dialog that picks a peer") struct DialogPickerTests {
    private typealias Program = DialogPicker.Program

    @Test("T6: what is sent is shown as it is, without markup and escape sequences", arguments: DialogPicker.Program.allCases)
    func markup(_ program: DialogPicker.Program) {
        let text = DialogPicker.text(sending: #"<b>a</b> & "c" \n"#, isEmpty: false, program)
        #expect(text.contains(#"&lt;b&gt;a&lt;/b&gt; &amp; &quot;c&quot; \\n"#))
        #expect(!text.contains("<b>"))
    }

    @Test func `an empty list says what to do on the other machine, where it can be added to`() {
        let empty = DialogPicker.text(sending: "a.jpg", isEmpty: true, Program.zenity)
        #expect(empty.contains("nearshare receive") && empty.contains("LocalSend"))
        #expect(empty.hasSuffix("\n\nSend a.jpg to:"))
        #expect(DialogPicker.text(sending: "a.jpg", isEmpty: false, Program.zenity) == "Send a.jpg to:")
        // kdialog is not started without a peer.
        for isEmpty in [false, true] {
            #expect(DialogPicker.text(sending: "a.jpg", isEmpty: isEmpty, Program.kdialog) == "<qt>Send a.jpg to:</qt>")
        }
    }
}
