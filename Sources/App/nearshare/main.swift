// Linked, not called: docs/decisions/without-locale-data.md.
import CNearshareICU
import NearshareCLI

// Before the first `await`, so that the process has one thread.
await NearshareCommand.run(NearshareCommand.prepare())
