// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0
import PackageDescription

let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .treatAllWarnings(as: .error),
]

func system(_ name: String, pkgConfig: String? = nil, apt: String) -> Target {
    .systemLibrary(name: name, path: "Sources/C/\(name)", pkgConfig: pkgConfig, providers: [.apt([apt])])
}

/// A module of the layer `layer`: a folder below `Sources`, as `docs/ARCHITECTURE.md` draws them.
func module(
    _ name: String, _ layer: String, _ dependencies: [Target.Dependency] = [], resources: [Resource]? = nil
) -> Target {
    .target(
        name: name, dependencies: dependencies, path: "Sources/\(layer)/\(name)", resources: resources,
        swiftSettings: strict)
}

/// Tests in `Tests/<name>Tests`.
func tests(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .testTarget(name: "\(name)Tests", dependencies: dependencies, swiftSettings: strict)
}

/// Code that only tests, benchmarks and the fuzzer use.
func support(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .target(name: name, dependencies: dependencies, path: "Tests/Support/\(name)", swiftSettings: strict)
}

/// A program that tests start as a process of its own, or a benchmark.
func program(_ name: String, _ path: String, _ dependencies: [Target.Dependency], exclude: [String] = []) -> Target {
    .executableTarget(name: name, dependencies: dependencies, path: path, exclude: exclude, swiftSettings: strict)
}

/// The decoders' properties are a product only for the package in `Tests/Fuzz`.
let fuzzing: [Product] =
    Context.environment["NEARSHARE_FUZZING"] == nil ? [] : [.library(name: "DecoderProperties", targets: ["DecoderProperties"])]

let crypto: Target.Dependency = .product(name: "Crypto", package: "swift-crypto")
let logging: Target.Dependency = .product(name: "Logging", package: "swift-log")
let argumentParser: Target.Dependency = .product(name: "ArgumentParser", package: "swift-argument-parser")

let cLibraries: [Target] = [
    system("CSodium", pkgConfig: "libsodium", apt: "libsodium-dev"),
    system("CMagic", pkgConfig: "libmagic", apt: "libmagic-dev"),
    system("CAvahi", apt: "libavahi-core-dev"),
    system("CZlib", pkgConfig: "zlib", apt: "zlib1g-dev"),
    system("CSystemd", apt: "libsystemd-dev"),
    .target(name: "CNearshareShims", path: "Sources/C/CNearshareShims"),
    .target(name: "CNearshareCipher", dependencies: [crypto], path: "Sources/C/CNearshareCipher"),
    // Linked into the executable in place of Foundation's locale data.
    .target(name: "CNearshareICU", path: "Sources/C/CNearshareICU"),
    // Function tables of libraries that are loaded at run time: built with their headers, not linked.
    .target(name: "CNearshareAudio", path: "Sources/C/CNearshareAudio"),
    .target(name: "CNearshareTOML", path: "Sources/C/CNearshareTOML"),
    // Needs libbluetooth-dev, for its headers only.
    .target(name: "CNearshareBluetooth", path: "Sources/C/CNearshareBluetooth"),
]

// Pure: values and state machines, without clock, randomness, files or sockets.
let core: [Target] = [
    module("NearshareBase", "Core"),
    module("NearshareCrypto", "Core", ["NearshareBase", "CSodium", "CNearshareCipher", crypto]),
]

let protocols: [Target] = [
    module("NearshareDirect", "Protocols", ["NearshareBase", "NearshareCrypto"]),
    module("NearshareBundles", "Protocols", ["NearshareBase", "NearshareCrypto"]),
    module("NearshareMesh", "Protocols", ["NearshareBase", "NearshareCrypto", "CZlib"]),
    module("NearshareHTTP", "Protocols"),
    // The page becomes a constant: the tool is one file.
    module(
        "NearshareWeb", "Protocols", ["NearshareBase", "NearshareCrypto", "NearshareHTTP"],
        resources: [.embedInCode("page.html")]),
    module("NearshareLocalSend", "Protocols", ["NearshareBase", "NearshareHTTP"]),
]

