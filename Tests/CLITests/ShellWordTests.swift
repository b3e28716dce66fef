import Testing

@testable import NearshareCLI

@Suite("words of commands to copy into a shell") struct ShellWordTests {
    @Test(
        "a text is quoted as far as necessary, and a shell reads it as it is",
        arguments: [
            ("/tmp/note.opus", "/tmp/note.opus"), ("anna", "anna"), ("my note", "'my note'"), ("it's", #"'it'\''s'"#),
            (#"a\b"#, #"'a\b'"#), (#"\'"#, #"'\'\'''"#), ("-n", "'-n'"), ("", "''"), ("$HOME `id`", "'$HOME `id`'"),
            ("a\u{1b}7", #"$'a\0337'"#), ("a\n\\'", #"$'a\012\\\''"#), ("x\u{202e}y z", #"$'x\342\200\256y z'"#),
        ])
    func quoted(_ text: String, _ word: String) {
        #expect(ShellWord.quoted(text) == word)
    }
}
