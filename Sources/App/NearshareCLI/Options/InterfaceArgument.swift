internal import ArgumentParser
internal import Glibc
internal import Nearshare

/// The value of an option `--interface`.
enum InterfaceArgument {
    static func existing(_ name: String) throws -> String {
        guard if_nametoindex(name) != 0 else { throw ValidationError(MissingInterface.text(for: name)) }
        return name
    }
}
