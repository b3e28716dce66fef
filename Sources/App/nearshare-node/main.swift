import NearshareCLI
import NearshareDatabase

await NearshareCommand.start { directory in
    (try SQLiteBundleStore(directory: directory), try SQLiteConversationStore(directory: directory))
}
