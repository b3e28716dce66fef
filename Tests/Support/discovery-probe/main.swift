// One discovery engine at work, for tests that start it inside a network namespace. Commands come in on standard input, a line
// each; what happens goes out on standard output, a line each, fields between tabs.
//
//     discovery-probe automatic|embedded|daemon
//
//     advertise ID INTERFACE|- PORT .INSTANCE-HEX [TXT-HEX…]      update ID [TXT-HEX…]      stop ID
//     browse ID INTERFACE|-      unbrowse ID      diagnose PORT      filter PORT      quit

await Probe.main()
