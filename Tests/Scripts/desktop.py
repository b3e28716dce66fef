"""A desktop without a screen: a session bus, Xvfb, and the notification daemon dunst."""

import os
import pathlib
import shutil
import subprocess
import unittest

from harness import Peer, Story, wait_until

TOOLS = ["dbus-daemon", "Xvfb", "dunst", "dunstctl"]
has_desktop = all(shutil.which(tool) for tool in TOOLS)

# The menu of the daemon, in which it asks for the action of a notification: chooses the one that the test has named.
MENU = """#!/bin/sh
cat > "{place}/menu.offered"
grep -m 1 "^#$(cat "{place}/menu.wanted") (" "{place}/menu.offered"
"""
CONFIGURATION = """[global]
    dmenu = {place}/menu
    markup = full
    width = 460
    height = 400
    offset = 10x10
    font = Sans 11
    notification_limit = 20
    layer = top
    frame_width = 1
"""


BUS = """<busconfig>
  <type>session</type>
  <listen>unix:dir={place}</listen>
  <policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy>
</busconfig>
"""


class DesktopPeer(Peer):
    """A user whose commands find the desktop."""

    desktop = None

    def environment(self):
        return super().environment() | (self.desktop.variables if self.desktop else {})


class Desktop:
    """The programs of one desktop; `close` ends them."""

    def __init__(self, place):
        self.place = pathlib.Path(place)
        self.place.mkdir(parents=True, exist_ok=True)
        self.processes = []
        self.server = None
        self.variables = {"DISPLAY": self._start_display(), "DBUS_SESSION_BUS_ADDRESS": self._start_bus()}
        menu = self.place / "menu"
        menu.write_text(MENU.format(place=self.place))
        menu.chmod(0o755)
        (self.place / "dunstrc").write_text(CONFIGURATION.format(place=self.place))

    def environment(self):
        home = {"HOME": str(self.place), "PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(self.place)}
        return home | getattr(self, "variables", {})

    def start(self, *command, **options):
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | options
        process = subprocess.Popen([str(word) for word in command], env=self.environment(), **options)
        self.processes.append(process)
        return process

    def run(self, *command):
        return subprocess.run(
            [str(word) for word in command], env=self.environment(), capture_output=True, text=True, timeout=30, check=False
        )

    def _start_display(self):
        reading, writing = os.pipe()
        self.start("Xvfb", "-displayfd", writing, "-screen", "0", "1000x800x24", "-nolisten", "tcp", pass_fds=[writing])
        os.close(writing)
        with os.fdopen(reading) as pipe:
            return f":{pipe.readline().strip()}"

    def _start_bus(self):
        # Starts no service by itself.
        (self.place / "bus.conf").write_text(BUS.format(place=self.place))
        options = ["--nofork", "--print-address", f"--config-file={self.place}/bus.conf"]
        bus = self.start("dbus-daemon", *options, stdout=subprocess.PIPE)
        with bus.stdout:
            return bus.stdout.readline().decode().strip()

    def start_server(self):
        self.server = self.start("dunst", "-conf", self.place / "dunstrc")
        wait_until(lambda: self.run("dunstctl", "is-paused").returncode == 0, "dunst")

    def stop_server(self):
        self.server.kill()
        self.server.wait()

    @property
    def count(self):
        """The notifications that are shown, and those that have been."""
        shown, history = (int(self.run("dunstctl", "count", kind).stdout or 0) for kind in ("displayed", "history"))
        return shown, history

    def await_shown(self, count=1):
        wait_until(lambda: self.count[0] == count, f"{count} notifications; there are {self.count}")

    def press(self, label):
        """Presses a button of a notification that is shown."""
        (self.place / "menu.wanted").write_text(label)
        self.run("dunstctl", "context")

    def close(self):
        for process in reversed(self.processes):
            process.kill()
            process.wait()


class DesktopStory(Story):
    """A test in which anna has a desktop, and both have the names of their folders."""

    def people(self):
        self.desktop = Desktop(self.place / "desktop")
        self.addCleanup(self.desktop.close)
        self.anna = DesktopPeer(self.place / "anna")
        self.anna.desktop = self.desktop
        self.ben = Peer(self.place / "ben")
        for peer in (self.anna, self.ben):
            self.assertCode(0, peer.run("identity", "rename", peer.home.name))


needs_desktop = unittest.skipUnless(has_desktop, f"needs {', '.join(TOOLS)}")
