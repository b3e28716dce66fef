// swift-tools-version: 6.2
import PackageDescription

// A server on the packages that servers use, with two traits of nearshare that are off by default, and without Bluetooth.
let package = Package(
    name: "photo-service",
    dependencies: [
        .package(name: "nearshare", path: "../..", traits: ["Foundation", "ServiceLifecycle"]),
        .package(url: "https://github.com/apple/swift-log", from: "1.14.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        .executableTarget(
            name: "PhotoService",
            dependencies: [
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Nearshare", package: "nearshare"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ])
    ]
)
