import Foundation
import NearshareBase
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareStorage

/// The cases are those of rsync's manual, "PATTERN MATCHING RULES".
@Suite("patterns of what is not sent")
struct ExclusionPatternTests {
    private let folder = ScratchFolder()

    init() throws {
        for path in [
            "trip/a.o", "trip/a.c", "trip/build/x.c", "trip/day/build/y.c", "trip/day/notes", "trip/build.txt", "trip/day/a.o",
        ] {
            let file = URL(filePath: folder(path))
            try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
            try Data("x".utf8).write(to: file)
        }
    }

    private func entries(without patterns: [String], of paths: [String] = ["trip"]) throws -> Set<String> {
        var options = FileSource.Options()
        for pattern in patterns {
            let isAdded = options.exclusions.add(pattern)
            #expect(isAdded)
        }
        let source = try FileSource(paths: paths.map { folder($0) }, options: options)
        var entries: Set<String> = []
        try source.forEachEntry { header in
            if header.kind == .file {
                entries.insert(header.path.dropFirst().map { String(decoding: $0.bytes, as: UTF8.self) }.joined(separator: "/"))
            }
        }
        return entries
    }

    private static let all: Set = ["a.o", "a.c", "build/x.c", "day/build/y.c", "day/notes", "build.txt", "day/a.o"]

    @Test(
        "a pattern leaves out what it matches",
        arguments: [
            ("*.o", ["a.o", "day/a.o"]), ("build", ["build/x.c", "day/build/y.c"]), ("/trip/build", ["build/x.c"]),
            ("build/", ["build/x.c", "day/build/y.c"]), ("notes/", []), ("/trip/a.?", ["a.o", "a.c"]), ("day/*.o", ["day/a.o"]),
            ("build/*.c", ["build/x.c", "day/build/y.c"]), ("/*/*/*.c", ["build/x.c"]),
            ("/**.c", ["a.c", "build/x.c", "day/build/y.c"]),
            ("[ab].c", ["a.c"]), ("ay/notes", []),
            // Each path begins with the name of the folder that is sent.
            ("trip/build", ["build/x.c"]), ("trip/build/", ["build/x.c"]), ("trip/*.o", ["a.o"]), ("/build", []),
            ("rip/build", []),
            // In a pattern with a double star, too, a single star or a question mark matches no slash.
            ("/trip/*/**.c", ["build/x.c", "day/build/y.c"]), ("/trip/*/build/**.c", ["day/build/y.c"]),
            ("/trip/*/y**", []), ("/**/build?y.c", []), ("/trip/day/**/y.?", ["day/build/y.c"]),
            // With `**` a pattern without a slash is matched against the path, from the beginning of a name on.
            ("day**c", ["day/build/y.c"]), ("ay**c", []), ("build**c", ["build/x.c", "day/build/y.c"]),
            ("day/***", ["day/build/y.c", "day/notes", "day/a.o"]),
            ("build[/]x.c", []), ("/trip/[!a-c].o", []), ("[[:alpha:]].[]o]", ["a.o", "day/a.o"]), ("a[.c", []),
            ("a\\.?", ["a.o", "a.c", "day/a.o"]),
            ("a\\.o", []),
        ])
    func patterns(_ pattern: String, _ excluded: [String]) throws {
        #expect(try entries(without: [pattern]) == Self.all.subtracting(excluded))
    }

    @Test("what is excluded is neither offered nor counted, also among the paths that are named")
    func offered() throws {
        var options = FileSource.Options()
        let areAdded = [options.exclusions.add("*.o"), options.exclusions.add("day")]
        #expect(areAdded == [true, true])
        let source = try FileSource(paths: [folder("trip"), folder("trip/a.o")], options: options)
        #expect(source.offer.itemCount == 1 && source.offer.totalSize == 3 && source.skippedCount == 0)
        let failure = #expect(throws: StorageError.self) { try FileSource(paths: [folder("trip/a.o")], options: options) }
        #expect(failure?.description.contains("nothing to send") == true)
    }

    @Test func `a pattern that leaves nothing out is reported, also a line of a file, with its spaces`() throws {
        try Data("nothing\n  a.o  \nnotes\n".utf8).write(to: URL(filePath: folder("patterns")))
        var options = FileSource.Options()
        try options.exclusions.add(linesOf: folder("patterns"))
        for pattern in ["*.o", "trip/a.o", "/build"] { _ = options.exclusions.add(pattern) }
        let unused = try FileSource(paths: [folder("trip")], options: options).unusedExclusions
        #expect(unused.map(\.pattern) == ["nothing", "  a.o  ", "/build"])
        #expect(unused.map(\.file) == [folder("patterns"), folder("patterns"), nil])
    }

    @Test("a file of patterns has comments and empty lines; a folder and a large file are errors")
    func file() throws {
        try Data("# objects\n*.o\n\n; and\r\nbuild/\n".utf8).write(to: URL(filePath: folder("patterns")))
        var options = FileSource.Options()
        try options.exclusions.add(linesOf: folder("patterns"))
        let source = try FileSource(paths: [folder("trip")], options: options)
        #expect(source.offer.totalSize == 3)
        #expect(throws: StorageError.self) { try options.exclusions.add(linesOf: folder("trip")) }
        #expect(throws: StorageError.self) { try options.exclusions.add(linesOf: folder("none")) }
        try Data(count: (1 << 20) + 1).write(to: URL(filePath: folder("large")))
        #expect(throws: StorageError.self) { try options.exclusions.add(linesOf: folder("large")) }
    }

    @Test(.timeLimit(.minutes(1)))
    func `matching takes at most the product of both lengths, also with many stars`() throws {
        var patterns = ExclusionPatterns()
        let isAdded = patterns.add(String(repeating: "a*", count: 100) + "**b")
        let name = try #require(ClaimedFileName(String(repeating: "a", count: 255)))
        var used: Set<Int> = []
        let isMatched = patterns.match([name, name], isFolder: false, used: &used)
        #expect(isAdded && !isMatched)
    }

    @Test("patterns that can match nothing are rejected", arguments: ["", "/", "a\0b"])
    func empty(_ pattern: String) {
        var patterns = ExclusionPatterns()
        let isAdded = patterns.add(pattern)
        #expect(!isAdded && patterns.isEmpty)
    }
}