// The interfaces that the protocols need from the machine, and the adapters that provide them on Linux.
let platform: [Target] = [
    // Compiles for Darwin as well, where the shims do not.
    module(
        "NearshareInterfaces", "Platform",
        ["NearshareBase", .target(name: "CNearshareShims", condition: .when(platforms: [.linux]))]),
    module("NearshareSandbox", "Platform", ["NearshareInterfaces", "CNearshareShims"]),
    module("NearshareTCP", "Platform", ["NearshareBase", "NearshareInterfaces", "CNearshareShims"]),
    // OpenSSL is loaded at run time: built with libssl-dev's headers, not linked.
    module("NearshareTLS", "Platform", ["NearshareBase", "NearshareInterfaces", "CNearshareShims"]),
    module("NearshareDBus", "Platform", ["NearshareBase", "NearshareInterfaces", "CSystemd", "CNearshareShims"]),
    module(
        "NearshareBluetooth", "Platform",
        ["NearshareBase", "NearshareInterfaces", "NearshareDBus", "CNearshareBluetooth"]),
    module("NearshareNetworkManager", "Platform", ["NearshareBase", "NearshareInterfaces", "NearshareDBus"]),
    module(
        "NearshareDiscovery", "Platform",
        ["NearshareBase", "NearshareInterfaces", "NearshareDBus", "CAvahi", "CNearshareShims"]),
    module(
        "NearshareStorage", "Platform",
        ["NearshareBase", "NearshareCrypto", "NearshareInterfaces", "CMagic", "CNearshareShims", "CNearshareTOML", "CZlib"]),
    module("NearshareAudio", "Platform", ["NearshareBase", "NearshareInterfaces", "CNearshareAudio", "CNearshareShims"]),
    module(
        "NearshareDatabase", "Platform",
        ["NearshareBase", "NearshareInterfaces", "CNearshareShims", .product(name: "GRDB", package: "GRDB.swift")]),
]

let libraryFloor: [Target] = [
    module(
        "NearshareEngine", "Library",
        [
            "NearshareBase", "NearshareCrypto", "NearshareDirect", "NearshareMesh", "NearshareBundles", "NearshareHTTP",
            "NearshareWeb", "NearshareLocalSend", "NearshareInterfaces", logging,
        ]),
    module(
        "Nearshare", "Library",
        [
            "NearshareBase", "NearshareCrypto", "NearshareDirect", "NearshareBundles", "NearshareInterfaces",
            "NearshareEngine", "NearshareTCP", "NearshareTLS", "NearshareDiscovery", "NearshareNetworkManager",
            "NearshareStorage",
            .target(name: "NearshareBluetooth", condition: .when(traits: ["Bluetooth"])),
            .product(
                name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: .when(traits: ["ServiceLifecycle"])),
            logging,
        ]),
]

let app: [Target] = [
    module(
        "NearshareService", "App",
        [
            "Nearshare", "NearshareAudio", "NearshareBundles", "NearshareDBus", "NearshareDatabase", "NearshareDiscovery",
            "NearshareMesh", "CNearshareShims", logging,
        ]),
    module("NearshareTerminal", "App", ["NearshareBase", "NearshareInterfaces", "CNearshareShims"]),
    module(
        "NearshareCLI", "App",
        [
            "Nearshare", "NearshareBundles", "NearshareService", "NearshareTerminal", "NearshareAudio", "NearshareSandbox",
            "CNearshareShims", argumentParser, logging,
        ]),
    .executableTarget(
        name: "nearshare", dependencies: ["NearshareCLI", "CNearshareICU"], path: "Sources/App/nearshare", swiftSettings: strict
    ),
]

