"""The pictures of the main screens in docs/pictures: each is drawn by the real executable in a terminal of 80 x 24.

The tests compare what a screen says, without numbers, ids and lengths of bars. After a change, draw the pictures again and look
at them:

NEARSHARE_DRAW=1 Tests/Scripts/run test_pictures.PictureStory
"""

import html
import math
import os
import pathlib
import re
import shutil
import struct
import subprocess
import time
import unittest
import wave

from harness import TIMEOUT, MachinesInARow, Peer, Story, has_namespaces

FOLDER = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "pictures"
COLUMNS, ROWS = 80, 24
WIDTH, HEIGHT = 8.4, 17
PALETTE = ["#45475a", "#f38ba8", "#a6e3a1", "#f9e2af", "#89b4fa", "#f5c2e7", "#94e2d5", "#cdd6f4"]
FOREGROUND, BACKGROUND = "#cdd6f4", "#1e1e2e"


class Style:
    """The attributes of a cell, as set by SGR sequences."""

    def __init__(self):
        self.color, self.is_bold, self.is_dim, self.is_reversed = None, False, False, False

    def apply(self, parameters):
        for code in [int(each or 0) for each in parameters.split(";")]:
            if code == 0:
                self.__init__()
            elif code == 1:
                self.is_bold = True
            elif code == 2:
                self.is_dim = True
            elif code == 22:
                self.is_bold = self.is_dim = False
            elif code in (7, 27):
                self.is_reversed = code == 7
            elif 30 <= code <= 37 or 90 <= code <= 97:
                self.color = PALETTE[code % 10]
            elif code == 39:
                self.color = None

    def attributes(self):
        color = self.color or FOREGROUND
        return (
            f'fill="{BACKGROUND if self.is_reversed else color}"'
            + (' font-weight="bold"' if self.is_bold else "")
            + (' opacity="0.6"' if self.is_dim else "")
        )


def runs(captured, style):
    """The pieces of a line of `tmux capture-pane -e`: text and style, which goes on in the next line."""
    for piece in re.split(r"(\x1b\[[0-9;]*m)", captured):
        if piece.startswith("\x1b"):
            style.apply(piece[2:-1])
        elif piece:
            yield piece, style


def drawn(lines, title):
    """A picture of the lines as SVG. Its description is the text that the tests compare."""
    width, height = COLUMNS * WIDTH + 24, len(lines) * HEIGHT + 44
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" font-family="monospace" font-size="14">',
        f"<title>{html.escape(title)}</title>",
        f"<desc>{html.escape(chr(10).join(text_of(line) for line in lines))}</desc>",
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>',
        f'<text x="50%" y="20" text-anchor="middle" fill="#7f849c">{html.escape(title)}</text>',
    ]
    pen = Style()
    for row, line in enumerate(lines):
        column, y = 0, row * HEIGHT + 46
        for text, style in runs(line, pen):
            x = column * WIDTH + 12
            length = len(text) * WIDTH
            if style.is_reversed:
                parts.append(f'<rect x="{x:.1f}" y="{y - 13}" width="{length:.1f}" height="{HEIGHT}" fill="{FOREGROUND}"/>')
            if text.strip():
                parts.append(
                    f'<text x="{x:.1f}" y="{y}" textLength="{length:.1f}" xml:space="preserve" {style.attributes()}>'
                    f"{html.escape(text)}</text>"
                )
            column += len(text)
    return "\n".join([*parts, "</svg>", ""])


def text_of(line):
    return re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip()


