import NearshareBase
import NearshareHTTP
import NearshareLocalSend
import Testing

@Suite("what LocalSend devices send") struct LocalSendOfferTests {
    private static let info = #"{"alias":"Nice Orange","version":"2.1","fingerprint":"0A1B","port":53317,"protocol":"https"}"#

    private func offer(_ files: String) throws -> LocalSendOffer {
        try LocalSendOffer(decoding: Array(#"{"info":\#(Self.info),"files":{\#(files)}}"#.utf8))
    }

    private func device(_ text: String) throws -> LocalSendDevice { try LocalSendDevice(decoding: Array(text.utf8)) }

    private func names(_ path: [ClaimedFileName]) -> [String] { path.map { String(decoding: $0.bytes, as: UTF8.self) } }

    @Test func `files keep their order, folders become items`() throws {
        let read = try offer(
            #""z":{"fileName":"z","size":1},"a":{"fileName":"t/a","size":2},"b":{"fileName":"t/u/b","size":3,"fileType":"image/png"}"#
        )
        #expect(read.files.map { names($0.header.path) } == [["z"], ["t", "a"], ["t", "u", "b"]])
        #expect(read.files.map(\.header.item) == [0, 1, 1])
        #expect(read.offer.items.map(\.kind) == [.file, .folder])
        #expect(read.offer.items.map(\.size) == [1, 5] && read.offer.items.map(\.entryCount) == [1, 4])
        #expect(read.offer.entryCount == 5 && read.offer.totalSize == 6)
        #expect(read.device.name.claimed == "Nice Orange" && read.text == nil)
    }

    @Test func `entries are listed with each folder before what it contains`() throws {
        let read = try offer(
            [("1", "t/a"), ("2", "z"), ("3", "t/u/b"), ("4", "t/c"), ("5", "t/u/d"), ("6", "t/v/w/e")]
                .map { #""\#($0)":{"fileName":"\#($1)","size":1}"# }.joined(separator: ","))
        #expect(
            read.contents.map { names($0.path).joined(separator: "/") }
                == ["t", "t/a", "t/u", "t/u/b", "t/u/d", "t/c", "t/v", "t/v/w", "t/v/w/e", "z"])
        #expect(read.contents.map(\.item) == [0, 0, 0, 0, 0, 0, 0, 0, 0, 1])
        #expect(UInt64(read.contents.count) == read.offer.entryCount)
        // The user's selection becomes an ``OfferPart``, as in the direct protocol.
        let selection = try #require(EntrySelection(merging: [0...0, 2...4, 9...9]))
        let part = try #require(OfferPart(selection, of: read.offer, listed: read.contents))
        #expect(read.files.indices.filter { read.isSelected($0, in: selection) } == [1, 2, 4])
        #expect(part.counts == OfferPart.Counts(accepted: 3, offered: 6, size: 3))
        #expect(part.renumbered(read.files[1].header)?.item == 1 && !read.isSelected(6, in: selection))
    }

    @Test func `the same files have the same identity, and others another one`() throws {
        let files =
            ["a", "b", "a/b"].map { #""1":{"fileName":"\#($0)","size":1}"# }
            + [#""1":{"fileName":"a","size":2}"#, #""1":{"fileName":"a","size":1},"2":{"fileName":"b","size":1}"#]
        let identities = try files.map { try offer($0).identity }
        #expect(Set(identities).count == files.count)
        #expect(try offer(#""other":{"fileName":"a","size":1}"#).identity == identities[0])
    }

    @Test(
        "F10: an offer that uses one path as a file and as a folder is rejected",
        arguments: [["t/a", "t/a/b"], ["t/a/b", "t/a"]])
    func fileAsFolder(_ names: [String]) {
        let files = names.enumerated().map { #""\#($0)":{"fileName":"\#($1)","size":1}"# }
        #expect(throws: MalformedInput.self) { try offer(files.joined(separator: ",")) }
    }

    @Test func `a text stands in the preview`() throws {
        let read = try offer(#""t":{"fileName":"x","size":99,"fileType":"text/plain","preview":"h\u00e9 \ud83d\ude00"}"#)
        #expect(read.text == Array("hé 😀".utf8) && read.offer.items.map(\.kind) == [.text] && read.offer.totalSize == 8)
    }

    @Test(
        "times become nanoseconds",
        arguments: [
            ("1970-01-01T00:00:01Z", 1_000_000_000), ("2020-02-29T12:00:00.5+02:00", 1_582_970_400_500_000_000),
            ("1969-12-31T23:59:59Z", -1_000_000_000), ("2000-03-01T00:00:00-00:30", 951_870_600_000_000_000),
        ] as [(String, Int64)])
    func times(text: String, nanoseconds: Int64) throws {
        let read = try offer(#""a":{"fileName":"a","size":0,"metadata":{"modified":"\#(text)"}}"#)
        #expect(read.files[0].header.modified == nanoseconds)
    }

    @Test(
        "other times are ignored",
        arguments: [
            "", "2020-13-01T00:00:00Z", "2026-02-29T00:00:00Z", "2026-04-31T00:00:00Z", "2020-01-01 00:00:00Z",
            "9999-01-01T00:00:00Z", "yesterday",
        ])
    func noTimes(text: String) throws {
        let read = try offer(#""a":{"fileName":"a","size":0,"metadata":{"modified":"\#(text)"}}"#)
        #expect(read.files[0].header.modified == nil)
    }

    @Test(
        "F11: parts of names that lead elsewhere are dropped",
        arguments: [
            ("../x", ["x"]), ("/etc/x", ["etc", "x"]), ("..", ["unnamed"]), ("a/./../b", ["a", "b"]), ("/", ["unnamed"]),
        ])
    func traversal(name: String, path: [String]) throws {
        #expect(names(try offer(#""a":{"fileName":"\#(name)","size":0}"#).files[0].header.path) == path)
    }

    @Test(
        "F10: malformed offers are rejected",
        arguments: [
            "", #""a":{"fileName":"a"}"#, #""a":{"fileName":"a","size":-1}"#, #""a":{"fileName":"a","size":1.5}"#,
            #""a":{"fileName":"a","size":18446744073709551616}"#, #""a":{"fileName":"a","size":281474976710657}"#,
            #""a":{"fileName":"","size":1}"#, #""a":{"size":1}"#, #""a":{"fileName":5,"size":1}"#,
            #""":{"fileName":"a","size":1}"#,
            #""a":{"fileName":"a","size":1,"sha256":"00"}"#, #""a":{"fileName":"a","size":1},"a":{"fileName":"b","size":1}"#,
            #""a":[]"#, #""a":null"#,
        ])
    func malformedOffers(files: String) {
        #expect(throws: MalformedInput.self) { try offer(files) }
    }

    @Test("F10: names that differ only in the order of their marks are two, and are never normalised")
    func marks() throws {
        // U+0301 and U+0323 after the same letter.
        let (one, other) = (#"a\u0301\u0323"#, #"a\u0323\u0301"#)
        let read = try offer(#""\#(one)":{"fileName":"\#(one)/x","size":1},"\#(other)":{"fileName":"\#(other)/x","size":1}"#)
        #expect(read.offer.itemCount == 2)
    }

    @Test("F10: depth, numbers of values, files and folders, and lengths have limits")
    func limits() throws {
        func repeated(_ count: Int, _ file: (Int) -> String) -> String { (0..<count).map(file).joined(separator: ",") }
        #expect(throws: MalformedInput.self) { try device(String(repeating: "[", count: 4000)) }
        #expect(throws: MalformedInput.self) { try offer(#""a":{"fileName":"a","size":1,"x":[[[[[[[]]]]]]]}"#) }
        #expect(throws: MalformedInput.self) {
            try offer(#""a":{"fileName":"a","size":1,"x":[\#(repeated(20_000) { "\($0)" })]}"#)
        }
        let thousand = try offer(repeated(1000) { #""\#($0)":{"fileName":"\#($0)","size":1}"# })
        #expect(thousand.files.count == 1000 && thousand.offer.items.count == Offer.maximumDescribedItems)
        #expect(throws: MalformedInput.self) { try offer(repeated(1001) { #""\#($0)":{"fileName":"\#($0)","size":1}"# }) }
        let deep = String(repeating: "a/", count: 31)
        #expect(try offer(#""a":{"fileName":"\#(deep)b","size":1}"#).files[0].header.path.count == 32)
        #expect(throws: MalformedInput.self) { try offer(#""a":{"fileName":"\#(deep)b/c","size":1}"#) }
        #expect(throws: MalformedInput.self) {
            try offer(repeated(200) { #""\#($0)":{"fileName":"\#($0)/\#(deep.dropFirst(2))b","size":1}"# })
        }
        #expect(throws: MalformedInput.self) {
            try offer(#""a":{"fileName":"\#(String(repeating: "n", count: 256))","size":1}"#)
        }
        #expect(throws: MalformedInput.self) {
            try offer(#""\#(String(repeating: "i", count: 257))":{"fileName":"a","size":1}"#)
        }
        #expect(throws: MalformedInput.self) {
            try offer(#""a":{"fileName":"a","size":1,"\#(String(repeating: "m", count: 257))":1}"#)
        }
        #expect(throws: MalformedInput.self) {
            try offer(#""a":{"fileName":"a","size":1,"x":"\#(String(repeating: "t", count: 4097))"}"#)
        }
        let long = String(repeating: "t", count: 100_000)
        #expect(
            try offer(#""t":{"fileName":"x","size":1,"fileType":"text/plain","preview":"\#(long)"}"#).text?.count == 100_000)
        #expect(throws: MalformedInput.self) { try LocalSendOffer(decoding: Array(repeating: 0x20, count: (1 << 20) + 1)) }
        #expect(throws: MalformedInput.self) { try device(String(repeating: " ", count: 4096) + "{}") }
    }

    @Test(
        "F10: malformed JSON is rejected",
        arguments: [
            "", "{", "}", "[1,]", #"{"a"}"#, #"{"a":}"#, #"{"a":1,}"#, #"{"a":"\x"}"#, #"{"a":"\u12"}"#, "{\"a\":\"\n\"}",
            "nul",
            #"{"a":1}x"#, #"{"a":'b'}"#, #"{a:1}"#, "+", "-", "01", "-00", "1.", ".5", "1.e5", "1e", "1e+", "1-2", "--1",
        ])
    func malformedJSON(text: String) {
        let whole = Self.info.dropLast() + #","more":\#(text)}"#
        #expect(throws: MalformedInput.self) { try device(String(whole)) }
    }

    @Test func `other members are ignored, and announcements are read again`() throws {
        let whole = Self.info.dropLast() + #","more":[1,0,-0,0.0,1E+9,2e-00,-2.5e3,true,null,{"x":"\"\\\/\b\f\n\r\t"}]}"#
        let read = try device(String(whole))
        #expect(read.isSecure && read.port == 53317 && read.claims([0x0a, 0x1b]))
        let name = try #require(DisplayName(truncating: "a \"quote\" \\ \u{1}"))
        let own = LocalSendDevice(name: name, fingerprint: [0xab], port: 7)
        let again = try LocalSendDevice(decoding: own.announcement)
        #expect(again.name == name && again.port == 7 && again.fingerprint == "AB" && again.announces == true)
    }

    @Test(
        "F10: devices without a name, with other protocols or ports are rejected",
        arguments: [
            #"{"fingerprint":"a"}"#, #"{"alias":"","fingerprint":"a"}"#, #"{"alias":"x"}"#, #"{"alias":"x","fingerprint":""}"#,
            #"{"alias":"x","fingerprint":"a","port":0}"#, #"{"alias":"x","fingerprint":"a","port":65536}"#,
            #"{"alias":"x","fingerprint":"a","port":"1"}"#, #"{"alias":"x","fingerprint":"a","protocol":"ftp"}"#,
        ])
    func devices(text: String) {
        #expect(throws: MalformedInput.self) { try device(text) }
    }

    @Test("a device without content has shown the text, or wants none of the files") func answersWithoutFiles() throws {
        let empty = #"{"sessionId":"s","files":{}}"#
        for text in [
            "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: \(empty.utf8.count)\r\n\r\n\(empty)",
        ] {
            var reader = HTTPResponseReader(limit: 100)
            Array(text.utf8).withUnsafeBytes { reader.append($0) }
            let next = try reader.next()
            let response = try #require(next)
            #expect(try LocalSendContents().answer(response) == .nothingWanted)
            #expect(try LocalSendContents(text: "hello").answer(response) == .textShown)
        }
    }
}