let quickSupport: [Target] = [
    support(
        "NearshareTesting", ["NearshareBase", "NearshareCrypto", "NearshareDirect", "NearshareMesh", "NearshareInterfaces"]),
    support(
        "DecoderProperties",
        [
            "NearshareAudio", "NearshareBase", "NearshareBundles", "NearshareCrypto", "NearshareDirect", "NearshareDiscovery",
            "NearshareEngine", "NearshareHTTP", "NearshareInterfaces", "NearshareLocalSend", "NearshareMesh",
            "NearshareStorage",
            "NearshareTesting", "NearshareWeb",
        ]),
    support(
        "BundleSimulation", ["NearshareBase", "NearshareBundles", "NearshareCrypto", "NearshareTesting"]),
]
let slowSupport: [Target] = [
    support("NearshareTestTraits", ["NearshareTesting"]),
    program(
        "bundle-store-probe", "Tests/Support/bundle-store-probe", ["NearshareBase", "NearshareDatabase", "NearshareInterfaces"]),
    program(
        "discovery-probe", "Tests/Support/discovery-probe", ["NearshareBase", "NearshareDiscovery", "NearshareInterfaces"]),
    program("radio-probe", "Tests/Support/radio-probe", ["NearshareBase", "NearshareBluetooth", "NearshareInterfaces"]),
    program("sandbox-probe", "Tests/Support/sandbox-probe", ["NearshareBase", "NearshareInterfaces", "NearshareSandbox"]),
    program("session-probe", "Tests/Support/session-probe", ["Nearshare"]),
    program("bundle-simulation", "Tests/Simulation", ["BundleSimulation"], exclude: ["draw.py", "spreading.py"]),
    program("frames-benchmark", "Tests/Benchmarks/frames", ["NearshareBase", "NearshareMesh", "NearshareTesting"]),
    .systemLibrary(name: "CMalloc", path: "Tests/Benchmarks/CMalloc"),
    program(
        "mesh-benchmark", "Tests/Benchmarks/mesh",
        ["CMalloc", "NearshareBase", "NearshareCrypto", "NearshareMesh", "NearshareTesting"]),
]

/// The platform modules that the decoders' properties and the quick tests need.
let quickPlatform = [
    "NearshareInterfaces", "NearshareDBus", "NearshareDiscovery", "NearshareNetworkManager", "NearshareAudio",
    "NearshareStorage",
]

// From fast to slow. Those of the first group need neither SQLite nor the command line, see `make quick`.
let quickTests: [Target] = [
    tests("Base", ["NearshareBase", "NearshareTesting"]),
    tests("Crypto", ["NearshareBase", "NearshareCrypto", "NearshareTesting"]),
    tests("Direct", ["NearshareBase", "NearshareCrypto", "NearshareDirect", "NearshareTesting"]),
    tests("Mesh", ["NearshareBase", "NearshareCrypto", "NearshareMesh", "NearshareTesting"]),
    tests(
        "Bundle",
        ["BundleSimulation", "NearshareBase", "NearshareBundles", "NearshareCrypto", "NearshareTesting"]),
    tests("Web", ["NearshareBase", "NearshareCrypto", "NearshareHTTP", "NearshareWeb"]),
    tests("LocalSend", ["NearshareBase", "NearshareHTTP", "NearshareLocalSend"]),
    tests("NetworkManager", ["NearshareBase", "NearshareInterfaces", "NearshareDBus", "NearshareNetworkManager"]),
    tests("Decoder", ["DecoderProperties", "NearshareBase", "NearshareTesting"]),
    tests(
        "Simulation",
        [
            "NearshareBase", "NearshareBundles", "NearshareCrypto", "NearshareDirect", "NearshareEngine", "NearshareInterfaces",
            "NearshareMesh", "NearshareTesting", logging,
        ]),
]
let slowTests: [Target] = [
    tests(
        "Storage",
        [
            "NearshareBase", "NearshareCrypto", "NearshareDirect", "NearshareEngine", "NearshareInterfaces",
            "NearshareStorage", "NearshareTesting",
        ]),
    tests("TLS", ["NearshareBase", "NearshareInterfaces", "NearshareTLS", "NearshareTestTraits", "NearshareTesting"]),
    tests("Sandbox", ["NearshareTesting", "sandbox-probe"]),
    tests("Database", ["NearshareBase", "NearshareDatabase", "NearshareInterfaces", "NearshareTesting", "bundle-store-probe"]),
    tests("DBus", ["NearshareBase", "NearshareDBus", "NearshareInterfaces"]),
    tests("Bluetooth", ["NearshareBase", "NearshareBluetooth", "NearshareDBus", "NearshareInterfaces", "NearshareTesting"]),
    tests(
        "Discovery",
        ["CNearshareShims", "NearshareBase", "NearshareDiscovery", "NearshareInterfaces", "discovery-probe"]),
    tests("Audio", ["NearshareBase", "NearshareInterfaces", "NearshareAudio", "NearshareTesting"]),
    tests(
        "Engine",
        [
            "Nearshare", "NearshareBase", "NearshareBundles", "NearshareCrypto", "NearshareDatabase", "NearshareDirect",
            "NearshareEngine", "NearshareHTTP", "NearshareInterfaces", "NearshareLocalSend", "NearshareMesh", "NearshareTCP",
            "NearshareTestTraits", "NearshareTesting", "NearshareWeb", logging,
        ]),
    tests(
        "Service",
        [
            "Nearshare", "NearshareBase", "NearshareBundles", "NearshareCrypto", "NearshareDBus", "NearshareDirect",
            "NearshareDiscovery", "NearshareEngine", "NearshareInterfaces", "NearshareMesh", "NearshareService",
            "NearshareStorage", "NearshareTestTraits", "NearshareTesting", logging,
        ]),
    tests("Terminal", ["NearshareBase", "NearshareInterfaces", "NearshareTerminal", "NearshareTesting"]),
    tests(
        "CLI",
        [
            "Nearshare", "NearshareAudio", "NearshareBase", "NearshareBundles", "NearshareCLI", "NearshareDirect",
            "NearshareEngine", "NearshareInterfaces", "NearshareMesh", "NearshareService", "NearshareTerminal",
            "NearshareTesting", argumentParser,
            logging,
        ]),
]

