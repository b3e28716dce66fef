// swift-tools-version: 6.2
import PackageDescription

// A separate package, so that only the benchmark depends on the libraries it compares with.
let package = Package(
    name: "session-benchmark",
    dependencies: [
        .package(name: "nearshare", path: "../../.."),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
    ],
    targets: [
        .systemLibrary(name: "CZeroMQ", pkgConfig: "libzmq", providers: [.apt(["libzmq3-dev"])]),
        .systemLibrary(name: "CMosquitto", pkgConfig: "libmosquitto", providers: [.apt(["libmosquitto-dev"])]),
        .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
        .executableTarget(
            name: "session-benchmark",
            dependencies: [
                "CMosquitto", "COpenSSL", "CZeroMQ",
                .product(name: "Nearshare", package: "nearshare"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ],
            swiftSettings: [.swiftLanguageMode(.v6)]),
    ]
)
