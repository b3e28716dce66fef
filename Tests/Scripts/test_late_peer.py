"""Commands that end while their node still calls a peer at the address at which it was reached last."""

import json
import socket
import threading
import time
import unittest

from harness import Story


class CalledPeer:
    """A listener that answers the preamble of each mesh link a second later, and then only reads."""

    def __init__(self):
        self.called = threading.Event()
        self.server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                link, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link):
        with link:
            try:
                preamble = link.recv(8)
                self.called.set()
                time.sleep(1)
                # The same range of versions: the chosen one.
                link.sendall(preamble)
                while link.recv(4096):
                    pass
            except OSError:
                pass

    def close(self):
        self.server.close()


class LatePeerStory(Story):
    """anna has ben's keys, and has reached him before; he is not announced."""

    def called(self):
        keys = self.place / "ben.keys"
        self.assertCode(0, self.ben.run("keys", "export", "--output", keys))
        self.assertCode(0, self.anna.run("keys", "import", keys, "--for", "ben"))
        identity = json.loads(self.ben.run("identity", "--json").stdout.splitlines()[0])["id"]
        peer = CalledPeer()
        self.addCleanup(peer.close)
        entry = {"address": peer.address, "id": identity, "isLocalSend": False, "name": "ben"}
        entry["lastSeen"] = {"milliseconds": int(time.time() * 1000)}
        (self.place / "anna/state/nearshare/recent-peers.json").write_text(json.dumps({"entries": [entry]}))
        return peer

    def assert_ends(self, peer, *arguments, input=b""):
        # A command may end before its node has called the peer: then once more.
        for _ in range(10):
            said = self.anna.run(*arguments, "--interface", "lo", "--adapter", "none", input=input, timeout=15)
            self.assertCode(0, said)
            if peer.called.is_set():
                return
        self.fail("ben was not called")

    def test_chat_without_lines(self):
        self.assert_ends(self.called(), "chat", "ben")

    def test_line(self):
        self.assert_ends(self.called(), "chat", "ben", "--wait", "none", input=b"hello\n")

    def test_message(self):
        self.assert_ends(self.called(), "message", "hello", "--to", "ben", "--wait", "none")


if __name__ == "__main__":
    unittest.main()
