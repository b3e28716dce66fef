"""Runs the real executable as users do: several peers with separate home directories, on one machine or on several made of
network namespaces. Nothing here sleeps to wait for an event: events are read until a deadline."""

import contextlib
import hashlib
import json
import os
import pathlib
import queue
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = pathlib.Path(os.environ.get("NEARSHARE", ROOT / ".build/debug/nearshare"))
# Default timeout in seconds, read when a function is called: the Bluetooth tests, on an emulated machine, raise it.
TIMEOUT = 30


class Running:
    """A process whose standard output is JSON events, one per line."""

    def __init__(self, process):
        self.process = process
        self.events = []
        self._fresh = queue.Queue()
        self.errors = []
        self._threads = [
            threading.Thread(target=self._read_events, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _read_events(self):
        for line in self.process.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                event = {"event": "not-json", "line": line}
            self.events.append(event)
            self._fresh.put(event)
        self._fresh.put(None)

    def _read_errors(self):
        for line in self.process.stderr:
            self.errors.append(line)

    def wait_for(self, name, test=lambda event: True, timeout=None):
        """Returns the next event of that name for which the test holds."""
        timeout = TIMEOUT if timeout is None else timeout
        deadline = time.monotonic() + timeout
        while True:
            left = deadline - time.monotonic()
            try:
                event = self._fresh.get(timeout=max(left, 0))
            except queue.Empty:
                raise AssertionError(f"no event {name!r} within {timeout} s\n{self.story()}") from None
            if event is None:
                raise AssertionError(f"ended before an event {name!r}\n{self.story()}")
            if event["event"] == name and test(event):
                return event

    def signal(self, number):
        self.process.send_signal(number)

    def end(self, timeout=None):
        """Waits for the end of the process; returns the exit code."""
        timeout = TIMEOUT if timeout is None else timeout
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"did not end within {timeout} s\n{self.story()}") from None
        for thread in self._threads:
            thread.join(5)
        return code

    def story(self):
        # Of the progress only the end: it hides the other events.
        last = self.events[-5:]
        events = [event for event in self.events[:-5] if event["event"] != "progress"][-15:] + last
        events = "\n".join(json.dumps(event) for event in events)
        return f"events:\n{events}\nmessages:\n{''.join(self.errors[-20:])}"


class Peer:
    """One user: a home directory, and the network namespace of the machine."""

    runs = Running

    def __init__(self, home, namespace=None):
        self.home = pathlib.Path(home)
        self.home.mkdir(parents=True, exist_ok=True)
        self.inbox = self.home / "Inbox"
        self.namespace = namespace
        self.hidden = []
        # The soft limit of descriptors that commands start with; the hard limit stays.
        self.soft_descriptor_limit = None
        self.started = []

    def environment(self):
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(self.home / "state"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "SWIFT_BACKTRACE": "enable=no",
            "TERM": "xterm",
        }

    def hide(self, library):
        """Hides a library, as if it were not installed; needs root."""
        found = [
            line.split()[-1]
            for line in subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout.splitlines()
            if line.split()[0] == library
        ]
        self.hidden += found

    def command(self, *arguments):
        within = ["ip", "netns", "exec", self.namespace] if self.namespace else []
        if self.hidden:
            covers = "".join(f"mount --bind /dev/null {path} && " for path in self.hidden)
            within += ["unshare", "--mount", "sh", "-c", covers + 'exec "$@"', "sh"]
        if self.soft_descriptor_limit:
            within += ["prlimit", f"--nofile={self.soft_descriptor_limit}:"]
        return [*within, str(BINARY), *(word if isinstance(word, bytes) else str(word) for word in arguments)]

    def start(self, *arguments, stdin=subprocess.DEVNULL):
        process = subprocess.Popen(
            self.command(*arguments),
            env=self.environment(),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        running = self.runs(process)
        self.started.append(running)
        return running

    def run(self, *arguments, input=None, timeout=60):
        try:
            return subprocess.run(
                self.command(*arguments),
                env=self.environment(),
                input=input,
                capture_output=True,
                timeout=timeout,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired as error:
            # The exception names the command only.
            said = b"".join(part or b"" for part in (error.stdout, error.stderr)).decode(errors="replace")
            raise AssertionError(f"{error}; it said:\n{said}") from None

    def receive(self, *arguments, accept="all", name="anna"):
        running = self.start("receive", "--json", "--name", name, "--accept", accept, "--inbox", self.inbox, *arguments)
        running.ready = running.wait_for("ready")
        running.address = f"127.0.0.1:{running.ready['port']}"
        return running

    def stop_all(self):
        for running in self.started:
            if running.process.poll() is None:
                running.process.kill()
            running.process.wait()
            for stream in (running.process.stdin, running.process.stdout, running.process.stderr):
                if stream:
                    stream.close()

    def received(self):
        """Returns the files in the inbox: relative path and content."""
        return (
            {
                str(path.relative_to(self.inbox)): path.read_bytes()
                for path in sorted(self.inbox.rglob("*"))
                if path.is_file() and not path.is_symlink()
            }
            if self.inbox.exists()
            else {}
        )


class Story(unittest.TestCase):
    """A test with a temporary directory and two users, on one machine."""

    def setUp(self):
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="nearshare-test-"))
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        self.seed = int(os.environ.get("NEARSHARE_SEED", random.SystemRandom().getrandbits(32)))
        self.random = random.Random(self.seed)
        self.people()
        self.addCleanup(self.anna.stop_all)
        self.addCleanup(self.ben.stop_all)

    def people(self):
        self.anna = Peer(self.place / "anna")
        self.ben = Peer(self.place / "ben")

    def file(self, name, size):
        path = self.place / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.random.randbytes(size))
        return path

    def assertCode(self, code, result):
        words = result.stderr.decode(errors="replace")
        self.assertEqual(code, result.returncode, f"seed {self.seed}\n{words}")


