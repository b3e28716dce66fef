// A member of a session, as a program would be one, for tests that start several inside network namespaces. Commands come in on
// standard input, a line each; what happens goes out on standard output as JSON, a line each. Invitations are accepted.
//
//     session-probe INBOX [--discovery] [--application IDENTIFIER]
//
//     begin      invite HOST PORT      send PATH ID      stream NAME MEBIBYTES ID      message TEXT
//     memory     leave
//
// A stream called slow-N is read at N mebibytes a second, other streams without a limit.

await Probe.main()
