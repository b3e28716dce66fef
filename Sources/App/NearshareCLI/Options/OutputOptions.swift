internal import ArgumentParser

/// The form of a command's results.
struct OutputOptions: ParsableArguments {
    @Flag(help: "Write one JSON event per line to standard output.")
    var json = false
}
