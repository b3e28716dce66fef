import Testing

@testable import NearshareStorage

@Suite("addresses of files")
struct LocalPathAddressTests {
    @Test(
        "an address is decoded into the bytes of a path",
        arguments: [
            ("file:///a%20b/c", "/a b/c"), ("file:///%25%2f", "/%/"), ("file:///a%0Ab'$&", "/a\nb'$&"), ("file:///", "/"),
        ])
    func decoded(_ address: String, _ path: String) { #expect(LocalPath(address: address)?.text == path) }

    @Test(
        "what is no address of a local file stays a path",
        arguments: [
            "", "/a", "file:/a", "file://host/a", "http:///a", "file:///%", "file:///%4", "file:///%zz", "file:///a%00b",
        ])
    func other(_ text: String) { #expect(LocalPath(address: text) == nil) }

    @Test func `bytes that are not UTF-8 are kept`() {
        #expect(LocalPath(address: "file:///%ff")?.bytes == [0x2f, 0xff])
    }

    @Test func `the address of a file keeps no character that has a meaning, and leads back to the path`() {
        let path = LocalPath("/a b/%20?#é'\n")
        #expect(path.address == "file:///a%20b/%2520%3F%23%C3%A9%27%0A")
        #expect(LocalPath(address: path.address) == path)
    }
}
