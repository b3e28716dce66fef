"""Messages with the real executable: nodes that carry them for each other, and commands that go through a node."""
import json
import subprocess
import unittest

from harness import INTERRUPT, MachinesInARow, Peer, Story, has_namespaces


class Node:
    """`mesh run` of one person, with its events."""

    def __init__(self, peer, name, *arguments):
        self.running = peer.start(
            "mesh", "run", "--json", "--name", name, "--accept", "all", "--inbox", peer.inbox, "--adapter", "none", *arguments)
        self.ready = self.running.wait_for("ready")

    def text(self, patience=60):
        """The next message that comes, as its text."""
        return self.running.wait_for("message", patience=patience)["content"]["text"]

    def end(self):
        self.running.signal(INTERRUPT)
        return self.running.end()

    def kill(self):
        self.running.process.kill()
        self.running.process.wait()


@unittest.skipUnless(has_namespaces(), "network namespaces need root and iproute2")
class CarriedStory(Story):
    """Anna and Ben share no network; Cleo, between them, shares one with each."""

    def people(self):
        self.network = MachinesInARow(3)
        self.network.__enter__()
        self.addCleanup(self.network.__exit__)
        self.anna = Peer(self.place / "anna", self.network.names[0])
        self.cleo = Peer(self.place / "cleo", self.network.names[1])
        self.ben = Peer(self.place / "ben", self.network.names[2])
        self.addCleanup(self.cleo.stop_all)

    def exchange_keys(self, giver, taker, name):
        keys = self.place / f"{name}.keys"
        self.assertCode(0, giver.run("keys", "export", "--output", keys))
        self.assertCode(0, taker.run("keys", "import", keys, "--for", name))

    def test_never_all_up_at_once(self):
        self.exchange_keys(self.ben, self.anna, "ben")
        self.exchange_keys(self.anna, self.ben, "anna")
        cleo = Node(self.cleo, "cleo")
        sent = self.anna.run("message", "see you at 8", "--to", "ben", "--mode", "mesh", "--wait", "sent", "--timeout", "30",
                             "--adapter", "none")
        self.assertCode(0, sent)
        cleo.kill()
        cleo = Node(self.cleo, "cleo")
        ben = Node(self.ben, "ben")
        message = ben.running.wait_for("message", patience=60)
        self.assertEqual({"text": "see you at 8"}, message["content"])
        self.assertEqual(sent.stdout.decode().strip(), message["id"])
        self.assertEqual("anna", message["name"])
        self.assertFalse(message["broadcast"])


if __name__ == "__main__":
    unittest.main()
