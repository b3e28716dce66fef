"""A hotspot of the real NetworkManager: a phone joins it by the text of the QR code, and uses the page."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "Scripts"), str(HERE)]

from phone import TIMEOUT, Phone, output, preparing, run, wait_until  # noqa: E402

import harness  # noqa: E402
from harness import Peer, Story  # noqa: E402

INSIDE = pathlib.Path("/run/radio").exists()
BUILT = pathlib.Path(os.environ.get("NEARSHARE_BUILD", HERE.parents[1] / ".build/debug"))
# In the emulated machine, about every second access point does not start while others use the processors.
ATTEMPTS = 6
USER = "nobody"
SECRET = "the office network"
CONFIGURATION = """
[main]
plugins=keyfile
auth-polkit=true
[device]
wifi.scan-rand-mac-address=no
"""
# What a desktop session gives its user.
RULE = """
polkit.addRule(function(action, subject) {
    if (action.id.indexOf("org.freedesktop.NetworkManager.") === 0 && subject.user === "nobody") return polkit.Result.YES;
});
"""
# NetworkManager asks it before and after each connection, and waits 25 s where systemd does not start it.
DISPATCHER = ("/usr/lib/NetworkManager/nm-dispatcher", "--persist")
RULES = pathlib.Path("/etc/polkit-1/rules.d/50-nearshare-tests.rules")
SHARE = "org.freedesktop.NetworkManager.wifi.share.protected"
# The page as a browser on the phone opens it: commands on the command line, so that it runs in the phone's namespace.
BROWSER = """
import sys
from page_browser import SENDING, STORED, PageBrowser
action, url, path = sys.argv[1:]
browser = PageBrowser(url)
assert browser.hello() == 200
if action == "upload":
    assert browser.upload([(b"photo.jpg", open(path, "rb").read(), False)]) == STORED
else:
    assert browser.ask() == 200
    browser.wait(SENDING)
    open(path, "wb").write(browser.download(1))
    assert browser.received(1) == 200
