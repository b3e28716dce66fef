// A process that confines itself as a node does, or starts a helper process, and then tries what a compromised one would. Each
// attempt is a line on standard output: its name, a tab, and "ok" or the number of the error.
//
//     sandbox-probe node HOME        HOME has Inbox, state and .bashrc
//     sandbox-probe helper HOME
//     sandbox-probe program HOME

import NearshareInterfaces

let home = CommandLine.arguments.dropFirst(2).first ?? "/nonexistent"
switch CommandLine.arguments.dropFirst().first {
case "node":
    Probe.confineAsNode(home: home)
    Probe.report("main", home: home)
    try await BlockingThread.run { [home] in Probe.report("thread", home: home) }
case "program": Probe.usePrograms(home: home)
default: Probe.useWorkers(home: home)
}
