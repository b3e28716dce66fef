internal import Glibc
internal import Nearshare

/// The build of this program, the libraries that it finds on this machine, and the features that follow from both: the text of
/// `nearshare --version --verbose`, for reports of problems.
package struct BuildDescription: Sendable {
    /// A shared library that the program uses.
    package struct Library: Sendable, Hashable {
        package var name: String
        /// The file that the dynamic linker looks for.
        package var file: String
        /// A function of the library without parameters that returns its version as text; nil where there is none.
        package var versionFunction: String?
        /// The feature that is missing without the library; nil for a library without which the program does not start.
        package var feature: String?
        /// The Debian package.
        package var package: String

        package init(
            _ name: String, file: String, version versionFunction: String? = nil, for feature: String? = nil, package: String
        ) {
            (self.name, self.file, self.versionFunction) = (name, file, versionFunction)
            (self.feature, self.package) = (feature, package)
        }
    }

    /// The libraries with the files that `CNearshareShims` and `CNearshareAudio` load at run time, after those that are linked.
    package static let libraries = [
        Library("sodium", file: "libsodium.so.23", version: "sodium_version_string", package: "libsodium23"),
        Library("sqlite", file: "libsqlite3.so.0", version: "sqlite3_libversion", package: "libsqlite3-0"),
        Library("zlib", file: "libz.so.1", version: "zlibVersion", package: "zlib1g"),
        Library("magic", file: "libmagic.so.1", package: "libmagic1"),
        Library("avahi-core", file: "libavahi-core.so.7", for: "discovery without a daemon", package: "libavahi-core7"),
        Library("systemd", file: "libsystemd.so.0", for: "avahi-daemon, Bluetooth", package: "libsystemd0"),
        Library("seccomp", file: "libseccomp.so.2", for: "refusing system calls", package: "libseccomp2"),
        Library(
            "qrencode", file: "libqrencode.so.4", version: "QRcode_APIVersionString", for: "QR codes", package: "libqrencode4"),
        Library("ssl", file: "libssl.so.3", for: "LocalSend", package: "libssl3"),
        Library(
            "opusenc", file: "libopusenc.so.0", version: "ope_get_version_string", for: "recording voice notes",
            package: "libopusenc0"),
        Library("opusfile", file: "libopusfile.so.0", for: "playing voice notes", package: "libopusfile0"),
        Library(
            "sndfile", file: "libsndfile.so.1", version: "sf_version_string", for: "sound files as notes",
            package: "libsndfile1"),
        Library("faad", file: "libfaad.so.2", for: "notes of phones (M4A)", package: "libfaad2"),
        Library("pulse", file: "libpulse.so.0", version: "pa_get_library_version", for: "sound", package: "libpulse0"),
        Library(
            "asound", file: "libasound.so.2", version: "snd_asoundlib_version", for: "sound without a server",
            package: "libasound2"),
    ]

    package init() {}

    /// - Parameter libraries: replaced by tests.
    /// - Returns: the names and values of a table.
    package func rows(libraries: [Library] = Self.libraries) -> [[String]] {
        [["build", build]] + libraries.map { [$0.name, Self.state(of: $0)] }
            + [["Bluetooth", LocalMachine.hasBluetooth ? "built in" : "left out of this build"]]
    }

    private var build: String {
        #if DEBUG
            let configuration = "debug"
        #else
            let configuration = "release"
        #endif
        #if arch(x86_64)
            let architecture = "x86_64"
        #elseif arch(arm64)
            let architecture = "aarch64"
        #else
            let architecture = "unknown architecture"
        #endif
        return "\(configuration), \(architecture)" + (NearshareVersion.commit.map { ", commit \($0)" } ?? "")
    }

    private static func state(of library: Library) -> String {
        guard let handle = dlopen(library.file, RTLD_LAZY | RTLD_LOCAL) else {
            let feature = library.feature.map { "; needed for \($0)" } ?? ""
            return "missing\(feature) (Debian: \(library.package))"
        }
        defer { dlclose(handle) }
        guard let name = library.versionFunction, let symbol = dlsym(handle, name) else { return "found" }
        typealias VersionFunction = @convention(c) () -> UnsafePointer<CChar>?
        // Some libraries put their name in front of the number.
        let text = unsafeBitCast(symbol, to: VersionFunction.self)().map { String(cString: $0) } ?? "found"
        return text.split { " -".contains($0) }.first { $0.first?.isNumber == true }.map(String.init) ?? text
    }
}
