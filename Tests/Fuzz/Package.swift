// swift-tools-version: 6.2
import PackageDescription

// A package of its own, as its targets only build with `--sanitize=fuzzer`, which brings the main function along. `run` builds
// it.
let package = Package(
    name: "nearshare-fuzz",
    dependencies: [.package(name: "nearshare", path: "../..")],
    targets: [
        .executableTarget(
            name: "fuzz", dependencies: [.product(name: "DecoderProperties", package: "nearshare")],
            swiftSettings: [
                .swiftLanguageMode(.v6), .enableUpcomingFeature("ExistentialAny"),
                .enableUpcomingFeature("InternalImportsByDefault"), .unsafeFlags(["-parse-as-library"]),
            ])
    ]
)