class CableStory(Story):
    """A test with two users, each on a machine of their own, with a cable between the two."""

    def people(self):
        self.network = self.enterContext(MachinesInARow())
        self.anna = Peer(self.place / "anna", self.network.names[0])
        self.ben = Peer(self.place / "ben", self.network.names[1])


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def address_of(receiver):
    """Waits until a `receive` without --json names its port. On a machine without Landlock, a warning comes first."""
    for line in receiver.stderr:
        line = line if isinstance(line, str) else line.decode()
        if found := re.search(r"on port (\d+)", line):
            return f"127.0.0.1:{found[1]}"
    raise AssertionError("ended before it was ready")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def wait_until(test, what, timeout=TIMEOUT):
    """Waits until the test holds."""
    deadline = time.monotonic() + timeout
    while not test():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout} s for {what}")
        time.sleep(0.02)


def has_namespaces():
    return os.geteuid() == 0 and shutil.which("ip") is not None


class MachinesInARow:
    """Network namespaces, each connected to the next by a cable (a veth pair) with its own network. Nothing is routed: only
    neighbours reach each other. Cables can be slowed down and cut."""

    def __init__(self, count=2):
        tag = f"{os.getpid() % 100000:x}{random.SystemRandom().getrandbits(12):03x}"
        self.names = [f"ns-{number}-{tag}" for number in range(count)]
        self.cables = [(f"l{number}{tag}"[:15], f"r{number}{tag}"[:15]) for number in range(count - 1)]

    def __enter__(self):
        try:
            for name in self.names:
                ip("netns", "add", name)
                ip("-n", name, "link", "set", "lo", "up")
            for number, (left, right) in enumerate(self.cables):
                ends = (self.names[number], left), (self.names[number + 1], right)
                ip("link", "add", left, "netns", ends[0][0], "type", "veth", "peer", "name", right, "netns", ends[1][0])
                for host, (name, link) in enumerate(ends, 1):
                    ip("-n", name, "addr", "add", f"10.77.{number}.{host}/24", "dev", link)
                    ip("-n", name, "link", "set", link, "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in self.names:
            with contextlib.suppress(subprocess.CalledProcessError):
                ip("netns", "delete", name)

    def cut(self, cable=0):
        ip("-n", self.names[cable], "link", "set", self.cables[cable][0], "down")

    def mend(self, cable=0):
        ip("-n", self.names[cable], "link", "set", self.cables[cable][0], "up")

    def renumber(self, machine, address):
        """Gives the end of the first cable at a machine another address."""
        end = self.cables[0][machine]
        ip("-n", self.names[machine], "addr", "flush", "dev", end)
        ip("-n", self.names[machine], "addr", "add", address, "dev", end)

    def connect(self, one, other):
        """Connects two machines by another cable, whose ends have link-local IPv6 addresses only."""
        ends = [(self.names[machine], f"x{machine}{self.names[0][5:]}"[:15]) for machine in (one, other)]
        (left, left_link), (right, right_link) = ends
        ip("link", "add", left_link, "netns", left, "type", "veth", "peer", "name", right_link, "netns", right)
        for name, link in ends:
            ip("-n", name, "link", "set", link, "up")

    def slow(self, rate, cable=0):
        for name, link in zip(self.names[cable:], self.cables[cable], strict=False):
            subprocess.run(
                [
                    "ip",
                    "netns",
                    "exec",
                    name,
                    "tc",
                    "qdisc",
                    "replace",
                    "dev",
                    link,
                    "root",
                    "tbf",
                    "rate",
                    rate,
                    "burst",
                    "64kb",
                    "latency",
                    "100ms",
                ],
                check=True,
            )


class MachinesOnASwitch:
    """Network namespaces on one switch, a bridge in a namespace of its own, with link-local IPv6 addresses only."""

    def __init__(self, count):
        tag = f"{os.getpid() % 100000:x}{random.SystemRandom().getrandbits(12):03x}"
        self.switch = f"sw-{tag}"
        self.names = [f"ns-{number}-{tag}" for number in range(count)]
        self.links = [f"e{number}{tag}"[:15] for number in range(count)]

    def __enter__(self):
        try:
            ip("netns", "add", self.switch)
            ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
            ip("-n", self.switch, "link", "set", "bridge", "up")
            for number, (name, link) in enumerate(zip(self.names, self.links, strict=True)):
                ip("netns", "add", name)
                ip("-n", name, "link", "set", "lo", "up")
                ip("link", "add", link, "netns", name, "type", "veth", "peer", "name", f"port{number}", "netns", self.switch)
                ip("-n", self.switch, "link", "set", f"port{number}", "master", "bridge", "up")
                ip("-n", name, "link", "set", link, "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in (*self.names, self.switch):
            with contextlib.suppress(subprocess.CalledProcessError):
                ip("netns", "delete", name)

    def address(self, machine):
        """Returns the link-local address of a machine, once it may be used."""

        def usable():
            shown = subprocess.run(
                ["ip", "-n", self.names[machine], "-j", "-6", "addr", "show", "dev", self.links[machine]],
                check=True,
                capture_output=True,
                text=True,
            )
            infos = [info for link in json.loads(shown.stdout) for info in link.get("addr_info", [])]
            return [info["local"] for info in infos if not info.get("tentative")]

        wait_until(usable, "a link-local address")
        return usable()[0]


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


INTERRUPT = signal.SIGINT
