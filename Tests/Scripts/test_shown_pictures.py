"""Received pictures on the terminal, drawn by chafa: `inbox show`, and `/show` in a chat.

What the process of chafa cannot do is tested by SandboxTests, and what it may write by TerminalTests.
"""

import re
import shutil
import struct
import unittest
import zlib

from harness import Story, has_namespaces, wait_until
from test_questions import Terminal

CHAFA = shutil.which("chafa")


def picture(columns, rows):
    """Returns a PNG with three bytes for each pixel."""
    lines = (b"\0" + bytes(column * 255 // columns for column in range(columns) for _ in range(3)) for _ in range(rows))

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"".join(lines))) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


class ShownPictures(Story):
    def receive(self, name, content):
        path = self.place / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        receiver = self.anna.receive("--adapter", "none")
        self.assertCode(0, self.ben.run("send", path, "--to", receiver.address))
        receiver.wait_for("delivered")
        wait_until(lambda: name.encode() in self.anna.run("inbox", "--paths").stdout, "the item in the list")
        self.anna.stop_all()

    def terminal(self, *words, **properties):
        terminal = Terminal(self.anna, *self.anna.command(*words), **properties)
        self.addCleanup(terminal.close)
        return terminal

    def show(self, *words, **properties):
        """Returns the exit status, and what the terminal has received."""
        terminal = self.terminal("inbox", "show", *words, **properties)
        status = terminal.end()
        while terminal.read(0.1):
            pass
        return status, terminal

    def assert_failure(self, status, words, shown):
        self.assertEqual(status, shown[0], shown[1].text)
        self.assertIn(words, shown[1].text)

    @unittest.skipUnless(CHAFA, "needs chafa")
    def test_a_picture_is_drawn_within_the_terminal(self):
        self.receive("a.png", picture(640, 480))
        for columns, rows in [(80, 24), (30, 8)]:
            status, terminal = self.show(columns=columns, rows=rows)
            self.assertEqual(0, status, terminal.text)
            self.assertRegex(terminal.transcript.decode(), r"\x1b\[(\d+;)*[34]8;")
            drawn = terminal.rows()
            self.assertLessEqual(len(drawn), rows, terminal.text)
            self.assertGreaterEqual(len(drawn), rows // 2, terminal.text)
            self.assertLessEqual(max(map(len, drawn)), columns, terminal.text)

    @unittest.skipUnless(CHAFA, "needs chafa")
    def test_a_terminal_with_graphics_gets_pixels(self):
        self.receive("a.png", picture(64, 48))
        for variables, beginning in [({"TERM": "xterm-kitty"}, b"\x1b_Ga=T,"), ({"TERM": "mlterm"}, b"\x1bP")]:
            status, terminal = self.show("a.png", columns=80, rows=24, variables=variables)
            self.assertEqual(0, status, terminal.text)
            self.assertIn(beginning, terminal.transcript)

    @unittest.skipUnless(CHAFA, "needs chafa")
    def test_a_damaged_picture_is_an_error(self):
        self.receive("a.png", picture(64, 48)[:33] + b"no pixels" * 100)
        self.assert_failure(1, "chafa could not draw", self.show())

    def test_what_is_no_picture_is_an_error_that_says_how_to_open_it(self):
        self.receive("a.png", b"words\n" * 100)
        self.assert_failure(1, "a.png is no picture (text/plain); `nearshare inbox open` opens it", self.show())

    def test_pictures_need_a_terminal_that_shows_them(self):
        result = self.anna.run("inbox", "show")
        self.assertCode(2, result)
        self.assertIn("standard output is not a terminal", result.stderr.decode())
        self.assert_failure(2, "this terminal shows no pictures", self.show(variables={"TERM": "dumb"}))

    @unittest.skipUnless(has_namespaces(), "hiding chafa needs root")
    def test_without_chafa_the_error_names_its_package(self):
        self.receive("a.png", picture(64, 48))
        if CHAFA:
            self.anna.hidden.append(CHAFA)
        self.assert_failure(1, "chafa, which draws pictures, is not installed (Debian: chafa)", self.show())

    @unittest.skipUnless(CHAFA, "needs chafa")
    def test_a_chat_shows_a_picture_until_a_key_is_pressed(self):
        self.receive("a.png", picture(640, 480))
        chat = self.terminal("chat", "--adapter", "none", columns=80, rows=24)
        chat.wait_for("/help lists")
        chat.press("/show\r")
        chat.wait_for("press a key to return")
        # On the usual screen, which the chat has left.
        drawn = chat.transcript.decode(errors="replace").rsplit("\x1b[?1049l", 1)[1]
        self.assertTrue(re.search(r"\x1b\[(\d+;)*[34]8;", drawn), drawn)
        chat.press(" ")
        chat.wait_for("/help lists")
        chat.press("/show b.png\r")
        chat.wait_for("not shown: b.png is no received item")
        chat.press("/quit\r")
        self.assertEqual(0, chat.end())


if __name__ == "__main__":
    unittest.main()
