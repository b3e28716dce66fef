// swift-tools-version: 6.2
import PackageDescription

// A package of its own, as a program that uses the library would have it.
let package = Package(
    name: "nearshare-examples",
    // They stay on the network: without the trait Bluetooth, which is on by default, nothing of it is in them.
    dependencies: [.package(name: "nearshare", path: "..", traits: [])],
    targets: ["FileDrop", "GroupChat", "SensorStream"].map { name in
        .executableTarget(name: name, dependencies: [.product(name: "Nearshare", package: "nearshare")])
    }
)
