import NearshareBase
import Testing

@Suite("texts by scalars") struct StringScalarsTests {
    /// COMBINING ACUTE ACCENT: with the scalar before it one character.
    private let mark = "\u{301}"

    @Test("T4: a slash or quotation mark before a combining mark is found like any other")
    func marks() {
        let path = "a/\(mark)b"
        #expect(path.firstIndex(of: "/") == nil, "the characters have no slash")
        #expect(path.pathComponents == ["a", "\(mark)b"])
        #expect(path.pathOfParent == "a" && path.nameInParent == "\(mark)b")
        #expect("\"\(mark)x".replacing(scalar: "\"", with: "''") == "''\(mark)x")
        #expect("a.\(mark)txt".fileNameExtension == "\(mark)txt")
        #expect("/home/\(mark)x".isPath(inside: "/home"))
    }

    @Test func `paths have components, a parent and a name`() {
        #expect("/a//b/".pathComponents == ["a", "b"])
        #expect("a//b".split(atScalar: "/", omittingEmpty: false) == ["a", "", "b"])
        #expect("/a/b".pathOfParent == "/a" && "/b".pathOfParent == "" && "b".pathOfParent == nil)
        #expect("/a/b".nameInParent == "b" && "b".nameInParent == "b" && "a/".nameInParent == "")
        #expect("a//".withoutFinalSlashes == "a" && "/".withoutFinalSlashes == "/" && "".withoutFinalSlashes == "")
        #expect("a.tar.gz".fileNameExtension == "gz" && "a.".fileNameExtension == "" && "a".fileNameExtension == nil)
    }

    @Test func `a directory does not contain the paths that only begin with its name`() {
        #expect("/a/b".isPath(inside: "/a") && "/a".isPath(inside: "/a"))
        #expect(!"/ab".isPath(inside: "/a") && !"/a".isPath(inside: "/a/b"))
    }
}
