#!/usr/bin/env python3
"""Two nodes, a session of two programs and an untrusted third machine for hours: files, messages and voice notes both ways over
a lossy cable, with nodes killed at random, a cable that is cut, a disk that is full, and wall clocks that jump. Every byte and
every message is checked. Memory, threads, descriptors and staged files of the nodes at the end are compared with those at the
start.

A clock jumps for one process, which has wall_clock.c preloaded: setting the machine's own would concern everything on it, and a
time namespace moves the monotonic clock alone, which no node sees jump.

Needs root, network namespaces, TAP devices and cc. The library's session-probe is expected beside the executable.

soak.py --nearshare BINARY [--hours N] [--seed N]
"""

import argparse
import collections
import contextlib
import hashlib
import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = HERE.parent / "Scripts"
sys.path += [str(SCRIPTS), str(HERE.parent / "Benchmarks")]
arguments = argparse.ArgumentParser()
arguments.add_argument("--nearshare", required=True)
arguments.add_argument("--hours", type=float, default=1.0)
arguments.add_argument("--seed", type=int, default=None)
OPTIONS = arguments.parse_args()
os.environ["NEARSHARE"] = str(pathlib.Path(OPTIONS.nearshare).resolve())

from cable import Cable, is_possible  # noqa: E402
from flood_peer import ATTACKS  # noqa: E402
from harness import BINARY, Peer  # noqa: E402

PORTS = {"anna": 29801, "ben": 29802}
# More than a release build needs at its busiest; a leak of 1 % of the content would pass it within half an hour.
MAXIMUM_GROWTH_BYTES = 64 << 20
MAXIMUM_GROWTH_THREADS = 16
MAXIMUM_GROWTH_DESCRIPTORS = 32
# Milliseconds: less than the limit of a packet's age, more than it, and a day back. A day forward would expire messages.
JUMPS = [20_000, -20_000, 400_000, -400_000, -86_400_000]


class Failure(Exception):
    pass


class Clock:
    """The wall clock of one process, which may be set at any time."""

    def __init__(self, place, name):
        self.library = place / "wall_clock.so"
        if not self.library.exists():
            source = HERE / "wall_clock.c"
            subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", self.library, source], check=True)
        self.file = place / f"{name}.clock"
        self.set(0)

    def set(self, milliseconds):
        # In place: it stays mapped.
        with open(self.file, "r+b" if self.file.exists() else "wb") as file:
            file.write(struct.pack("=q", milliseconds))

    def environment(self):
        return {"LD_PRELOAD": str(self.library), "WALL_CLOCK": str(self.file)}


class ClockedPeer(Peer):
    """A user whose commands read a clock of their own."""

    clock = None

    def environment(self):
        return {**super().environment(), **(self.clock.environment() if self.clock else {})}


class Member(ClockedPeer):
    """A program in a session. It is not killed, so that each of its messages arrives once, and in order."""

    def join(self):
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.namespace, BINARY.parent / "session-probe", self.inbox],
            env=self.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.running = self.runs(process)
        self.started.append(self.running)
        self.ready = self.running.wait_for("ready")

    def say(self, *words):
        self.running.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.running.process.stdin.flush()

    def events(self, name, key):
        return [event[key] for event in self.running.events if event["event"] == name]


