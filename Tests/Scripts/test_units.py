"""The systemd user units, run by a user manager: what they forbid must not hinder what they are for."""

import json
import os
import pathlib
import subprocess
import unittest

from desktop import Desktop, DesktopPeer, needs_desktop
from harness import BINARY, Peer, Story, wait_until

UNITS = pathlib.Path(__file__).parents[2] / "docs"
SYSTEMD = "/lib/systemd/systemd"
# The manager asks whether the machine was booted with systemd. As process 1 of a namespace it would be a system manager.
BEGIN = """
mkdir -p /run/systemd
mount -t tmpfs tmpfs /run/systemd
mkdir /run/systemd/system
# What the system manager makes, and takes the place of forbidden files.
mkdir -m 0 -p /run/systemd/inaccessible/dir
touch /run/systemd/inaccessible/reg
python3 -c 'import os, stat; os.mknod("/run/systemd/inaccessible/sock", stat.S_IFSOCK)'
"$0" --user --log-target=console &
wait
"""


class UserManager:
    """systemd for one user, in a process namespace of its own: its end is that of all its services."""

    def __init__(self, environment):
        self.environment = environment
        runtime = pathlib.Path(environment["XDG_RUNTIME_DIR"])
        runtime.mkdir(mode=0o700, parents=True)
        space = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        self.log = (runtime.parent / "manager.log").open("w")
        self.process = subprocess.Popen(
            [*space, "sh", "-c", BEGIN, SYSTEMD], env=environment, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log
        )
        try:
            wait_until(lambda: (runtime / "systemd" / "private").exists(), "the user manager", 10)
        except AssertionError:
            self.close()
            raise unittest.SkipTest("no user manager can be started here") from None

    def run(self, *command):
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        enter = ["nsenter", "--target", children.read_text().split()[0], "--mount", "--pid", "--"]
        return subprocess.run(
            [*enter, "systemctl", "--user", "--no-pager", *command],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def property(self, unit, name):
        return self.run("show", "--value", f"--property={name}", unit).stdout.strip()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


NEEDED = [SYSTEMD, "/usr/bin/nsenter", "/usr/lib/systemd/user/dbus.socket"]
is_possible = os.geteuid() == 0 and all(map(os.path.exists, NEEDED))


class UserPeer(DesktopPeer):
    """A user whose commands find the node of the unit."""

    def environment(self):
        return super().environment() | {"XDG_RUNTIME_DIR": str(self.home / "run")}


@needs_desktop
@unittest.skipUnless(is_possible, f"needs root, {', '.join(NEEDED)}")
class UnitStory(Story):
    def people(self):
        self.anna, self.ben = UserPeer(self.place / "anna"), Peer(self.place / "ben")
        self.desktop = Desktop(self.place / "desktop")
        self.addCleanup(self.desktop.close)
        for peer in (self.anna, self.ben):
            self.assertCode(0, peer.run("identity", "rename", peer.home.name))

    def begin(self, accept):
        """Installs the units as a package does, and starts the node."""
        folder = self.anna.home / "config" / "nearshare"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.toml").write_text(f'inbox = "{self.anna.inbox}"\naccept = "{accept}"\n')
        prefix = self.place / "prefix"
        (prefix / "bin").mkdir(parents=True)
        (prefix / "bin" / "nearshare").symlink_to(BINARY)
        units = self.anna.home / "config" / "systemd" / "user"
        units.mkdir(parents=True)
        for unit in UNITS.glob("*.service"):
            (units / unit.name).write_text(unit.read_text().replace("@PREFIX@", str(prefix)))
        environment = self.anna.environment() | {"DISPLAY": self.desktop.variables["DISPLAY"]}
        self.manager = UserManager(environment)
        self.addCleanup(self.manager.close)
        bus = self.anna.home / "run" / "bus"
        wait_until(bus.exists, "the session bus")
        # Programs of the desktop use the bus of the manager.
        self.desktop.variables["DBUS_SESSION_BUS_ADDRESS"] = f"unix:path={bus}"
        self.desktop.start_server()
        started = self.manager.run("start", "nearshare")
        self.assertEqual(0, started.returncode, started.stderr)
        self.await_node()

    def status(self):
        result = self.anna.run("mesh", "status", "--json")
        return json.loads(result.stdout) if result.returncode == 0 else None

    def await_node(self):
        wait_until(lambda: (self.status() or {}).get("port"), "the node of the unit")

    @property
    def address(self):
        return f"127.0.0.1:{self.status()['port']}"

    def test_the_node_receives_is_started_again_after_a_crash_and_stops(self):
        self.begin("all")
        for number in (1, 2):
            photo = self.file(f"{number}.jpg", 2_000_000)
            self.assertCode(0, self.ben.run("send", photo, "--to", self.address))
            self.assertEqual(photo.read_bytes(), self.anna.received()[photo.name])
            if number == 1:
                first = self.manager.property("nearshare", "MainPID")
                self.assertEqual(0, self.manager.run("kill", "--signal=KILL", "nearshare").returncode)
                wait_until(lambda first=first: self.manager.property("nearshare", "MainPID") not in (first, "0"), "a restart")
                self.await_node()
        self.assertEqual("1", self.manager.property("nearshare", "NRestarts"))
        self.assertEqual(0, self.manager.run("stop", "nearshare").returncode)
        self.assertEqual(
            ["inactive", "success"], [self.manager.property("nearshare", name) for name in ("ActiveState", "Result")]
        )

    def test_a_notification_asks_about_what_the_node_of_the_unit_is_offered(self):
        self.begin("ask")
        wait_until(lambda: self.manager.property("nearshare-notify", "ActiveState") == "active", "the notifications")
        photo = self.file("photo.jpg", 20_000)
        sending = self.ben.start("send", "--json", photo, "--to", self.address)
        self.desktop.await_shown()
        self.desktop.press("Accept")
        self.assertEqual("completed", sending.wait_for("finished")["outcome"])
        self.assertEqual({photo.name: photo.read_bytes()}, self.anna.received())


if __name__ == "__main__":
    unittest.main()