/// `NEARSHARE_TESTS` chooses the test targets: all of them without it; "quick" for those of values and state machines, and then
/// nothing is built that they do not need; or names such as "Mesh,Base".
let choice = Context.environment["NEARSHARE_TESTS"] ?? ""
let isQuick = choice == "quick"
let chosenTests: [Target] =
    switch choice {
    case "": quickTests + slowTests
    case "quick": quickTests
    default:
        (quickTests + slowTests).filter { target in choice.split(separator: ",").contains { "\($0)Tests" == target.name } }
    }
let quickTargets =
    cLibraries + core + protocols + platform.filter { quickPlatform.contains($0.name) }
    + libraryFloor.filter { $0.name == "NearshareEngine" } + quickSupport + quickTests
let allTargets = cLibraries + core + protocols + platform + libraryFloor + app + quickSupport + slowSupport + chosenTests

let package = Package(
    name: "nearshare",
    // Mutex and typed throws need these. The adapters of the layer Platform are for Linux.
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: (isQuick
        ? []
        : [
            .library(name: "Nearshare", targets: ["Nearshare"]),
            .executable(name: "nearshare", targets: ["nearshare"]),
        ]) + fuzzing,
    traits: [
        .trait(name: "Bluetooth", description: "Finds and reaches peers over Bluetooth; needs libbluetooth-dev to build."),
        .trait(name: "Foundation", description: "Takes Data and URL, and mirrors transfers in Progress."),
        .trait(name: "ServiceLifecycle", description: "Makes a node a service of swift-service-lifecycle."),
        .default(enabledTraits: ["Bluetooth"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
        .package(url: "https://github.com/apple/swift-crypto", exact: "4.5.2"),
        .package(url: "https://github.com/apple/swift-log", exact: "1.16.2"),
        .package(url: "https://github.com/groue/GRDB.swift", exact: "7.10.0"),
        // Fetched for the trait of its name only.
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", exact: "2.13.0"),
    ],
    // Permitted imports are listed in .ci/imports.txt and checked: SwiftPM does not notice every undeclared one.
    targets: isQuick ? quickTargets : allTargets,
    cxxLanguageStandard: .cxx17
)
