internal import ArgumentParser
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// The form of a command's output, which is chosen here alone.
struct OutputOptions: ParsableArguments {
    @Flag(help: "Write one JSON event per line to standard output.")
    var json = false

    /// The reporter of results.
    var reporter: any CommandReporter { Self.makeReporter(json: json) }

    /// - Parameter isQuiet: whether text output has errors only.
    static func makeReporter(json: Bool, isQuiet: Bool = false) -> any CommandReporter {
        if json { return JSONReporter() }
        return isQuiet ? SilentReporter() : TextReporter()
    }

    /// Starts the output of a command that serves peers, whether or not the terminal, or the program, reads what is written.
    /// - Returns: the reporter, and the limiter of what unknown peers make it write.
    func startServing(on machine: LocalMachine) -> (reporter: any CommandReporter, unknownPeers: UnknownPeerLimiter) {
        DescriptorOutput.startQueueing(omittedEvents: json ? JSONEvents.omitted : nil)
        let limiter = UnknownPeerLimiter(json ? .bytes : .rows, of: machine)
        if json { return (JSONReporter(showsProgress: true, unknownPeers: limiter), limiter) }
        return (TextReporter(unknownPeers: limiter), limiter)
    }
}
