// swift-tools-version: 6.2
import PackageDescription

// A package of its own, as a program that uses the library would have it.
let package = Package(
    name: "nearshare-examples",
    dependencies: [.package(name: "nearshare", path: "..")],
    targets: ["FileDrop", "GameLoop", "GroupChat", "Ported", "SensorStream", "TugOfWar"].map { name in
        .executableTarget(name: name, dependencies: [.product(name: "Nearshare", package: "nearshare")])
    }
)
