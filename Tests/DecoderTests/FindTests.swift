import DecoderProperties
import FoundationEssentials
import NearshareBase
import NearshareTesting
import Testing

/// The finds and the seeds of the fuzzer in `Tests/Fuzz`.
@Suite struct FindTests {
    static let names = DecoderProperty.all.map(\.name)

    private static func property(_ name: String) -> DecoderProperty { DecoderProperty.all.first { $0.name == name }! }

    @Test(arguments: names) func `each decoder accepts its seeds`(_ name: String) throws {
        let property = Self.property(name)
        #expect(!property.seeds.isEmpty)
        for (number, seed) in property.seeds.enumerated() {
            #expect(try property.check(seed), "seed \(number): \(Hex.encode(seed))")
        }
    }

    @Test("R7: what once broke a decoder breaks it no more", arguments: names) func finds(_ name: String) throws {
        let root = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(2).joined(separator: "/")
        let folder = "\(root)/Fuzz/finds/\(name)"
        // Nothing was ever found where there is no folder.
        for find in (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? [] {
            let bytes = Array(try Data(contentsOf: URL(filePath: "\(folder)/\(find)")))
            #expect(throws: Never.self, "\(name)/\(find)") { try Self.property(name).check(bytes) }
        }
    }

    @Test("every folder of finds is a decoder's, and has some in it") func findsAreLookedAt() throws {
        let root = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(2).joined(separator: "/")
        let folders = try FileManager.default.contentsOfDirectory(atPath: "\(root)/Fuzz/finds")
        #expect(!folders.isEmpty)
        for folder in folders {
            #expect(Self.names.contains(folder))
            #expect(try !FileManager.default.contentsOfDirectory(atPath: "\(root)/Fuzz/finds/\(folder)").isEmpty, "\(folder)")
        }
    }

    @Test("R7: seeds, changed at random, keep every decoder's property", arguments: names) func mutations(_ name: String) throws
    {
        let property = Self.property(name)
        for seed in seeds(0..<300) {
            var random = SeededRandom(seed: seed)
            let bytes = property.seeds.randomElement(using: &random)!.mutated(using: &random)
            #expect(throws: Never.self, "\(name), seed \(seed)") { try property.check(bytes) }
        }
    }
}