def skeleton(text):
    """What a screen says, without what differs from one time to the next."""
    text = re.sub(r"[\u2580-\u259f\u2800-\u28ff]+", "▒", text)
    text = re.sub(r"\b[0-9a-f]{6,}\b|\b[0-9a-f]{4,}…", "ID", text)
    text = re.sub(r"\b[0-9A-F]{4}( [0-9A-F]{4}){3}\b", "CERTIFICATE", text)
    text = re.sub(r"── .* ──", "── DATE ──", text)
    text = re.sub(r"\d+([.:]\d+)*", "N", text)
    # A number may have another unit.
    text = re.sub(r"\bN (bytes|B|KB|MB|GB|ms|s|min)\b", "N", text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


class Terminal:
    """A shell in tmux."""

    def __init__(self, peer, place):
        self.socket = place / f"tmux-{peer.home.name}"
        environment = {**peer.environment(), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        within = ["ip", "netns", "exec", peer.namespace] if peer.namespace else []
        size = ["-x", str(COLUMNS), "-y", str(ROWS)]
        self.tmux("-f", "/dev/null", "new-session", "-d", *size, *within, "sh", environment=environment)
        self.tmux("set", "-g", "status", "off")

    def tmux(self, *arguments, environment=None):
        return subprocess.run(
            ["tmux", "-S", self.socket, *arguments], env=environment, check=True, capture_output=True, text=True
        ).stdout

    def type(self, keys):
        self.tmux("send-keys", "-l", keys)

    def enter(self, line=""):
        self.type(line)
        self.tmux("send-keys", "Enter")

    def lines(self):
        """The screen, without the empty lines at its end. Broken lines are joined, because paths differ in length."""
        lines = self.tmux("capture-pane", "-e", "-J", "-p").split("\n")
        while lines and not text_of(lines[-1]):
            lines.pop()
        return lines

    def wait_for(self, pattern):
        deadline = time.monotonic() + TIMEOUT
        while not re.search(pattern, "\n".join(text_of(line) for line in self.lines())):
            if time.monotonic() > deadline:
                raise AssertionError(f"{pattern!r} is not shown:\n" + "\n".join(text_of(line) for line in self.lines()))
            time.sleep(0.05)

    def close(self):
        self.tmux("kill-server")


@unittest.skipUnless(shutil.which("tmux") and has_namespaces(), "needs tmux, root and iproute2")
class PictureStory(Story):
    def people(self):
        anna, ben = self.enterContext(MachinesInARow()).names
        self.anna, self.ben = Peer(self.place / "anna", anna), Peer(self.place / "ben", ben)
        for peer in (self.anna, self.ben):
            self.assertCode(0, peer.run("identity", "rename", peer.home.name))

    def terminal(self, peer):
        terminal = Terminal(peer, self.place)
        self.addCleanup(terminal.close)
        tool = peer.home / "bin" / "nearshare"
        tool.parent.mkdir()
        # As on a machine without Bluetooth.
        none = 'case $1 in receive|send|chat|browse) set -- "$@" --adapter none;; esac'
        tool.write_text(f'#!/bin/sh\n{none}\nexec {peer.command()[-1]} "$@"\n')
        tool.chmod(0o755)
        terminal.enter(f"PATH={tool.parent}:$PATH PS1='$ '; cd {peer.home}; clear")
        terminal.wait_for(r"^\$$")
        return terminal

    def compare(self, name, title, terminal):
        """Compares a screen with its picture, or draws that."""
        lines = [line.replace(str(self.place), "/home") for line in terminal.lines()]
        path = FOLDER / f"{name}.svg"
        if os.environ.get("NEARSHARE_DRAW"):
            path.write_text(drawn(lines, title))
        before = html.unescape(re.search(r"<desc>(.*?)</desc>", path.read_text(), re.DOTALL)[1])
        self.assertEqual(
            skeleton(before),
            skeleton("\n".join(text_of(line) for line in lines)),
            f"{path} shows another screen: draw it again with NEARSHARE_DRAW=1, and look at it",
        )

    def test_a_question_of_receive(self):
        photo = self.file("photo.jpg", 3_100_000)
        photo.write_bytes(b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01" + photo.read_bytes())
        anna = self.terminal(self.anna)
        anna.enter("nearshare receive")
        anna.wait_for("Ctrl-C")
        port = re.search(r"port (\d+)", "\n".join(text_of(line) for line in anna.lines()))[1]
        self.ben.start("send", photo, "--to", f"10.77.0.1:{port}")
        anna.wait_for(r"accept\?")
        anna.wait_for(r"short code \d")
        self.compare("receive", "anna: nearshare receive", anna)

    def test_the_progress_of_send(self):
        content = self.file("holiday.mp4", 60_000_000)
        self.anna.receive()
        ben = self.terminal(self.ben)
        content.rename(self.ben.home / "holiday.mp4")
        ben.enter("nearshare send holiday.mp4 --to anna --limit 20MB")
        ben.wait_for(r"[4-8]\d ?%")
        self.compare("send", "ben: nearshare send", ben)

    def test_a_conversation(self):
        anna, ben = self.terminal(self.anna), self.terminal(self.ben)
        anna.enter("nearshare chat ben")
        ben.enter("nearshare chat anna")
        anna.wait_for("ben is near")
        ben.wait_for("anna is near")
        anna.enter("are you on the train already?")
        ben.wait_for("on the train")
        ben.enter("yes, third carriage. I have the photos of the lake")
        anna.wait_for("the lake")
        anna.enter("great, send them over!")
        ben.wait_for("send them over")
        anna.wait_for("send them over! ✓✓")
        anna.type("I'll come to")
        anna.wait_for("come to")
        self.compare("chat", "anna: nearshare chat ben", anna)

    def test_who_is_near(self):
        self.anna.receive()
        ben = self.terminal(self.ben)
        ben.enter("nearshare browse")
        ben.wait_for(r"anna[^$]*\$$")
        self.compare("browse", "ben: nearshare browse", ben)

    def test_a_voice_note(self):
        path = self.anna.home / "speech.wav"
        with wave.open(str(path), "wb") as sound:
            sound.setparams((1, 2, 16000, 0, "NONE", ""))
            for number in range(16000 * 6):
                second = number / 16000
                loudness = abs(math.sin(second * 2.1)) * abs(math.sin(second * 9.7)) * 0.8
                sound.writeframes(struct.pack("<h", int(32000 * loudness * math.sin(second * 1400))))
        anna = self.terminal(self.anna)
        anna.enter("nearshare voice --input speech.wav -o hello.opus")
        anna.wait_for(r"KB[^$]*\$$")
        anna.enter("nearshare voice show hello.opus")
        anna.wait_for(r"size[^$]*\$$")
        self.compare("voice", "anna: nearshare voice", anna)