class Node:
    """A user whose node is killed and started again; its inbox is on a disk of its own."""

    def __init__(self, place, name, namespace):
        self.name, self.peer = name, ClockedPeer(place / name, namespace)
        self.clock = self.peer.clock = Clock(place, name)
        self.inbox = self.peer.inbox
        self.inbox.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=320m,mode=0700", "none", str(self.inbox)], check=True)
        self.lock = threading.Lock()
        self.running = None
        self.peer.run("identity", "rename", name)

    def start(self):
        self.running = self.peer.start(
            *("mesh", "run", "--json", "--accept", "all", "--inbox", self.inbox, "--adapter", "none"),
            *("--port", PORTS[self.name], "--log-level", "error"),
        )
        self.running.wait_for("ready", timeout=60)

    def stop(self, number):
        self.running.signal(number)
        self.running.end(60)
        for stream in (self.running.process.stdout, self.running.process.stderr):
            stream.close()
        self.peer.started.remove(self.running)

    def restart(self):
        with self.lock:
            self.stop(signal.SIGKILL)
            self.start()

    def figures(self):
        process = pathlib.Path("/proc") / str(self.running.process.pid)
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines() if ":" in line)
        staged = [*(self.inbox / ".nearshare").glob("*"), *(self.peer.home / "state/nearshare/spool").glob("*")]
        return {
            "MiB": int(status["VmRSS"].split()[0]) // 1024,
            "threads": int(status["Threads"]),
            "descriptors": len(list((process / "fd").iterdir())),
            "staged": len(staged),
        }


