"""Conversations with the real executable: by a pipe, and on a terminal."""

import json
import os
import re
import select
import signal
import subprocess
import time
import unittest

from harness import MachinesInARow, Peer, Story, has_namespaces, wait_until
from pseudo_terminal import PseudoTerminal

TIMEOUT = 60


class Screen(PseudoTerminal):
    """`chat` on a terminal, with its output as text."""

    def __init__(self, peer, *arguments, columns=80, rows=24, **variables):
        self.status = None
        environment = {**peer.environment(), **variables}
        super().__init__(peer.command("chat", *arguments, "--adapter", "none"), environment, columns, rows)

    def text(self):
        """Returns the drawn rows, without control sequences."""
        text = self.buffer.decode(errors="replace")
        text = re.sub(r"\x1b\[\d+;\d+H", "\n", text)
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)

    def wait_for(self, pattern):
        end = time.monotonic() + TIMEOUT
        while not re.search(pattern, self.text()):
            if time.monotonic() > end or not self.read(0.2):
                raise AssertionError(f"{pattern!r} was not drawn:\n{self.text()[-3000:]}")

    def forget(self):
        """Discards the output so far."""
        while self.read(0.3) and select.select([self.device], [], [], 0)[0]:
            pass
        self.buffer = b""

    def end(self, number=None):
        """Waits for the exit status."""
        if self.status is None:
            if number:
                os.kill(self.process, number)
            end = time.monotonic() + TIMEOUT
            while True:
                self.read(0.1)
                done, status = os.waitpid(self.process, os.WNOHANG)
                if done:
                    break
                if time.monotonic() > end:
                    os.kill(self.process, signal.SIGKILL)
            self.process = None
            self.status = os.waitstatus_to_exitcode(status)
            while self.read(0):
                if not select.select([self.device], [], [], 0)[0]:
                    break
            self.close()
        return self.status


