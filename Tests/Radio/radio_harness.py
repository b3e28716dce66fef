"""Unprivileged users with one Bluetooth controller each, in the virtual machine that machine.py boots."""

import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "Tests/Scripts"))

import harness  # noqa: E402
from harness import Peer, Running, Story  # noqa: E402

INSIDE = pathlib.Path("/run/radio").exists()
BUILT = pathlib.Path(os.environ.get("NEARSHARE_BUILD", ROOT / ".build/debug"))
PROBE = pathlib.Path("/run/radio-probe")
ADDRESSES = ["00:AA:01:00:00:00", "00:AA:01:01:00:01", "00:AA:01:02:00:02"]
# In seconds: an emulated machine on a busy host is slow.
TIMEOUT = int(os.environ.get("RADIO_TIMEOUT", 90))
# The exit code for a peer that was not found.
PEER_NOT_FOUND = 3


def unprivileged(*command):
    # Not runuser, which would stay as the parent of the process to kill.
    return ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", *map(str, command)]


def bring(name, place):
    """Copies a program to where every user may run it and starts are fast."""
    if not place.exists():
        shutil.copy(BUILT / name, place)
        place.chmod(0o755)


class RadioRunning(Running):
    def wait_for_message(self, text, timeout=None):
        """Waits for a log line that contains the text."""
        timeout = TIMEOUT if timeout is None else timeout
        end = time.monotonic() + timeout
        while not any(text in line for line in list(self.errors)):
            if time.monotonic() > end or self.process.poll() is not None:
                raise AssertionError(f"no message {text!r} within {timeout} s\n{self.story()}")
            time.sleep(0.05)


class RadioPeer(Peer):
    runs = RadioRunning

    def __init__(self, home, adapter):
        """Without an adapter, nearshare chooses one."""
        super().__init__(home)
        self.adapter = adapter
        shutil.chown(self.home, "nobody")

    def command(self, *arguments):
        uses = arguments[0] in ("send", "receive", "browse", "doctor", "message", "chat") or arguments[:2] == (
            "mesh",
            "run",
        )
        adapter = ["--adapter", self.adapter] if uses and self.adapter else []
        # Failures show the radio's log.
        adapter += ["-vv"] if uses and arguments[0] not in ("browse", "doctor") else []
        return unprivileged(harness.BINARY, *arguments, *adapter)

    def receive(self, *arguments, accept="all", name="anna", radio=True):
        running = super().receive(*arguments, accept=accept, name=name)
        if radio:
            running.radio = running.wait_for("bluetooth", timeout=TIMEOUT)
        return running

    def mesh(self, *arguments, name):
        running = self.start("mesh", "run", "--json", "--name", name, "--accept", "all", "--inbox", self.inbox, *arguments)
        running.ready = running.wait_for("ready", timeout=TIMEOUT)
        return running


@unittest.skipUnless(INSIDE, "runs inside the machine that Tests/Radio/machine.py boots")
class RadioStory(Story):
    """Stories without a network, of two users unless a test needs more."""

    has_network = False
    count = 2
    adapters = ("hci0", "hci1", "hci2")

    def people(self):
        bring("nearshare", pathlib.Path("/run/nearshare"))
        harness.BINARY = pathlib.Path("/run/nearshare")
        harness.TIMEOUT = TIMEOUT
        os.chmod(self.place, 0o755)
        network(self.has_network)
        wait_for_adapters()
        names = ("anna", "ben", "cleo")[: self.count]
        peers = [RadioPeer(self.place / name, adapter) for name, adapter in zip(names, self.adapters, strict=False)]
        self.anna, self.ben = peers[:2]
        for peer in peers[2:]:
            self.cleo = peer
            self.addCleanup(peer.stop_all)
        self.addCleanup(rest)

    def send_when_found(self, sender, *arguments):
        """Repeats a send until the peer is found: on a loaded machine the search may time out first."""
        end = time.monotonic() + TIMEOUT
        while True:
            result = sender.run("send", *arguments, timeout=2 * TIMEOUT)
            if result.returncode != PEER_NOT_FOUND or time.monotonic() > end:
                return result

    def run(self, result=None):
        begun = time.monotonic()
        outcome = super().run(result)
        print(f"    {time.monotonic() - begun:.1f} s", file=sys.stderr, flush=True)
        return outcome


def tell_air(name, text):
    """Writes a file that air.c reads; None removes it."""
    file = pathlib.Path(os.environ["RADIO_AIR"]) / name
    if text is None:
        file.unlink(missing_ok=True)
        return
    new = file.with_suffix(".new")
    new.write_text(text)
    new.rename(file)


def network(is_on):
    subprocess.run(["ip", "link", "set", "lo", "up" if is_on else "down"], check=True)


