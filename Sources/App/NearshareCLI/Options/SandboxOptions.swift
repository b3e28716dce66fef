internal import ArgumentParser

/// Whether the process drops privileges (Landlock, seccomp); option of the commands whose node accepts connections.
struct SandboxOptions: ParsableArguments {
    @Flag(help: "Keep the rights to write to all of your files and to start programs.")
    var noSandbox = false
}
