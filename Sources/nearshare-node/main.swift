import NearshareCLI
import NearshareDatabase

await NearshareCommand.start { directory in
    (try SQLiteCarriedStore(directory: directory), try SQLiteConversationStore(directory: directory))
}
