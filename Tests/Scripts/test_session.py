"""Sessions of programs. Most are of three machines: only the middle one shares a network with each of the others; it relays
what they send each other, and cannot read it."""

import ctypes
import json
import socket
import subprocess
import threading
import time
import unittest

import harness
from harness import MachinesInARow, MachinesOnASwitch, Peer, Running, Story, digest, has_namespaces

CLONE_NEWNET = 0x40000000
MARKER = b"no relay or observer reads this line, at any number of copies\n"


class Member(Peer):
    """A user who runs the library's session probe."""

    def begin(self, *options):
        # The probe stands beside the executable.
        self.probe = harness.BINARY.parent / "session-probe"
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.namespace, str(self.probe), str(self.inbox), *options],
            env=self.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.running = Running(process)
        self.started.append(self.running)
        self.ready = self.running.wait_for("ready")
        self.id = self.ready["id"]

    def say(self, *words):
        self.running.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.running.process.stdin.flush()

    def wait_for(self, *arguments, **named):
        return self.running.wait_for(*arguments, **named)

    def peak_memory(self):
        """Returns the resident memory in MiB."""
        self.say("memory")
        return int(self.wait_for("memory")["peak"]) / 1024


class Wiretap:
    """Searches all packets on the cables of a namespace for given bytes."""

    def __init__(self, namespace, wanted):
        self.wanted = wanted
        self.found = 0
        self.byte_count = 0
        # A socket stays in the namespace in which it was created; a separate thread enters it.
        made = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(namespace, made), daemon=True)
        self._thread.start()
        made.wait(10)

    def _run(self, namespace, made):
        with open(f"/run/netns/{namespace}") as file:
            # Python's own os.setns is younger than Debian 12.
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self._socket.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        self._socket.settimeout(0.2)
        self._ends = False
        made.set()
        while True:
            try:
                packet = self._socket.recv(1 << 17)
            except TimeoutError:
                if self._ends:
                    break
                continue
            self.byte_count += len(packet)
            self.found += self.wanted in packet
        self._socket.close()

    def end(self):
        self._ends = True
        self._thread.join(30)


