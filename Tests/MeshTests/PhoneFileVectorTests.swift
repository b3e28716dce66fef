import NearshareBase
import NearshareMesh
import NearshareTesting
import Testing

/// How an iPhone stores a file sent to it.
@Suite struct PhoneFileVectorTests {
    struct Names: Decodable {
        struct Vector: Decodable {
            var id: String
            var offeredName: String?
            var defaultPrefix: String
            var fallbackExtension: String?
            var subdirectory: String
            var savedLeaf: String
        }
        struct MediaType: Decodable {
            var mime: String
            var recognised: Bool
            var category: String?
            var defaultExtension: String?
            var contentHeadHex: String
            var contentLength: Int
            var magicOk: Bool
        }
        var vectors: [Vector]
        var mime: [MediaType]
    }

    /// 2025-09-19 22:06:14 UTC.
    private let clock = WallTime(milliseconds: 1_758_319_574_000)

    @Test(
        "P1, P9: names as an iPhone saves them",
        .enabled(if: Vectors.exists("file_names.json"), "needs the vectors in NEARSHARE_VECTORS"))
    func names() throws {
        let file = try Vectors.read(Names.self, from: "file_names.json")
        var taken: Set<String> = []
        for vector in file.vectors {
            let name = PhoneFileName(
                offered: vector.offeredName, prefix: vector.defaultPrefix, fallbackExtension: vector.fallbackExtension,
                arrived: clock)
            let folder = vector.subdirectory
            let free = [name.text] + (1..<100).map { name.numbered($0) }
            let chosen = try #require(free.first { !taken.contains("\(folder)/\($0)") })
            taken.insert("\(folder)/\(chosen)")
            // Swift treats two strings as equal that differ in their scalars.
            #expect(Array(chosen.unicodeScalars) == Array(vector.savedLeaf.unicodeScalars), "\(vector.id): \(chosen)")
            #expect(!chosen.contains("/") && !chosen.hasPrefix("."), "\(vector.id)")
        }
        #expect(!file.vectors.isEmpty)
        print("checked \(file.vectors.count) names of file_names.json")
    }

    @Test(.enabled(if: Vectors.exists("file_names.json"), "needs the vectors in NEARSHARE_VECTORS"))
    func `media types are recognised as by phones`() throws {
        let file = try Vectors.read(Names.self, from: "file_names.json")
        for vector in file.mime {
            let type = PhoneMediaType(vector.mime)
            #expect((type != nil) == vector.recognised, "\(vector.mime)")
            #expect(type?.category.rawValue == vector.category, "\(vector.mime)")
            #expect(type?.fileExtension == vector.defaultExtension, "\(vector.mime)")
            // A long content is given by its beginning only.
            let head = try #require(Hex.decode(vector.contentHeadHex))
            let content = head + [UInt8](repeating: 0, count: max(0, vector.contentLength - head.count))
            #expect(type?.matches(content[...]) ?? false == vector.magicOk, "\(vector.mime), \(vector.contentHeadHex)")
        }
        #expect(!file.mime.isEmpty)
        print("checked \(file.mime.count) media types of file_names.json")
    }

    @Test func `the name of a file without one contains its time of arrival`() {
        func stamp(_ seconds: Int64, _ secondsFromUTC: Int = 0) -> String {
            PhoneFileName(
                offered: nil, prefix: "f", fallbackExtension: nil, arrived: WallTime(milliseconds: seconds * 1000),
                secondsFromUTC: secondsFromUTC
            ).text
        }
        #expect(stamp(0) == "f_19700101_000000")
        #expect(stamp(-1) == "f_19691231_235959")
        #expect(stamp(951_782_399) == "f_20000228_235959")
        #expect(stamp(951_782_400) == "f_20000229_000000")
        #expect(stamp(4_107_542_400) == "f_21000301_000000")
        #expect(stamp(1_758_319_574, 7200) == "f_20250920_000614")
    }

    @Test("P9: a name without an extension is numbered at its end") func numbering() {
        func name(_ text: String) -> PhoneFileName {
            PhoneFileName(offered: text, prefix: "f", fallbackExtension: nil, arrived: clock)
        }
        #expect(name("a").numbered(2) == "a (2)")
        #expect(name("a.tar.gz").numbered(2) == "a.tar (2).gz")
    }

    @Test("P11: a right-to-left name is displayed as it is stored") func bidirectional() {
        let name = PhoneFileName(offered: "photo\u{202e}gpj.exe", prefix: "f", fallbackExtension: nil, arrived: clock)
        #expect(name.text == "photo_gpj.exe")
    }

    @Test("P8: long names keep their extension, unless the extension is the long part") func long() {
        func name(_ text: String) -> String {
            PhoneFileName(offered: text, prefix: "f", fallbackExtension: "bin", arrived: clock).text
        }
        #expect(name(String(repeating: "e\u{301}", count: 200) + ".txt").count == 120)
        #expect(name(String(repeating: "a", count: 20) + "." + String(repeating: "b", count: 200)).prefix(12) == "aaaaaaaaaa.b")
    }

    @Test func `a file whose type phones would reject is sent as one of unknown type`() {
        let jpeg: [UInt8] = [0xff, 0xd8, 0xff, 0xe0]
        #expect(PhoneMediaType(admissibleFor: "IMAGE/JPEG", content: jpeg[...]) == .jpeg)
        #expect(PhoneMediaType(admissibleFor: "image/png", content: jpeg[...]) == .anything)
        #expect(PhoneMediaType(admissibleFor: "text/plain", content: jpeg[...]) == .anything)
        #expect(PhoneMediaType(admissibleFor: nil, content: jpeg[...]) == .anything)
        #expect(!PhoneMediaType.anything.matches([]))
    }
}