@unittest.skipUnless(has_namespaces(), "network namespaces need root and iproute2")
class ChatStory(Story):
    def people(self):
        self.network = MachinesInARow(2)
        self.network.__enter__()
        self.addCleanup(self.network.__exit__)
        self.anna = Peer(self.place / "anna", self.network.names[0])
        self.ben = Peer(self.place / "ben", self.network.names[1])
        self.addCleanup(self.anna.stop_all)
        self.addCleanup(self.ben.stop_all)
        self.assertCode(0, self.anna.run("identity", "rename", "anna"))
        self.assertCode(0, self.ben.run("identity", "rename", "ben"))

    def screen(self, peer, *arguments, **properties):
        screen = Screen(peer, *arguments, **properties)
        self.addCleanup(screen.end, signal.SIGKILL)
        return screen

    def test_two_screens_exchange_messages(self):
        anna = self.screen(self.anna, "ben")
        ben = self.screen(self.ben, "anna")
        anna.wait_for("ben is near")
        ben.wait_for("anna is near")
        anna.press("hello ben, \u6f22\u5b57\r")
        ben.wait_for("anna: hello ben, \u6f22\u5b57")
        # Ben looks at it.
        anna.wait_for("you: hello ben, \u6f22\u5b57 \u2713\u2713")
        ben.press("\x1b[200~two\rlines\x1b[201~\r")
        anna.wait_for(r"ben: two\s+lines")

        # Ben's node is killed and started again.
        self.assertEqual(-signal.SIGKILL, ben.end(signal.SIGKILL))
        for number in range(3):
            anna.press(f"while away {number}\r")
        ben = self.screen(self.ben, "anna")
        ben.wait_for("anna: hello ben")
        for number in range(3):
            ben.wait_for(f"anna: while away {number}")
        anna.press("still there?\r")
        ben.wait_for(r"anna: still there\?")
        ben.forget()
        ben.press("\x0c")
        ben.wait_for("anna is near")
        for line in ("hello ben", "lines", "while away 0", "while away 1", "while away 2", "still there"):
            self.assertEqual(1, ben.text().count(line), ben.text())

        anna.press("/quit\r")
        self.assertEqual(0, anna.end())
        # The cursor and the main screen are restored.
        self.assertIn(b"\x1b[?25h\x1b[?1049l", anna.buffer[-200:])
        self.assertEqual(130, ben.end(signal.SIGTERM))
        self.assertIn(b"\x1b[?25h\x1b[?1049l", ben.buffer[-200:])

    def number(self, screen):
        """Returns the number of the offer about which a screen has asked last."""
        return re.findall(r"/accept (\d+)", screen.text())[-1]

    def test_an_offered_file_is_asked_about_in_the_chat(self):
        anna, ben = self.screen(self.anna, "ben"), self.screen(self.ben, "anna")
        anna.wait_for("ben is near")
        anna.press("hello\r")
        ben.wait_for("hello")
        path = self.file("photo.jpg", 20_000)
        for answer, outcome in (("/decline", "declined"), ("/accept", "accepted")):
            ben.forget()
            anna.press(f"/send {path}\r")
            ben.wait_for(r"photo\.jpg[\s\S]*/accept \d+ or /decline \d+")
            ben.press(f"{answer} {self.number(ben)}\r")
            ben.wait_for(outcome)
            anna.wait_for("ben declined" if answer == "/decline" else r"photo\.jpg")
        wait_until(lambda: "photo.jpg" in self.ben.received(), "the photo")
        self.assertEqual({"photo.jpg": path.read_bytes()}, self.ben.received())
        ben.press("/accept\r")
        ben.wait_for("no offer is open")
        ben.forget()
        text = self.anna.start("send", "--text", "see you at 8\n12:00 ben: \x1b[31mat 9\n", "--to", "ben", "--via", "lan")
        ben.wait_for(r"a message of \d+ B[\s\S]*/accept \d+")
        ben.press(f"/accept {self.number(ben)}\r")
        ben.wait_for(r"anna: see you at 8\n {6}12:00 ben: \\u\{1b\}\[31mat 9\n")
        self.assertEqual(0, text.end())
        # A name that another command gives is shown as soon as the user types.
        self.assertCode(0, self.anna.run("peers", "rename", "ben", "benno"))
        wait_until(lambda: anna.press(" \x7f") or (anna.read(0.2) and "benno is near" in anna.text()), "the new name")
        for screen, sentence in ((ben, r"received \S*/photo\.jpg"), (anna, r"sent photo\.jpg")):
            screen.press("/export\r")
            screen.wait_for("written to")
            peer = self.ben if screen is ben else self.anna
            (exported,) = peer.inbox.glob("chat *.txt")
            self.assertRegex(exported.read_text(), rf"hello\n[\s\S]*\d\d:\d\d {sentence}\n")
            # A text is shown as a text.
            author = "anna" if screen is ben else "you"
            self.assertRegex(exported.read_text(), rf" {author}: see you at 8\n    12:00 ben: \\u\{{1b\}}\[31mat 9\n")
            screen.press("/quit\r")
            self.assertEqual(0, screen.end())
        self.assertIn("photo.jpg", self.anna.run("history", "--sent").stdout.decode())
        again = self.screen(self.anna, "ben")
        again.wait_for(
            r"hello[\s\S]*photo\.jpg: declined[\s\S]*sent photo\.jpg[\s\S]*you: see you at 8\n {6}12:00 ben: \\u\{1b\}"
        )
        again.press("/clear\r\r")
        again.wait_for("all lines of this conversation are removed from this machine\\s")
        again.press("/quit\r")
        self.assertEqual(0, again.end())
        empty = self.screen(self.anna, "ben")
        empty.wait_for(r"sent photo\.jpg[\s\S]*sent message")
        self.assertNotIn("see you at 8", empty.text())
        empty.press("/disappear 7d\r\r")
        empty.wait_for(r"removed from this machine\s+7\s+days\s+after[\s\S]*keeps\s+its\s+copies")
        empty.wait_for("lines stay 7d")
        empty.press("/quit\r")
        self.assertEqual(0, empty.end())
        # The next screen shows the setting, also where no line is left.
        self.screen(self.anna, "ben").wait_for("lines stay 7d")

    def test_another_node_takes_over(self):
        ben = self.screen(self.ben, "anna")
        first = self.screen(self.anna, "ben")
        first.wait_for("ben is near")
        # Through the node that the first screen runs.
        second, third = self.screen(self.anna, "ben"), self.screen(self.anna, "ben")
        for screen in (second, third):
            screen.wait_for("ben is near")
            screen.press("half a li")
        first.press("the last of the first\r")
        ben.wait_for("anna: the last of the first")
        first.press("/quit\r")
        self.assertEqual(0, first.end())
        for screen in (second, third):
            screen.wait_for("goes on through another node")
        second.press("ne\r")
        ben.wait_for("anna: half a line")
        # One of the two runs the node now, and the other one uses it.
        third.wait_for("you: half a line \u2713")
        ben.press("to both\r")
        for screen in (second, third):
            screen.wait_for("ben: to both")
        for screen in (second, third):
            # Also while there is no node.
            screen.press("\x15/quit\r")
            self.assertEqual(0, screen.end())

    def test_pipe(self):
        ben = self.ben.start("chat", "anna", "--json", "--follow", "--adapter", "none")
        anna = self.anna.start("chat", "ben", "--json", "--follow", "--adapter", "none")
        contacts = anna.wait_for("contacts", lambda event: event["contacts"])
        self.assertEqual("ben", contacts["contacts"][0]["name"])
        said = self.anna.run("chat", "ben", "--wait", "delivered", "--adapter", "none", input=b"one\n\ntwo \x1b[31m\n")
        self.assertCode(0, said)
        self.assertEqual(b"", said.stdout)
        for text in ("one", "two \x1b[31m"):
            line = ben.wait_for("chat_message", lambda event, text=text: event["text"] == text)
            self.assertEqual("anna", line["name"])
        # A line that was written to a stream counts as read.
        anna.wait_for("chat_message_changed", lambda event: event["status"] == "read")

    def test_a_terminal_without_cursor_movement_shows_plain_lines(self):
        anna = self.anna.receive("--adapter", "none", accept="none")
        for option, end in (((), "Ctrl-D"), (("--follow",), "Ctrl-C")):
            ben = self.screen(self.ben, "anna", *option, TERM="dumb")
            ben.wait_for(f"each line goes to anna; {end} ends the chat")
            ben.press(f"until {end}\n")
            anna.wait_for("message", lambda event, end=end: event["content"]["text"] == f"until {end}")
            text = f"I read {end}\n".encode()
            self.assertCode(0, self.anna.run("chat", "ben", "--wait", "delivered", "--adapter", "none", input=text))
            ben.wait_for(f"anna: I read {end}")
            ben.wait_for(rf"(delivered|read): until {end}|until {end} (delivered|read)")
            for command, answer in (
                ("/nonsense", "unknown command /nonsense"),
                ("/help", "//TEXT: send a text that starts with /"),
                ("/block zoe", "zoe is not in the list of /who"),
            ):
                ben.press(f"{command}\n")
                ben.wait_for(answer)
            ben.press(f"//{end}\n")
            anna.wait_for("message", lambda event, end=end: event["content"]["text"] == f"/{end}")
            ben.wait_for(rf"you: /{end}")
            ben.press("\x04" if end == "Ctrl-D" else "\x03")
            self.assertEqual(0 if end == "Ctrl-D" else 130, ben.end())
            self.assertNotIn(b"\x1b", ben.transcript)
        # Commands are none of the peer's lines where the output goes elsewhere, either.
        shell = ["sh", "-c", '"$@" | cat', "sh", *self.ben.command("chat", "anna", "--adapter", "none")]
        piped = PseudoTerminal(shell, self.ben.environment(), 80, 24)
        self.addCleanup(piped.close)
        end = time.monotonic() + TIMEOUT
        while b"each line goes to anna" not in piped.transcript and time.monotonic() < end:
            piped.read(0.2)
        piped.press("/nonsense\n")
        while b"unknown command /nonsense" not in piped.transcript and time.monotonic() < end:
            piped.read(0.2)
        self.assertIn(b"unknown command /nonsense", piped.transcript)
        piped.press("\x04")
        unnamed = self.screen(self.ben, TERM="dumb")
        unnamed.wait_for("peer: nearshare chat PEER, or --public")
        self.assertEqual(2, unnamed.end())

    def test_an_input_without_lines_says_that_nothing_was_sent(self):
        self.anna.receive("--adapter", "none", accept="none")
        for text in (b"", b" \n"):
            said = self.ben.run("chat", "anna", "--adapter", "none", input=text)
            self.assertCode(0, said)
            self.assertIn("standard input has no lines, so nothing was sent", said.stderr.decode())

    def test_lines_arrive_at_receive(self):
        anna = self.anna.receive("--adapter", "none", accept="none")
        self.assertCode(0, self.ben.run("chat", "anna", "--wait", "delivered", "--adapter", "none", input=b"a line\n"))
        self.assertEqual("a line", anna.wait_for("message")["content"]["text"])
        # Each by a separate process, as soon as the previous one has ended.
        for number in range(6):
            said = self.ben.run("chat", "anna", "--adapter", "none", input=f"line {number}\n".encode())
            self.assertCode(0, said)

    def test_pipes_into_the_public_room(self):
        result = self.ben.run("chat", "--public", "--timeout", "1", "--adapter", "none", input=b"hello?\n")
        self.assertCode(9, result)
        self.assertIn("no peers nearby", result.stderr.decode())
        anna = self.anna.start("chat", "--public", "--follow", "--json", "--adapter", "none", stdin=subprocess.PIPE)
        texts = ["hello?"] + [f"line {number}" for number in range(8)]
        for text in texts[1:]:
            self.assertCode(0, self.ben.run("chat", "--public", "--adapter", "none", input=f"{text}\n".encode()))
        # The first one comes by the exchange of stored messages, which may be later than the others.
        missing = set(texts)
        while missing:
            missing.discard(anna.wait_for("chat_message")["text"])
        heard = [event["text"] for event in anna.events if event["event"] == "chat_message"]
        self.assertEqual(sorted(texts), sorted(heard))

    def test_public_messages_of_a_blocked_peer_are_hidden(self):
        keys = self.place / "ben.keys"
        self.assertCode(0, self.ben.run("keys", "export", "--output", keys))
        self.assertCode(0, self.anna.run("keys", "import", keys, "--for", "ben"))
        receiver = self.anna.receive("--adapter", "none")
        self.assertCode(0, self.ben.run("send", "--text", "hello", "--to", "anna", "--adapter", "none"))
        receiver.process.kill()
        receiver.process.wait()
        self.assertCode(0, self.anna.run("peers", "block", "ben"))
        blocked = self.anna.run("message", "hi", "--to", "ben", "--adapter", "none")
        self.assertCode(5, blocked)
        self.assertIn("ben is blocked;", blocked.stderr.decode())
        anna = self.anna.start("mesh", "run", "--json", "--accept", "none", "--adapter", "none")
        anna.wait_for("ready")
        self.assertCode(0, self.ben.run("chat", "--public", "--adapter", "none", input=b"not this\n"))
        self.assertCode(0, self.ben.run("message", "nor this", "--broadcast", "--wait", "sent", "--adapter", "none"))
        self.assertCode(0, self.anna.run("peers", "unblock", "ben"))
        self.assertCode(0, self.ben.run("chat", "--public", "--adapter", "none", input=b"but this\n"))
        self.assertCode(0, self.ben.run("message", "and this", "--broadcast", "--wait", "sent", "--adapter", "none"))
        anna.wait_for("message", lambda event: event["content"] == {"text": "and this"})
        said = [event["content"]["text"] for event in anna.events if event["event"] == "message"]
        lines = [event["text"] for event in anna.events if event["event"] == "chat_message"]
        self.assertEqual((["and this"], ["but this"]), (said, lines))

    def test_an_unknown_peer(self):
        result = self.anna.run("chat", "zoe", "--adapter", "none", input=b"hi\n")
        self.assertCode(3, result)
        self.assertCode(2, self.anna.run("chat", "--adapter", "none", input=b"hi\n"))
        self.assertCode(2, self.anna.run("chat", "--public", "zoe", input=b"hi\n"))

    def test_this_machine_is_no_peer(self):
        node = self.anna.receive("--adapter", "none", accept="none")
        own = node.ready["id"]
        node.signal(signal.SIGINT)
        node.end()
        for name, code in (("anna", 3), (own, 2)):
            result = self.anna.run("message", "hi", "--to", name, "--timeout", "1", "--adapter", "none")
            self.assertCode(code, result)
            self.assertIn(f"{name} is this machine itself", result.stderr.decode())
        fingerprint = json.loads(self.anna.run("identity", "--json").stdout)["fingerprint"]
        for name in ("anna", own, fingerprint):
            for command in (["friends", "add"], ["peers", "block"], ["peers", "rename"]):
                result = self.anna.run(*command, name)
                self.assertCode(2, result)
                self.assertIn("is this machine itself", " ".join(result.stderr.decode().split()))
        self.assertEqual(b"", self.anna.run("peers", "--json").stdout)


if __name__ == "__main__":
    unittest.main()