@unittest.skipUnless(has_namespaces(), "network namespaces need root and iproute2")
class ThreeMembersStory(Story):
    """Anna and Ben have no common network; Cleo shares one with each."""

    def people(self):
        self.network = MachinesInARow(3)
        self.network.__enter__()
        self.addCleanup(self.network.__exit__)
        self.anna, self.cleo, self.ben = (
            Member(self.place / name, namespace)
            for name, namespace in zip(("anna", "cleo", "ben"), self.network.names, strict=True)
        )
        self.addCleanup(self.cleo.stop_all)

    def gather(self):
        for member in (self.anna, self.cleo, self.ben):
            member.begin()
        self.cleo.say("begin")
        for guest, host in ((self.anna, "10.77.0.1"), (self.ben, "10.77.1.2")):
            self.cleo.say("invite", host, guest.ready["port"])
            self.cleo.wait_for("invited")
        for one, other in ((self.anna, self.ben), (self.ben, self.anna)):
            state = one.wait_for("state", lambda event, other=other: event["id"] == other.id and event["state"] == "connected")
            self.assertEqual(self.cleo.id, state["via"])

    def test_100_MB_through_a_relay_that_sees_no_plaintext(self):
        self.gather()
        path = self.place / "source" / "large.bin"
        path.parent.mkdir(parents=True)
        with open(path, "wb") as file:
            for _ in range(100):
                block = self.random.randbytes(500_000)
                file.write(block + (MARKER * (500_000 // len(MARKER) + 1))[:500_000])
        tap = Wiretap(self.network.names[1], MARKER[:16])
        self.anna.say("send", path, self.ben.id)
        self.assertEqual("completed", self.anna.wait_for("sent", timeout=300)["outcome"])
        received = self.ben.wait_for("received")
        self.assertEqual("completed", received["outcome"])
        self.assertEqual(digest(path), digest(received["path"]))
        tap.end()
        self.assertEqual(0, tap.found)
        # All content passed here, in and out; the tap may have missed a part of it.
        self.assertGreater(tap.byte_count, 10_000_000)

    def test_S19_a_room_of_members_that_know_the_secret_whoever_comes_first(self):
        members = (self.anna, self.cleo, self.ben)
        for member in members:
            member.begin("--discovery")
        # Anna and Ben see Cleo only, and each other through her.
        for member in members:
            member.say("join", "attic", "word" if member != self.ben else "sword")
        self.anna.wait_for("state", lambda event: event["id"] == self.cleo.id and event["state"] == "connected", timeout=60)
        self.ben.say("leave")
        self.ben.wait_for("bye", timeout=60)
        self.ben.begin("--discovery")
        self.ben.say("join", "attic", "word")
        for one, other in ((self.anna, self.ben), (self.ben, self.anna)):
            state = one.wait_for(
                "state", lambda event, other=other: event["id"] == other.id and event["state"] == "connected", timeout=60
            )
            self.assertEqual(self.cleo.id, state["via"])
        self.anna.say("message", "hello")
        self.ben.wait_for("message", timeout=60)

    def test_the_tap_finds_plaintext(self):
        """Validates the test above: the tap detects plaintext."""
        tap = Wiretap(self.network.names[1], MARKER[:16])
        subprocess.run(
            [
                "ip",
                "netns",
                "exec",
                self.network.names[0],
                "python3",
                "-c",
                f"import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto({MARKER!r}, ('10.77.0.2', 9))",
            ],
            check=True,
        )
        tap.end()
        self.assertGreater(tap.found, 0)

    def test_a_slow_reader_costs_no_memory_at_either_end_nor_at_the_relay(self):
        self.gather()
        self.anna.say("stream", "slow-16", 64, self.ben.id)
        self.anna.say("stream", "fast", 8, self.ben.id)
        # The slow reader does not delay the fast one.
        self.assertEqual(str(8 << 20), self.ben.wait_for("read", lambda event: event["name"] == "fast")["count"])
        self.assertEqual(str(64 << 20), self.ben.wait_for("read", timeout=120)["count"])
        for member in (self.anna, self.cleo, self.ben):
            self.assertLess(member.peak_memory(), 64)

    def test_when_the_relay_leaves_the_others_are_disconnected(self):
        self.gather()
        self.cleo.say("leave")
        for one in (self.anna, self.ben):
            one.wait_for("left", lambda event: event["id"] == self.cleo.id)
        for one, other in ((self.anna, self.ben), (self.ben, self.anna)):
            one.wait_for("left", lambda event, other=other: event["id"] == other.id, timeout=60)

    def test_a_repaired_cable_needs_no_new_invitation(self):
        self.gather()
        self.network.cut(1)
        self.anna.wait_for("state", lambda event: event["id"] == self.ben.id and event["state"] != "connected", timeout=60)
        self.network.mend(1)
        self.anna.wait_for("state", lambda event: event["id"] == self.ben.id and event["state"] == "connected", timeout=60)

    def test_a_killed_member_is_reported_and_delays_nobody(self):
        self.gather()
        self.ben.running.process.kill()
        self.anna.say("message", "after-the-kill")
        self.assertEqual("after-the-kill", self.cleo.wait_for("message")["text"])
        for one in (self.anna, self.cleo):
            left = one.wait_for("left", lambda event: event["id"] == self.ben.id, timeout=90)
            # Of Anna's messages to all, Ben has not read one.
            self.assertEqual("1" if one is self.anna else "0", left["lost"])

    def test_a_direct_network_that_appears_is_used_soon(self):
        self.gather()
        begun = time.monotonic()
        # The new cable has link-local IPv6 addresses only, which the two tell each other through Cleo.
        self.network.connect(0, 2)
        for one, other in ((self.anna, self.ben), (self.ben, self.anna)):
            one.wait_for("state", lambda event, other=other: event["id"] == other.id and event["via"] == "", timeout=30)
        # Detection of duplicate addresses takes the kernel two seconds.
        self.assertLess(time.monotonic() - begun, 15)
        self.network.cut(1)
        self.anna.say("message", "direct")
        self.assertEqual(self.anna.id, self.ben.wait_for("message")["from"])


@unittest.skipUnless(has_namespaces(), "network namespaces need root and iproute2")
class LinkLocalStory(Story):
    """Three machines on one network without addresses but link-local IPv6 ones."""

    def people(self):
        self.network = MachinesOnASwitch(3)
        self.network.__enter__()
        self.addCleanup(self.network.__exit__)
        names = ("anna", "ben", "cleo")
        self.anna, self.ben, self.cleo = (
            Member(self.place / name, namespace) for name, namespace in zip(names, self.network.names, strict=True)
        )
        self.addCleanup(self.anna.stop_all)

    def test_invited_members_connect_to_each_other_directly(self):
        addresses = [self.network.address(machine) for machine in range(3)]
        for member in (self.anna, self.ben, self.cleo):
            member.begin()
        self.anna.say("begin")
        for guest, address in ((self.ben, addresses[1]), (self.cleo, addresses[2])):
            self.anna.say("invite", f"{address}%{self.network.links[0]}", guest.ready["port"])
            self.anna.wait_for("invited")
        for one, other in ((self.ben, self.cleo), (self.cleo, self.ben)):
            one.wait_for(
                "state",
                lambda event, other=other: event["id"] == other.id and event["via"] == "" and event["state"] == "connected",
            )
        self.anna.say("leave")
        self.ben.wait_for("left", lambda event: event["id"] == self.anna.id)
        self.ben.say("message", "still-here")
        self.assertEqual("still-here", self.cleo.wait_for("message")["text"])


@unittest.skipUnless(has_namespaces(), "network namespaces need root and iproute2")
class TwoApplicationsStory(Story):
    """Two applications of one user, and the user's own receiver, at the same time and in one home directory."""

    def people(self):
        self.network = MachinesInARow(2)
        self.network.__enter__()
        self.addCleanup(self.network.__exit__)
        self.chess, self.drawing = (Member(self.place / "anna", self.network.names[0]) for _ in range(2))
        self.anna = Peer(self.place / "anna", self.network.names[0])
        self.ben = Peer(self.place / "ben", self.network.names[1])
        for application in (self.chess, self.drawing):
            self.addCleanup(application.stop_all)

    def test_each_has_a_key_of_its_own_and_they_meet_like_any_two_peers(self):
        self.chess.begin("--discovery", "--application", "org.example.chess")
        self.drawing.begin("--discovery", "--application", "org.example.drawing")
        receiver = self.anna.receive()
        (identity,) = (json.loads(line) for line in self.anna.run("identity", "--json").stdout.splitlines())
        self.assertEqual(3, len({self.chess.id, self.drawing.id, identity["id"]}))
        first = self.chess.id
        for round_number in range(2):
            for member in (self.chess, self.drawing)[: 2 - round_number]:
                member.say("join", "attic", "word")
            for one, other in ((self.chess, self.drawing), (self.drawing, self.chess)):
                one.wait_for(
                    "state",
                    lambda event, other=other: event["id"] == other.id and event["state"] == "connected",
                    timeout=60,
                )
            self.chess.say("message", f"move-{round_number}")
            received = self.drawing.wait_for("message")
            self.assertEqual((f"move-{round_number}", first), (received["text"], received["from"]))
            if round_number == 0:
                self.chess.say("leave")
                self.chess.wait_for("bye")
                self.drawing.wait_for("left", lambda event: event["id"] == first)
                self.chess.begin("--discovery", "--application", "org.example.chess")
                self.assertEqual(first, self.chess.id)
        # The user's own node is none of theirs.
        sent = self.ben.run("send", self.file("report.txt", 100), "--to", f"10.77.0.1:{receiver.ready['port']}")
        self.assertCode(0, sent)
        self.assertEqual({"report.txt"}, set(self.anna.received()))


if __name__ == "__main__":
    unittest.main()