"""


class User(Peer):
    """An unprivileged user."""

    def __init__(self, home):
        super().__init__(home)
        shutil.chown(self.home, USER)

    def command(self, *arguments):
        # Not runuser, which would stay as the parent of the process to kill.
        within = ["setpriv", "--reuid", USER, "--regid", "nogroup", "--clear-groups", "/run/nearshare"]
        return [*within, *(str(word) for word in arguments)]


@unittest.skipUnless(INSIDE, "runs inside the machine that Tests/Radio/machine.py boots")
class HotspotStory(Story):
    @classmethod
    def setUpClass(cls):
        with preparing():
            cls.start_daemons()

    @classmethod
    def start_daemons(cls):
        harness.TIMEOUT = TIMEOUT
        shutil.copy(BUILT / "nearshare", "/run/nearshare")
        os.chmod("/run/nearshare", 0o755)
        cls.shared = pathlib.Path("/run/hotspot")
        cls.shared.mkdir()
        (cls.shared / "manager.conf").write_text(CONFIGURATION)
        cls.phone = Phone("phone", "wlan1", cls.shared)
        cls.office = Phone("office", "wlan2", cls.shared)
        cls.office.serve("Office", SECRET)
        RULES.parent.mkdir(parents=True, exist_ok=True)
        RULES.write_text(RULE)
        cls.daemons = [
            cls.daemon("/usr/lib/polkit-1/polkitd", "--no-debug"),
            cls.daemon("/sbin/wpa_supplicant", "-u"),
            cls.daemon(*DISPATCHER),
            cls.daemon("/usr/sbin/NetworkManager", "--no-daemon", "--config", cls.shared / "manager.conf"),
        ]
        wait_until(lambda: cls.device().get("wlan0") in ("disconnected", "connected"), "NetworkManager", TIMEOUT)
        options = ["ipv4.method", "manual", "ipv4.addresses", "10.9.0.2/24", "ipv6.method", "disabled"]
        security = ["wifi-sec.key-mgmt", "wpa-psk", "wifi-sec.psk", SECRET]
        profile = ["type", "wifi", "con-name", "Office", "ifname", "wlan0", "ssid", "Office"]
        run("nmcli", "connection", "add", *profile, *security, *options)
        cls.await_office()
        cls.await_permission(True)

    @classmethod
    def await_permission(cls, is_given):
        """polkit reads its rules a moment after they have changed."""
        command = [
            "setpriv",
            "--reuid",
            USER,
            "--regid",
            "nogroup",
            "--clear-groups",
            "nmcli",
            "--terse",
            "general",
            "permissions",
        ]

        def has_changed():
            shown = output(*command)
            return f"{SHARE}:" in shown and (f"{SHARE}:yes" in shown) == is_given

        wait_until(has_changed, f"{'yes' if is_given else 'no'} of polkit", TIMEOUT)

    @classmethod
    def daemon(cls, *command):
        # Kept with those of the machine (RADIO_KEEP).
        log = open(f"/run/radio/{pathlib.Path(command[0]).name}.log", "wb")  # noqa: SIM115
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        return process

    @classmethod
    def tearDownClass(cls):
        cls.phone.leave()
        cls.office.leave()
        for daemon in reversed(cls.daemons):
            daemon.terminate()
            daemon.wait()

    @staticmethod
    def nmcli(*arguments):
        shown = output("nmcli", "--terse", *arguments)
        return dict(line.split(":", 1) for line in shown.splitlines() if ":" in line)

    @classmethod
    def device(cls):
        return cls.nmcli("--fields", "device,state", "device")

    @classmethod
    def await_office(cls):
        def is_there():
            # A connection that is being activated counts as active, though its device may have joined no network yet.
            active = cls.nmcli("--fields", "name,device", "connection", "show", "--active")
            return active.get("Office") == "wlan0" and "SSID: Office" in run("iw", "dev", "wlan0", "link")

        wait_until(is_there, "the connection to the office", TIMEOUT)

    def people(self):
        os.chmod(self.place, 0o755)
        self.anna, self.ben = User(self.place / "anna"), User(self.place / "ben")
        self.addCleanup(self.phone.leave)

    def run(self, result=None):
        begun = time.monotonic()
        outcome = super().run(result)
        print(f"    {time.monotonic() - begun:.1f} s", file=sys.stderr, flush=True)
        return outcome

    def start_receive(self):
        arguments = ["--json", "--name", "anna", "--adapter", "none", "--no-localsend", "--inbox", self.anna.inbox]
        return self.anna.start("receive", "--qr", "--hotspot", "--leave-wifi", "--accept", "all", *arguments)

    def begin(self, start):
        """Starts a command whose hotspot runs. Returns the process, the event and the address of the page."""
        for _ in range(ATTEMPTS):
            running = start()
            try:
                return running, running.wait_for("hotspot"), running.wait_for("page")["url"]
            except AssertionError:
                # On a starved machine NetworkManager gives wpa_supplicant up before it has answered.
                if "did not start it" not in running.story():
                    raise
                print(running.story(), file=sys.stderr)
                self.await_office()
        raise AssertionError(f"{ATTEMPTS} times no hotspot was started")

    def browse(self, action, url, path):
        self.phone.run("/usr/bin/python3", "-c", BROWSER, action, url, path, cwd=HERE.parent / "Scripts", timeout=TIMEOUT)

    def assertEverythingIsBack(self):
        self.await_office()
        wait_until(lambda: not self.phone.is_connected(), "the access point to vanish", TIMEOUT)
        profiles = self.nmcli("--fields", "name,type", "connection", "show")
        self.assertEqual([], [name for name in profiles if name.startswith("nearshare-")])
        self.assertIn("type managed", run("iw", "dev", "wlan0", "info"))
        self.assertEqual("", output("pidof", "dnsmasq"))

    def test_N15_N17_a_phone_joins_by_the_code_uploads_and_a_kill_puts_everything_back(self):
        receiving, hotspot, url = self.begin(self.start_receive)
        self.assertEqual(("wlan0", "Office"), (hotspot["interface"], hotspot["replaced"]))
        self.assertTrue(url.startswith(f"HTTP://{hotspot['address']}:"), url)
        self.phone.join(hotspot["join"], TIMEOUT)
        status = self.phone.status()
        self.assertEqual(("WPA2-PSK", "CCMP", "CCMP"), (status["key_mgmt"], status["pairwise_cipher"], status["group_cipher"]))
        photo = self.file("photo.jpg", 1_500_000)
        self.browse("upload", url, photo)
        self.assertEqual({"photo.jpg": photo.read_bytes()}, self.anna.received())
        self.assertTrue(self.phone.is_connected())
        receiving.signal(signal.SIGKILL)
        receiving.end()
        self.assertEverythingIsBack()

    def test_a_phone_downloads_and_the_end_puts_everything_back(self):
        photo = self.file("photo.jpg", 400_000)
        os.chmod(photo.parent, 0o755)
        arguments = ["--json", "--qr", "--hotspot", "--leave-wifi", "--accept", "all"]
        sending, hotspot, url = self.begin(lambda: self.anna.start("send", photo, *arguments))
        self.phone.join(hotspot["join"], TIMEOUT)
        copy = self.shared / "copy.jpg"
        self.browse("download", url, copy)
        self.assertEqual(photo.read_bytes(), copy.read_bytes())
        self.assertEqual(0, sending.end())
        self.assertEverythingIsBack()

    def test_a_user_who_takes_the_device_back_ends_the_command(self):
        receiving, _, _ = self.begin(self.start_receive)
        run("nmcli", "connection", "up", "Office")
        self.assertEqual(1, receiving.end())
        self.assertIn("wlan0 was disconnected, or has another connection", receiving.story())
        self.await_office()

    def test_Wi_Fi_that_is_switched_off_ends_the_command_and_the_next_one_says_so(self):
        receiving, _, _ = self.begin(self.start_receive)
        run("nmcli", "radio", "wifi", "off")
        self.assertEqual(1, receiving.end())
        self.assertIn("the hotspot has ended", receiving.story())
        receiving = self.start_receive()
        self.assertEqual(1, receiving.end())
        self.assertIn("Wi-Fi is switched off; `nmcli radio wifi on`", receiving.story())
        run("nmcli", "radio", "wifi", "on")
        # The switch is that of the whole machine: the other end was off as well.
        self.office.leave()
        self.office.serve("Office", SECRET)
        self.await_office()

    def test_a_user_without_the_right_changes_nothing(self):
        RULES.unlink()
        try:
            self.await_permission(False)
            # Nobody is there to give the administrator's password.
            receiving = self.start_receive()
            self.assertEqual(1, receiving.end())
            self.assertIn("this user may not make a Wi-Fi network", receiving.story())
            self.await_office()
        finally:
            RULES.write_text(RULE)
            self.await_permission(True)


if __name__ == "__main__":
    unittest.main()
