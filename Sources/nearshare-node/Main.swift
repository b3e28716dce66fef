import NearshareCLI
import NearshareDatabase

@main
struct Main {
    static func main() async {
        await NearshareCommand.start(stores: { directory in
            (try SQLiteCarriedStore(directory: directory), try SQLiteConversationStore(directory: directory))
        })
    }
}
