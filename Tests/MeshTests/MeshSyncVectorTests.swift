import NearshareBase
import NearshareCrypto
import NearshareMesh
import NearshareTesting
import Testing

@Suite struct MeshSyncVectorTests {
    struct Syncs: Decodable {
        struct Vector: Decodable {
            var id: String
            var note: String
            var idsHex: [String]
            var targetFpr: Double
            var maxBytes: Int
            var p: Int
            var m: UInt32
            var dataHex: String
            var includedCount: Int
            var decodedSetSize: Int
            var allIncludedFound: Bool
            var requestSyncPayloadHex: String
        }
        struct Request: Decodable {
            var id: String
            var note: String
            var p: Int
            var m: UInt32
            var dataHex: String
            var typesRaw: UInt64?
            var sinceMs: String?
            var fragmentIdFilter: String?
            var encodedHex: String
            var decodeOk: Bool
        }
        struct Malformed: Decodable {
            var id: String
            var note: String
            var inputHex: String
            var consensus: Consensus
            var p: Int?
            var m: UInt32?
        }
        var vectors: [Vector]
        var requestSync: [Request]
        var requestSyncMalformed: [Malformed]
    }

    @Test(.enabled(if: Vectors.exists("sync.json"), "needs the vectors in NEARSHARE_VECTORS"))
    func `sync filters and requests are those of phones`() throws {
        let file = try Vectors.read(Syncs.self, from: "sync.json")
        for vector in file.vectors {
            let name: Comment = "\(vector.id): \(vector.note)"
            let hashes = try vector.idsHex.map { id in
                SHA256Hasher.digest(try hexBytes(id)).prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            }
            let parameter = GolombFilter.parameter(forFalsePositiveRate: vector.targetFpr)
            #expect(parameter == vector.p, name)
            let filter = GolombFilter(hashes: hashes, parameter: parameter, byteCount: vector.maxBytes)
            #expect(filter.range == vector.m && Hex.encode(filter.bytes) == vector.dataHex, name)
            #expect(filter.values.count == vector.decodedSetSize, name)
            #expect(hashes.prefix(vector.includedCount).allSatisfy(filter.contains) == vector.allIncludedFound, name)
            let request = MeshSyncRequest(filter: filter, wanted: [.announcements, .messages])
            #expect(Hex.encode(request.encoded) == vector.requestSyncPayloadHex, name)
            #expect(try MeshSyncRequest(decoding: try hexBytes(vector.requestSyncPayloadHex)[...]) == request, name)
        }
        for vector in file.requestSync {
            let name: Comment = "\(vector.id): \(vector.note)"
            let request = MeshSyncRequest(
                filter: try GolombFilter(parameter: vector.p, range: vector.m, bytes: try hexBytes(vector.dataHex)),
                wanted: vector.typesRaw.map { MeshSyncRequest.Wanted(rawValue: $0) },
                since: try vector.sinceMs.map { try #require(UInt64($0)) },
                fragmentIDs: try vector.fragmentIdFilter?.split(separator: ",").map {
                    try #require(MeshFragment.ID(bytes: try hexBytes(String($0))))
                })
            #expect(Hex.encode(request.encoded) == vector.encodedHex, name)
            let decoded = try? MeshSyncRequest(decoding: try hexBytes(vector.encodedHex)[...])
            #expect(decoded == (vector.decodeOk ? request : nil), name)
        }
        for vector in file.requestSyncMalformed {
            let name: Comment = "\(vector.id): \(vector.note)"
            let decoded = try? MeshSyncRequest(decoding: try hexBytes(vector.inputHex)[...])
            switch vector.consensus {
            case .mustReject: #expect(decoded == nil, name)
            case .mustAccept: #expect(decoded?.filter.parameter == vector.p && decoded?.filter.range == vector.m, name)
            case .platformsDiffer: break  // Either is tolerable.
            }
        }
        #expect(!file.vectors.isEmpty && !file.requestSync.isEmpty && !file.requestSyncMalformed.isEmpty)
        let count = file.vectors.count + file.requestSync.count + file.requestSyncMalformed.count
        print("sync.json: \(count) items")
    }
}
