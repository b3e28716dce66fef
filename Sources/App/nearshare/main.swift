import NearshareCLI

await NearshareCommand.start()
