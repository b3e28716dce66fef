// swift-tools-version: 6.2
import PackageDescription

let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .treatAllWarnings(as: .error),
]

func system(_ name: String, pkgConfig: String? = nil, apt: String) -> Target {
    .systemLibrary(name: name, pkgConfig: pkgConfig, providers: [.apt([apt])])
}

func library(_ name: String, _ dependencies: [Target.Dependency] = []) -> Target {
    .target(name: name, dependencies: dependencies, swiftSettings: strict)
}

func tests(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .testTarget(name: name, dependencies: dependencies, swiftSettings: strict)
}

/// The package in `Tests/Fuzz` feeds what the decoders are held to; nobody else has a use for it.
let fuzzing: [Product] =
    Context.environment["NEARSHARE_FUZZING"] == nil ? [] : [.library(name: "DecoderProperties", targets: ["DecoderProperties"])]

// Who may import whom is stated once more, module by module, in .ci/imports.txt, and checked there:
// SwiftPM does not notice every undeclared import.
let package = Package(
    name: "nearshare",
    products: [
        .library(name: "Nearshare", targets: ["Nearshare"]),
        .library(name: "NearshareDatabase", targets: ["NearshareDatabase"]),
        .executable(name: "nearshare", targets: ["nearshare"]),
        .executable(name: "nearshare-node", targets: ["nearshare-node"]),
    ] + fuzzing,
    traits: [
        .trait(name: "Bluetooth", description: "Finds and reaches others over Bluetooth; needs libbluetooth-dev to build."),
        .default(enabledTraits: ["Bluetooth"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
    ],
    targets: [
        // C libraries, and the one place for C of our own.
        system("CSodium", pkgConfig: "libsodium", apt: "libsodium-dev"),
        system("CMagic", pkgConfig: "libmagic", apt: "libmagic-dev"),
        system("CAvahi", apt: "libavahi-core-dev"),
        system("CZlib", pkgConfig: "zlib", apt: "zlib1g-dev"),
        system("CSystemd", apt: "libsystemd-dev"),
        .target(name: "CNearshareShims"),
        // Function tables of libraries that are loaded when they are needed: their headers are, they are not linked.
        .target(name: "CNearshareVoice"),
        .target(name: "CNearshareTOML"),
        // Needs libbluetooth-dev, for its headers only.
        .target(name: "CNearshareBluetooth"),

        // The pure middle: values and machines, no clock, no dice, no files, no sockets.
        library("NearshareBase"),
        library("NearshareCrypto", ["NearshareBase", "CSodium", .product(name: "Crypto", package: "swift-crypto")]),
        library("NearshareSecurity", ["NearshareBase", "NearshareCrypto"]),
        library("NearshareWire", ["NearshareBase", "CZlib"]),
        library("NearshareSession", ["NearshareBase", "NearshareCrypto", "NearshareSecurity", "NearshareWire"]),
        library("NearshareMesh", ["NearshareBase", "NearshareCrypto", "NearshareSecurity", "NearshareWire"]),
        library("NearshareCarry", ["NearshareBase", "NearshareCrypto", "NearshareSecurity", "NearshareWire"]),

        // What the outside must offer, and the adapters that offer it on Linux.
        library("NearshareEdges", ["NearshareBase"]),
        library("NearshareTCP", ["NearshareBase", "NearshareEdges", "CNearshareShims"]),
        library("NearshareBus", ["NearshareBase", "NearshareEdges", "CSystemd", "CNearshareShims"]),
        library(
            "NearshareBluetooth",
            ["NearshareBase", "NearshareWire", "NearshareEdges", "NearshareBus", "CNearshareBluetooth", "CNearshareShims"]),
        library("NearshareDiscovery", ["NearshareBase", "NearshareEdges", "NearshareBus", "CAvahi", "CNearshareShims"]),
        library(
            "NearshareStorage",
            [
                "NearshareBase", "NearshareCrypto", "NearshareSecurity", "NearshareEdges", "CMagic", "CNearshareShims",
                "CNearshareTOML",
            ]),
        library("NearshareVoice", ["NearshareBase", "NearshareEdges", "CNearshareVoice", "CNearshareShims"]),

        library(
            "NearshareDatabase",
            ["NearshareBase", "NearshareEdges", "CNearshareShims", .product(name: "GRDB", package: "GRDB.swift")]),

        // What commands and the node on this machine say to each other.
        library("NearshareControl", ["NearshareBase", "NearshareEdges", "CNearshareShims"]),

        // The engine, the product, the tool.
        library(
            "NearshareNode",
            [
                "NearshareBase", "NearshareCrypto", "NearshareSecurity", "NearshareWire", "NearshareSession", "NearshareMesh",
                "NearshareCarry", "NearshareEdges", .product(name: "Logging", package: "swift-log"),
            ]),
        library(
            "Nearshare",
            [
                "NearshareBase", "NearshareCarry", "NearshareSecurity", "NearshareWire", "NearshareSession", "NearshareMesh",
                "NearshareEdges", "NearshareNode",
                "NearshareTCP", "NearshareDiscovery", "NearshareStorage", "CNearshareShims",
                .target(name: "NearshareBluetooth", condition: .when(traits: ["Bluetooth"])),
                .product(name: "Logging", package: "swift-log"),
            ]),
        library(
            "NearshareCLI",
            [
                "Nearshare", "NearshareControl", "NearshareVoice", "CNearshareShims",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
            ]),
        .executableTarget(name: "nearshare", dependencies: ["NearshareCLI"], swiftSettings: strict),
        // The same tool with what a node keeps: SQLite makes every start slower, and who sends a file needs none.
        .executableTarget(name: "nearshare-node", dependencies: ["NearshareCLI", "NearshareDatabase"], swiftSettings: strict),

        library(
            "NearshareTesting",
            [
                "NearshareBase", "NearshareCrypto", "NearshareSecurity", "NearshareWire", "NearshareSession", "NearshareEdges",
            ]),
        tests("BaseTests", ["NearshareBase", "NearshareTesting"]),
        tests("SecurityTests", ["NearshareSecurity", "NearshareCrypto", "NearshareTesting"]),
        tests("MeshTests", ["NearshareMesh", "NearshareWire", "NearshareCrypto", "NearshareSecurity", "NearshareTesting"]),
        .target(
            name: "DecoderProperties",
            dependencies: ["NearshareBase", "NearshareCrypto", "NearshareDiscovery", "NearshareSession", "NearshareWire"],
            path: "Tests/Support/DecoderProperties", swiftSettings: strict),
        tests(
            "CarryTests",
            ["CarrySimulation", "NearshareCarry", "NearshareCrypto", "NearshareSecurity", "NearshareTesting", "NearshareWire"]),
        .executableTarget(
            name: "carried-store-probe", dependencies: ["NearshareBase", "NearshareDatabase", "NearshareEdges"],
            path: "Tests/Support/carried-store-probe", swiftSettings: strict),
        tests(
            "DatabaseTests",
            ["NearshareBase", "NearshareDatabase", "NearshareEdges", "NearshareTesting", "carried-store-probe"]),
        .target(
            name: "CarrySimulation",
            dependencies: ["NearshareBase", "NearshareCarry", "NearshareCrypto", "NearshareTesting", "NearshareWire"],
            path: "Tests/Support/CarrySimulation", swiftSettings: strict),
        .executableTarget(
            name: "carry-simulation", dependencies: ["CarrySimulation"], path: "Tests/Simulation", exclude: ["draw.py"],
            swiftSettings: strict),
        .executableTarget(
            name: "frames-benchmark", dependencies: ["NearshareBase", "NearshareTesting", "NearshareWire"],
            path: "Tests/Benchmarks/frames", swiftSettings: strict),
        .systemLibrary(name: "CMalloc", path: "Tests/Benchmarks/CMalloc"),
        .executableTarget(
            name: "mesh-benchmark",
            dependencies: [
                "CMalloc", "NearshareBase", "NearshareMesh", "NearshareSecurity", "NearshareTesting", "NearshareWire",
            ],
            path: "Tests/Benchmarks/mesh", swiftSettings: strict),
        tests("WireTests", ["DecoderProperties", "NearshareCrypto", "NearshareWire", "NearshareTesting"]),
        tests("SessionTests", ["NearshareSession", "NearshareTesting"]),
        tests(
            "StorageTests",
            [
                "NearshareBase", "NearshareCrypto", "NearshareSession", "NearshareEdges", "NearshareStorage",
                "NearshareTesting", "CNearshareShims",
            ]),
        .executableTarget(
            name: "discovery-probe", dependencies: ["NearshareBase", "NearshareDiscovery", "NearshareEdges"],
            path: "Tests/Support/discovery-probe", swiftSettings: strict),
        .executableTarget(
            name: "radio-probe", dependencies: ["NearshareBase", "NearshareBluetooth", "NearshareEdges"],
            path: "Tests/Support/radio-probe", swiftSettings: strict),
        tests(
            "BluetoothTests", ["NearshareBase", "NearshareWire", "NearshareBluetooth", "NearshareEdges", "NearshareTesting"]),
        tests(
            "DiscoveryTests",
            ["NearshareBase", "NearshareDiscovery", "NearshareEdges", "NearshareTesting", "discovery-probe"]),
        tests("VoiceTests", ["NearshareBase", "NearshareEdges", "NearshareVoice", "NearshareTesting"]),
        .executableTarget(
            name: "session-probe", dependencies: ["Nearshare"], path: "Tests/Support/session-probe", swiftSettings: strict),
        tests(
            "NodeTests",
            [
                "Nearshare", "NearshareCarry", "NearshareCrypto", "NearshareDatabase", "NearshareNode", "NearshareSession",
                "NearshareTesting",
            ]),
        tests("ControlTests", ["NearshareBase", "NearshareControl", "NearshareEdges", "NearshareTesting"]),
        tests("CLITests", ["Nearshare", "NearshareCLI", "NearshareControl", "NearshareTesting", "NearshareVoice"]),
    ],
    cxxLanguageStandard: .cxx17
)