class Soak:
    def __init__(self, place, cable, seed):
        self.random = random.Random(seed)
        self.cable, self.place = cable, place
        self.nodes = [Node(place, name, cable.names[number]) for number, name in enumerate(("anna", "ben"))]
        self.counts = collections.Counter()
        self.failures = []
        self.isOver = threading.Event()
        self.said = {"anna": set(), "ben": set()}
        # Held while a message is handed over, or a clock is wrong: one with a time far ahead is refused elsewhere.
        self.right_time = threading.Lock()
        self.members = [Member(place / f"{name} in a session", cable.names[number]) for number, name in enumerate("ab")]
        for member, node in zip(self.members, self.nodes, strict=True):
            member.clock = node.clock
        self.sent = [0, 0]

    def write(self, path, size):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size))
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def traffic(self, sender, receiver, seed):
        chance = random.Random(seed)
        number = 0
        while not self.isOver.is_set():
            number += 1
            try:
                choice = chance.random()
                if choice < 0.5:
                    self.send_file(sender, receiver, f"{sender.name}-{number}.bin", chance.choice([0, 900, 70_000, 4_000_000]))
                elif choice < 0.6:
                    self.send_note(sender, receiver, number)
                else:
                    self.send_message(sender, receiver, f"{sender.name} {number}")
            except Exception as error:
                self.failures.append(f"{type(error).__name__}: {error}")
                self.isOver.set()

    def send_file(self, sender, receiver, name, size):
        source = self.place / f"from-{sender.name}" / name
        digest = self.write(source, size)
        self.deliver(sender, receiver, source, digest, "files")
        self.counts["bytes"] += size

    def deliver(self, sender, receiver, source, digest, kind):
        """Sends until it succeeds: a node may be killed, a cable cut, a disk full."""
        address = f"{self.cable.addresses[self.nodes.index(receiver)]}:{PORTS[receiver.name]}"
        for _ in range(60):
            result = sender.peer.run("send", "--retry", "20", source, "--to", address, timeout=300)
            if result.returncode == 0:
                break
            self.counts["failed attempts"] += 1
            if self.isOver.wait(1):
                return
        else:
            raise Failure(f"{source.name} was not sent: {result.stderr.decode()[-300:]}")
        stem = source.name.split(".")[0]
        # A transfer that is named and not confirmed is sent again, under another name.
        found = [path for path in receiver.inbox.iterdir() if path.name.split(".")[0].split(" (")[0] == stem]
        if not found:
            raise Failure(f"{source.name} was sent and is not in the inbox")
        for path in found:
            if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
                raise Failure(f"{path.name} has other content than was sent")
            path.unlink()
        source.unlink()
        self.counts[kind] += 1

    def send_note(self, sender, receiver, number):
        note = self.place / f"from-{sender.name}" / f"{sender.name}-note-{number}.opus"
        note.parent.mkdir(exist_ok=True)
        samples = os.urandom(16_000 * 2)
        result = sender.peer.run("voice", "--input", "-", "--raw", "--no-trim", "-o", note, input=samples)
        if result.returncode != 0:
            raise Failure(f"no voice note: {result.stderr.decode()[-300:]}")
        self.deliver(sender, receiver, note, hashlib.sha256(note.read_bytes()).hexdigest(), "voice notes")

    def send_message(self, sender, receiver, text):
        with self.right_time:
            result = sender.peer.run("message", text, "--to", receiver.name, "--adapter", "none", timeout=300)
        if result.returncode != 0:
            # The node is being started again, or has not seen the other yet.
            self.counts["failed attempts"] += 1
            self.isOver.wait(1)
            return
        self.said[sender.name].add(text)
        self.counts["messages"] += 1

    # MARK: The session

    def begin_session(self):
        one, other = self.members
        for member in self.members:
            member.join()
        one.say("begin")
        one.say("invite", self.cable.addresses[1], other.ready["port"])
        for member in self.members:
            member.running.wait_for("state", lambda event: event["state"] == "connected")

    def talk(self, number):
        """Sends numbered messages to the other member, each as soon as the window has room."""
        member = self.members[number]
        try:
            while not self.isOver.wait(0.05):
                self.sent[number] += 1
                member.say("message", self.sent[number])
                member.running.wait_for("messaged", timeout=120)
        except Exception as error:
            self.failures.append(f"in the session: {error}")
            self.isOver.set()

    def check_session(self):
        """Each message has arrived once, in order, and nobody was ever given up."""
        for number, member in enumerate(self.members):
            expected = [str(each + 1) for each in range(self.sent[1 - number])]
            deadline = time.monotonic() + 120
            while len(member.events("message", "text")) < len(expected) and time.monotonic() < deadline:
                time.sleep(0.5)
            found = member.events("message", "text")
            if found != expected:
                self.failures.append(f"{len(expected)} messages were sent in the session, these arrived: {found[-10:]}")
            if member.events("left", "id") or member.events("restarted", "id"):
                self.failures.append("a member of the session was given up")
            self.counts["session messages"] += len(found)
            # Before the first one it was connected once.
            states = [event["state"] for event in member.running.events if event["event"] == "state"]
            self.counts["session reconnections"] += states.count("connected") - 1

    # MARK: Disturbances

    def disturb(self):
        while not self.isOver.wait(self.random.uniform(5, 20)):
            event = self.random.choice(
                [self.kill, self.kill, self.cut, self.lose, self.fill, self.attack, self.attack, self.jump, self.jump]
            )
            self.counts[event.__name__] += 1
            try:
                event()
            except Exception as error:
                self.failures.append(f"{event.__name__}: {error}")
                self.isOver.set()

    def kill(self):
        self.random.choice(self.nodes).restart()

    def cut(self):
        loss, self.cable.loss = self.cable.loss, 1.0
        self.isOver.wait(self.random.uniform(1, 20))
        self.cable.loss = loss

    def lose(self):
        loss, self.cable.loss = self.cable.loss, 0.1
        self.isOver.wait(10)
        self.cable.loss = loss

    def fill(self):
        node = self.random.choice(self.nodes)
        filler = node.inbox / ".filler"
        with contextlib.suppress(OSError), open(filler, "wb") as file:
            while True:
                file.write(bytes(1 << 20))
        self.isOver.wait(5)
        filler.unlink()

    def jump(self):
        """The clock of a node, and of the program in the session on its machine, is wrong for some time."""
        node = self.random.choice(self.nodes)
        with self.right_time:
            node.clock.set(self.random.choice(JUMPS))
            self.isOver.wait(self.random.uniform(2, 15))
            node.clock.set(0)

    def attack(self):
        node = self.random.choice(self.nodes)
        identity = json.loads(node.peer.run("identity", "show", "--json").stdout)["id"]
        process = subprocess.Popen(
            self.cable.within(
                self.nodes.index(node),
                sys.executable,
                str(SCRIPTS / "flood_peer.py"),
                self.random.choice(list(ATTACKS)),
                str(PORTS[node.name]),
                identity,
                "soak",
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.isOver.wait(5)
        if process.poll() not in (None, 0):
            raise Failure(f"the attack ended: {process.stderr.read().decode()[-300:]}")
        process.kill()
        process.communicate()

    # MARK: The whole

    def run(self, seconds):
        for node in self.nodes:
            node.start()
        for node, other in (self.nodes, self.nodes[::-1]):
            keys = self.place / f"{other.name}.keys"
            for result in (
                other.peer.run("keys", "export", "--output", keys),
                node.peer.run("keys", "import", keys, "--for", other.name),
            ):
                if result.returncode != 0:
                    raise Failure(result.stderr.decode())
        workers = [threading.Thread(target=self.traffic, args=(*self.nodes, self.random.random()))]
        workers += [threading.Thread(target=self.traffic, args=(*self.nodes[::-1], self.random.random()))]
        # The first exchange fills what is filled once.
        for node, other in (self.nodes, self.nodes[::-1]):
            self.send_file(node, other, f"first-{node.name}.bin", 4_000_000)
        before = [node.figures() for node in self.nodes]
        self.begin_session()
        workers += [threading.Thread(target=self.talk, args=(number,)) for number in range(2)]
        workers.append(threading.Thread(target=self.disturb))
        for worker in workers:
            worker.start()
        self.isOver.wait(seconds)
        self.isOver.set()
        for worker in workers:
            worker.join()
        self.cable.loss = 0
        self.check_messages()
        self.check_session()
        for node, old in zip(self.nodes, before, strict=True):
            if node.running.process.poll() is not None:
                self.failures.append(f"{node.name} has ended: {node.running.process.returncode}\n{node.running.story()}")
                continue
            new = node.figures()
            print(f"{node.name}: {old} at the start, {new} at the end")
            self.compare(node, old, new)
        print(json.dumps(dict(sorted(self.counts.items()))))
        for failure in self.failures:
            print(f"FAILED: {failure}")
        return not self.failures

    def check_messages(self):
        """Each message that a command has handed to its node arrives once."""
        deadline = time.monotonic() + 180
        for sender, receiver in (self.nodes, self.nodes[::-1]):
            while True:
                lines = receiver.peer.run("messages", "--json").stdout.decode().splitlines()
                texts = collections.Counter((json.loads(line).get("content") or {}).get("text") for line in lines)
                missing = [text for text in self.said[sender.name] if texts[text] == 0]
                if not missing or time.monotonic() > deadline:
                    break
                time.sleep(2)
            self.failures += [f"the message {text!r} did not arrive" for text in missing[:5]]
            self.failures += [
                f"the message {text!r} arrived {texts[text]} times" for text in self.said[sender.name] if texts[text] > 1
            ]

    def compare(self, node, old, new):
        for key, limit in (
            ("MiB", MAXIMUM_GROWTH_BYTES >> 20),
            ("threads", MAXIMUM_GROWTH_THREADS),
            ("descriptors", MAXIMUM_GROWTH_DESCRIPTORS),
            ("staged", 16),
        ):
            if new[key] > old[key] + limit:
                self.failures.append(f"{node.name}: {key} grew from {old[key]} to {new[key]}")


def main():
    if not is_possible():
        sys.exit("soak needs root and /dev/net/tun")
    seed = OPTIONS.seed if OPTIONS.seed is not None else random.SystemRandom().getrandbits(32)
    print(f"seed {seed}", flush=True)
    place = pathlib.Path(tempfile.mkdtemp(prefix="nearshare-soak-"))
    with Cable(delay=0.005, rate=80e6, loss=0.01, seed=seed) as cable:
        soak = Soak(place, cable, seed)
        try:
            isSound = soak.run(OPTIONS.hours * 3600)
        finally:
            for member in soak.members:
                member.stop_all()
            for node in soak.nodes:
                node.peer.stop_all()
                subprocess.run(["umount", "-l", str(node.inbox)], check=False)
            subprocess.run(["rm", "-rf", str(place)], check=False)
    sys.exit(0 if isSound else 1)


if __name__ == "__main__":
    main()
