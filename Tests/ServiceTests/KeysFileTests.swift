import Glibc
import Nearshare
import NearshareBundles
import NearshareTesting
import Testing

@testable import NearshareService

@Suite("files of exported keys") struct KeysFileTests {
    private let scratch = ScratchFolder()

    /// Creates a file of this content.
    private func file(holding text: String) throws -> KeysFile {
        let file = KeysFile(path: scratch("keys"))
        try file.create(holding: text)
        return file
    }

    @Test("exported keys are read again from their file") func roundTrip() throws {
        let identity = LocalIdentity(seed: [UInt8](repeating: 2, count: 64))
        let text = ExportedKeys.export(RouterKeys(identity), name: try DisplayName("ben"))
        let keys = try file(holding: text).read()
        #expect(keys.name.claimed == "ben" && keys.publicKeys.signingKey == identity.signingKey.publicKey)
    }

    @Test("a file that exists is not replaced") func existing() throws {
        let file = try file(holding: "first")
        let failure = #expect(throws: CommandFailure.self) { try file.create(holding: "second") }
        #expect(failure?.message == "\(scratch("keys")) already exists; choose another file, or remove it")
        var status = stat()
        #expect(stat(scratch("keys"), &status) == 0 && status.st_size == 5)
    }

    @Test("a file that is missing, or in a folder that is missing, is named with the reason") func missing() throws {
        let file = KeysFile(path: scratch("no/keys"))
        let reading = #expect(throws: CommandFailure.self) { try file.read() }
        #expect(reading?.message == "could not read \(scratch("no/keys")): no such file or directory")
        let writing = #expect(throws: CommandFailure.self) { try file.create(holding: "") }
        #expect(writing?.message == "could not write \(scratch("no/keys")): no such file or directory")
        let folder = #expect(throws: CommandFailure.self) { try KeysFile(path: scratch.path).read() }
        #expect(folder?.message == "could not read \(scratch.path): is a directory")
    }

    @Test(
        "another file is rejected with advice",
        arguments: ["", "text", String(repeating: "nearshare keys 1\n", count: 1_000), "\u{1b}[2J"])
    func rejected(_ text: String) throws {
        let file = try file(holding: text)
        let failure = #expect(throws: CommandFailure.self) { try file.read() }
        #expect(failure?.status == .failure)
        #expect(
            failure?.message == "\(scratch("keys")) could not be imported: not a file of exported keys; "
                + "create one with `nearshare keys export` on the other machine")
    }
}