def rest():
    """Disconnects and removes all devices that an interrupted test has left."""
    listing = bluez("/", "org.freedesktop.DBus.ObjectManager.GetManagedObjects")
    shown = subprocess.run(listing, capture_output=True, text=True).stdout
    for path in set(re.findall(r'object path "(/org/bluez/hci\d+/dev_\w+)"', shown)):
        subprocess.run(bluez(path, "org.bluez.Device1.Disconnect"), capture_output=True)
        subprocess.run(bluez(path.rsplit("/", 1)[0], "org.bluez.Adapter1.RemoveDevice", f"objpath:{path}"), capture_output=True)


def bluez(path, member, *arguments):
    return ["dbus-send", "--system", "--print-reply", "--dest=org.bluez", path, member, *arguments]


def power(adapter, is_on):
    command = bluez(
        f"/org/bluez/{adapter}",
        "org.freedesktop.DBus.Properties.Set",
        "string:org.bluez.Adapter1",
        "string:Powered",
        f"variant:boolean:{'true' if is_on else 'false'}",
    )
    end = time.monotonic() + TIMEOUT
    # A controller that another stack has released takes a moment to appear.
    while (done := subprocess.run(command, capture_output=True, text=True)).returncode and time.monotonic() < end:
        time.sleep(0.2)
    if done.returncode:
        raise AssertionError(done.stderr)


def wait_for_adapters():
    """Waits until all adapters are on: bluetoothd 5.66 sometimes crashes when a program leaves the bus."""
    listing = bluez("/", "org.freedesktop.DBus.ObjectManager.GetManagedObjects")
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        shown = subprocess.run(listing, capture_output=True, text=True).stdout
        if len(re.findall(r'string "Powered"\s+variant\s+boolean true', shown)) == len(ADDRESSES):
            return
        time.sleep(0.1)
    raise AssertionError(f"not all adapters are present and powered on\n{shown}")


def restart_bluetoothd():
    """Stops bluetoothd and waits for the one that the machine starts instead."""
    old = end_bluetoothd()
    end = time.monotonic() + TIMEOUT
    listing = bluez("/", "org.freedesktop.DBus.ObjectManager.GetManagedObjects")
    while time.monotonic() < end:
        new = subprocess.run(["pidof", "bluetoothd"], capture_output=True, text=True).stdout.strip()
        shown = subprocess.run(listing, capture_output=True, text=True).stdout
        if new not in ("", old) and shown.count("org.bluez.GattManager1") >= 2:
            return
        time.sleep(0.1)
    raise AssertionError("bluetoothd does not come back")


def end_bluetoothd():
    """Stops bluetoothd and returns its process id; the machine starts another one unless told not to."""
    old = subprocess.run(["pidof", "bluetoothd"], capture_output=True, text=True, check=True).stdout.strip()
    os.kill(int(old), signal.SIGTERM)
    return old


def is_on_bus(name):
    shown = subprocess.run(
        [
            "dbus-send",
            "--system",
            "--print-reply",
            "--dest=org.freedesktop.DBus",
            "/",
            "org.freedesktop.DBus.NameHasOwner",
            f"string:{name}",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return "true" in shown


def keep_from_bluetoothd(user):
    """Makes the bus deny the user access to bluetoothd; None allows it again."""
    policy = pathlib.Path("/etc/dbus-1/system.d/radio-tests.conf")
    if user:
        policy.write_text(f'<busconfig><policy user="{user}"><deny send_destination="org.bluez"/></policy></busconfig>')
    else:
        policy.unlink(missing_ok=True)
    subprocess.run(
        [
            "dbus-send",
            "--system",
            "--print-reply",
            "--dest=org.freedesktop.DBus",
            "/",
            "org.freedesktop.DBus.ReloadConfig",
        ],
        capture_output=True,
        check=True,
    )


class Probe:
    """A radio-probe process: commands in, tab-separated events out."""

    def __init__(self, adapter):
        bring("radio-probe", PROBE)
        self.lines = []
        self._fresh = queue.Queue()
        self.process = subprocess.Popen(
            unprivileged(PROBE, adapter),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            fields = line.rstrip("\n").split("\t")
            self.lines.append(fields)
            self._fresh.put(fields)
        self._fresh.put(None)

    def tell(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")

    def wait_for(self, name, test=lambda fields: True, timeout=None):
        """Returns the fields of the next event of that name for which the test holds."""
        timeout = TIMEOUT if timeout is None else timeout
        end = time.monotonic() + timeout
        while True:
            try:
                fields = self._fresh.get(timeout=max(0, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no {name} within {timeout} s\n{self.story()}") from None
            if fields is None:
                raise AssertionError(f"ended before {name}\n{self.story()}")
            if fields[0] == name and test(fields[1:]):
                return fields[1:]

    def story(self):
        return "\n".join("\t".join(line) for line in self.lines[-30:])

    def stop(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()
