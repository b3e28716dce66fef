"""Verification by a QR code with the real executable: drawn on a terminal, read by another program, and proven over the mesh by
an independent peer."""

import json
import re
import shutil
import subprocess
import time
import unittest

import bitchat_wire
from bitchat_peer import BitchatPeer
from harness import Story
from pseudo_terminal import PseudoTerminal

FRAMES = b"NSHM\x01\x01\0\0"
# Pixels for each module.
SCALE = 4
BLOCKS = {"█": (1, 1), "▀": (1, 0), "▄": (0, 1), " ": (0, 0)}
BLACK_ON_WHITE = "\x1b[30;107m"


def picture(lines, ink):
    """A greyscale picture (netpbm) of half blocks; `ink` is the brightness of the foreground, 0 or 255."""
    rows = []
    for line in lines:
        for half in (0, 1):
            row = bytes(ink if BLOCKS[character][half] else 255 - ink for character in line for _ in range(SCALE))
            rows += [row] * SCALE
    return b"P5 %d %d 255\n" % (len(rows[0]), len(rows)) + b"".join(rows)


@unittest.skipUnless(shutil.which("zbarimg"), "QR codes are read with zbarimg, of Debian's zbar-tools")
class VerificationStory(Story):
    def scan(self, lines, ink):
        path = self.place / "screen.pgm"
        path.write_bytes(picture(lines, ink))
        result = subprocess.run(["zbarimg", "--quiet", "--raw", path], capture_output=True, timeout=30)
        self.assertEqual(0, result.returncode, result.stderr.decode())
        return result.stdout.decode().strip()

    def join(self, running, name, **how):
        peer = BitchatPeer(name, seed=self.seed, **how)
        self.addCleanup(peer.close)
        peer.connect("127.0.0.1", running.ready["port"], preamble=FRAMES)
        return peer

    def link_of(self, peer, now=None, **changes):
        fields = {
            "v": "1",
            "noise": peer.noise_key.hex(),
            "sign": peer.signing_key.hex(),
            "nick": peer.nickname,
            "ts": str(int(now or time.time())),
            "nonce": "AAAAAAAAAAAAAAAAAAAAAA",
        } | changes
        return bitchat_wire.verification_qr(fields, peer.signing.sign(bitchat_wire.verification_qr_preimage(fields)))

    def trust(self, name):
        events = [json.loads(line) for line in self.anna.run("peers", "--json").stdout.splitlines()]
        return {event["name"]: event["trust"] for event in events}.get(name)

    def test_a_code_on_a_pipe_and_on_a_terminal_is_read(self):
        self.assertCode(0, self.anna.run("identity", "rename", "Änna & co"))
        self.anna.run("keys", "export")
        lines = self.anna.run("identity", "qr").stdout.decode().splitlines()
        self.assertEqual(lines[-1], self.scan(lines[:-1], ink=255))
        fields = bitchat_wire.read_verification_qr(lines[-1], time.time())
        self.assertEqual("Änna & co", fields["nick"])
        environment = self.anna.environment() | {"LANG": "C.UTF-8", "TERM": "xterm-256color"}
        terminal = PseudoTerminal(self.anna.command("identity", "qr"), environment, columns=200, rows=60)
        self.addCleanup(terminal.close)
        while terminal.read(10):
            pass
        shown = terminal.buffer.decode().split("\r\n")
        drawn = [line.removeprefix(BLACK_ON_WHITE).removesuffix("\x1b[0m") for line in shown if line.startswith(BLACK_ON_WHITE)]
        link = next(line for line in shown if line.startswith("bitchat://"))
        self.assertEqual(link, self.scan(drawn, ink=0))

    def test_the_link_has_the_name_of_the_running_node(self):
        self.anna.start("mesh", "run", "--json", "--name", "On the road", "--interface", "lo", "--adapter", "none").wait_for(
            "ready"
        )
        link = json.loads(self.anna.run("identity", "qr", "--json").stdout)["link"]
        self.assertIn("On%20the%20road", link)

    def test_without_the_library_the_link_is_shown(self):
        self.anna.run("keys", "export")
        self.anna.hide("libqrencode.so.4")
        result = self.anna.run("identity", "qr")
        self.assertCode(0, result)
        self.assertRegex(result.stdout.decode(), r"^bitchat://verify\?v=1&")
        self.assertIn("libqrencode4", result.stderr.decode())

    def test_a_phone_proves_the_keys_of_its_link(self):
        anna = self.anna.receive("--interface", "lo")
        phone = self.join(anna, "phone")
        phone.wait_for_peer("anna", 10)
        result = self.anna.run("peers", "verify", self.link_of(phone))
        self.assertCode(0, result)
        self.assertIn("phone is verified", result.stderr.decode())
        self.assertEqual("verified", self.trust("phone"))
        # The other way round: the phone challenges this node by the keys of its link.
        link = json.loads(self.anna.run("identity", "qr", "--json").stdout)["link"]
        fields = bitchat_wire.read_verification_qr(link, time.time())
        identifier = bitchat_wire.peer_id(bytes.fromhex(fields["noise"])).hex()
        self.assertEqual(identifier, phone.wait_for_peer("anna", 10))
        phone.verify(identifier)
        self.assertEqual(identifier, phone.wait_for("verified")["peer"])

    def test_a_phone_is_verified_by_its_link_and_not_by_its_name(self):
        anna = self.anna.receive("--interface", "lo")
        phone = self.join(anna, "phone")
        phone.wait_for_peer("anna", 10)
        environment = self.anna.environment() | {"LANG": "C.UTF-8", "TERM": "xterm-256color"}
        terminal = PseudoTerminal(self.anna.command("peers", "verify", "phone"), environment, columns=200, rows=60)
        self.addCleanup(terminal.close)
        while terminal.read(10):
            pass
        self.assertIn("nearshare peers verify LINK", terminal.buffer.decode())

    def test_K2_a_verified_phone_that_takes_the_name_of_a_friend_stays_verified_under_its_own(self):
        anna = self.anna.receive("--interface", "lo", accept="ask")
        phone = self.join(anna, "phone")
        receiver = phone.wait_for_peer("anna", 10)
        self.assertCode(0, self.anna.run("peers", "verify", self.link_of(phone)))
        sam = BitchatPeer("Sam", seed=self.seed + 1)
        self.addCleanup(sam.close)
        sam.connect("127.0.0.1", anna.ready["port"], preamble=FRAMES)
        sam.wait_for_peer("anna", 10)
        self.assertCode(0, self.anna.run("peers", "verify", self.link_of(sam)))
        # One without a key that is known, too.
        other = BitchatPeer("sam", seed=self.seed + 2)
        self.addCleanup(other.close)
        other.connect("127.0.0.1", anna.ready["port"], preamble=FRAMES)
        other.wait_for_peer("anna", 10)
        phone.nickname = "Sam"
        phone.announce()
        phone.send_private_file(receiver, "a.jpg", "image/jpeg", b"content")
        offered = anna.wait_for("invitation")
        self.assertEqual(("verified", phone.id), (offered["trust"], offered["peer"]))
        for text, peer in (("Sam", sam), ("phone", phone), (f"sam#{other.id[:4]}", other)):
            sent = self.anna.run("send", "--text", text, "--to", text, "--via", "mesh", "--interface", "lo")
            self.assertCode(0, sent)
            self.assertEqual(text, peer.wait_for_message(10)["text"])

    def test_K16_links_that_prove_nothing(self):
        anna = self.anna.receive("--interface", "lo")
        phone = self.join(anna, "phone")
        phone.wait_for_peer("anna", 10)
        other = BitchatPeer("other", seed=self.seed + 1)
        self.addCleanup(other.close)
        good = self.link_of(phone)
        cases = {
            "older than five minutes": self.link_of(phone, now=time.time() - 330),
            "signature is not valid": good.replace("nick=phone", "nick=mallory"),
            "malformed": re.sub("noise=[0-9a-f]*", "noise=00", good),
            # A forger signs with a key of its own, over the phone's key.
            "has not proven": self.link_of(other, noise=phone.noise_key.hex(), nick="phone"),
            "is not nearby": self.link_of(other),
        }
        for reason, link in cases.items():
            result = self.anna.run("peers", "verify", link)
            self.assertNotEqual(0, result.returncode, reason)
            self.assertIn(reason, result.stderr.decode())
        self.assertNotEqual("verified", self.trust("phone"))

    def test_verification_in_a_chat(self):
        anna = self.anna.receive("--interface", "lo")
        phone = self.join(anna, "phone")
        phone.wait_for_peer("anna", 10)
        environment = self.anna.environment() | {"LANG": "C.UTF-8", "TERM": "xterm-256color"}
        terminal = PseudoTerminal(self.anna.command("chat", "--public"), environment, columns=200, rows=60)
        self.addCleanup(terminal.close)
        deadline = time.monotonic() + 30

        def read_until(text):
            while text not in terminal.buffer.decode(errors="replace"):
                self.assertLess(time.monotonic(), deadline, terminal.buffer.decode(errors="replace")[-3000:])
                self.assertTrue(terminal.read(1))

        read_until("to everyone>")
        terminal.press("/verify\r")
        read_until("bitchat://verify?v=1")

        def rows_of_code():
            return re.findall(re.escape(BLACK_ON_WHITE) + "([█▀▄ ]*)", terminal.buffer.decode(errors="replace"))

        # The code follows its link: half as many rows as columns.
        while not (rows := rows_of_code()) or len(rows) < (len(rows[0]) + 1) // 2:
            self.assertLess(time.monotonic(), deadline, terminal.buffer.decode(errors="replace")[-3000:])
            self.assertTrue(terminal.read(1))
        self.assertIn("bitchat://verify?v=1", self.scan(rows, ink=0))
        terminal.press(f"/verify {self.link_of(phone)}\r")
        read_until("phone is verified")
        terminal.press("/quit\r")
        while terminal.read(10):
            pass


if __name__ == "__main__":
    unittest.main()
