"""The independent member of session_peer, which was written from docs/PROTOCOL.md alone, against the example programs."""

import os
import pathlib
import re
import struct
import subprocess
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
EXAMPLES = pathlib.Path(os.environ.get("NEARSHARE_EXAMPLES", ROOT / ".build/debug"))

try:
    from session_peer import Member, SessionLink
except ImportError:
    Member = None


@unittest.skipIf(Member is None, "the second peer needs python3-cryptography")
@unittest.skipUnless((EXAMPLES / "GroupChat").exists(), "`make examples` builds the programs that this talks to")
class SessionProtocolStory(unittest.TestCase):
    def start(self, program):
        home = tempfile.TemporaryDirectory(prefix="nearshare-session-")
        self.addCleanup(home.cleanup)
        config = pathlib.Path(home.name, "config/nearshare")
        config.mkdir(parents=True)
        (config / "config.toml").write_text('name = "anna"\ninterface = "lo"\n')
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": home.name,
            "XDG_STATE_HOME": f"{home.name}/state",
            "XDG_CONFIG_HOME": f"{home.name}/config",
            "SWIFT_BACKTRACE": "enable=no",
        }
        process = subprocess.Popen(
            ["stdbuf", "-oL", EXAMPLES / program], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        # A reader that waits for another line gets the end instead.
        deadline = threading.Timer(60, process.kill)
        deadline.start()
        self.addCleanup(deadline.cancel)
        self.addCleanup(self.end, process)
        port = int(re.search(r"port (\d+)", process.stdout.readline())[1])
        return process, ("127.0.0.1", port)

    def end(self, process):
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()

    def hear(self, process, text):
        """Reads the program's output until a line has the text."""
        for line in process.stdout:
            if text in line:
                return
        self.fail(f"ended without saying {text!r}")

    def answer(self, process, text):
        process.stdin.write(text + "\n")
        process.stdin.flush()

    def test_messages_arrive_in_order_also_after_a_lost_link(self):
        chat, address = self.start("GroupChat")
        member = Member(os.urandom(32))
        link = SessionLink(address, member)
        link.run_until(lambda: hasattr(link, "commitment"))
        self.hear(chat, "Join (y/n)?")
        self.answer(chat, "y")
        link.run_until(lambda: {"accepted", "resumed"} <= link.story)
        # A change may come before the whole roster.
        link.run_until(lambda: {b"anna", b"python"} == {entry["name"] for entry in link.roster.values()})
        link.say_message(0, b"one")
        link.say_message(200, b"of a later version")
        link.say_message(0, b"two")
        self.hear(chat, "python: one")
        self.hear(chat, "python: two")
        link.run_until(lambda: member.acknowledged == 3)
        self.answer(chat, "hello")
        link.run_until(lambda: member.received)
        # Not acknowledged; the link is cut without a close frame.
        link.socket.close()
        member.sent.append((0, b"three"))
        again = SessionLink(address, member)
        again.run_until(lambda: "resumed" in again.story)
        # Received messages are not sent again.
        self.assertEqual(3, again.next)
        self.hear(chat, "python: three")
        self.answer(chat, "welcome back")
        again.run_until(lambda: len(member.received) == 2)
        self.assertEqual([(0, b"hello"), (0, b"welcome back")], member.received)
        again.acknowledge()
        again.say(0x45)
        self.hear(chat, " left")
        again.socket.close()

    def test_streams_structured_values_and_packets(self):
        sensor, address = self.start("SensorStream")
        member = Member(os.urandom(32))
        link = SessionLink(address, member)
        link.run_until(lambda: len(link.lossy) >= 2 and len(link.streams.get(2, b"").splitlines()) >= 2)
        self.assertEqual((0, b"temperature"), link.names[2])
        self.assertEqual(b"20.7\n21.4\n", link.streams[2][:10])
        # Kind 1: {"celsius": 20.7, "number": 1} in CBOR.
        value = b"\x01\xa2\x67celsius\xfb" + struct.pack(">d", 20.7) + b"\x66number\x01"
        self.assertEqual(value, link.lossy[0])
        link.run_until(lambda: "datagrams" in link.story)
        link.take_packets()
        self.assertEqual(b"\0", link.receive_packet(), "no probe")
        link.send_packet(b"\x01")
        packet = link.receive_packet()
        while packet == b"\0":
            packet = link.receive_packet()
        self.assertEqual(b"\x02\x01\xa2\x67celsius\xfb", packet[:12])
        # The probe is answered.
        link.send_packet(b"\0")
        while packet != b"\x01":
            packet = link.receive_packet()
        # A replayed packet is dropped; a new one is not.
        link.packets_sent -= 1
        link.send_packet(b"\0")
        for _ in range(4):
            self.assertNotEqual(b"\x01", link.receive_packet())
        link.packets.close()
        link.socket.close()
        self.hear(sensor, " left: ")


if __name__ == "__main__":
    unittest.main()
