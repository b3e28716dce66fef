import DecoderProperties
import Glibc

// The entry points for libFuzzer. One executable for all decoders, as linking one for each takes longer than all else:
// `FUZZ_DECODER` names
// the decoder; without it their names are printed.

private let property: DecoderProperty? = environment("FUZZ_DECODER").flatMap { name in
    DecoderProperty.all.first { $0.name == name }
}

private func environment(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }

/// Before anything else; `FUZZ_SEEDS` is a folder, for libFuzzer to read after this.
@_cdecl("LLVMFuzzerInitialize")
public func initialize(
    _ count: UnsafeMutablePointer<CInt>, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>
) -> CInt {
    guard let property else {
        for property in DecoderProperty.all { print(property.name) }
        exit(environment("FUZZ_DECODER") == nil ? 0 : 2)
    }
    if let folder = environment("FUZZ_SEEDS") {
        for (number, seed) in property.seeds.enumerated() {
            guard let file = fopen("\(folder)/seed-\(number)", "w") else { fatalError("no seeds can be written to \(folder)") }
            fwrite(seed, 1, seed.count, file)
            fclose(file)
        }
    }
    return 0
}

@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    do {
        _ = try property?.check(Array(UnsafeBufferPointer(start: start, count: count)))
    } catch {
        fatalError("\(error)")
    }
    return 0
}
