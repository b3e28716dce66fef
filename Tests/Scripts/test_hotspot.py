"""A hotspot for the phones that open a page: the real tool, and NetworkManager as python-dbusmock plays it, on a bus of its
own. The machine of Tests/Hotspot has the real one, and devices that join."""

import importlib.util
import os
import re
import shutil
import subprocess
import unittest

from desktop import BUS
from harness import INTERRUPT, Peer, Story, wait_until
from page_browser import SENDING, STORED, PageBrowser
from test_questions import Terminal
from test_verification import picture

HAS_MOCK = all(importlib.util.find_spec(name) for name in ("dbus", "dbusmock")) and shutil.which("dbus-daemon")
NAME = "org.freedesktop.NetworkManager"
ROOT, MANAGER = "/org/freedesktop", "/org/freedesktop/NetworkManager"
DEVICE, WIRELESS, ACTIVE = f"{NAME}.Device", f"{NAME}.Device.Wireless", f"{NAME}.Connection.Active"
MOCK = "org.freedesktop.DBus.Mock"
HOTSPOT, HOTSPOT_PROFILE, ADDRESSES = f"{MANAGER}/ActiveConnection/9", f"{MANAGER}/Settings/9", f"{MANAGER}/IP4Config/9"
SHARE = f"{NAME}.wifi.share.protected"
# NMActiveConnectionState, NMDeviceState and NMDeviceStateReason.
ACTIVATING, ACTIVATED, DEACTIVATED = 1, 2, 4
UNMANAGED, UNAVAILABLE, DISCONNECTED, CONNECTED, FAILED = 10, 20, 30, 100, 120
SHARED_START_FAILED, NEW_ACTIVATION = 18, 60
# An address of this machine that nothing else names.
ADDRESS = "127.42.0.1"
JOIN = re.compile(r"WIFI:T:WPA;S:(nearshare-[0-9a-z]{4});P:([0-9a-z]{4}(?:-[0-9a-z]{4}){2});;")


class BusPeer(Peer):
    """A user whose system bus is another one."""

    bus = None

    def environment(self):
        return super().environment() | {"DBUS_SYSTEM_BUS_ADDRESS": self.bus}


@unittest.skipUnless(HAS_MOCK, "needs python3-dbusmock and dbus-daemon")
class HotspotStory(Story):
    def people(self):
        self.anna, self.ben = BusPeer(self.place / "anna"), BusPeer(self.place / "ben")
        self.device = None
        self.address = self.start_bus()
        self.anna.bus = self.ben.bus = self.address

    def spawn(self, *command, **options):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)

        def end():
            process.kill()
            process.wait()

        self.addCleanup(end)
        return process

    def start_bus(self):
        configuration = self.place / "bus.conf"
        configuration.write_text(BUS.format(place=self.place))
        options = ["--nofork", "--print-address", f"--config-file={configuration}"]
        bus = self.spawn("dbus-daemon", *options, stdout=subprocess.PIPE)
        with bus.stdout:
            return bus.stdout.readline().decode().strip()

    def start_manager(self):
        """NetworkManager without devices."""
        import dbus

        self.manager_process = self.spawn(
            "/usr/bin/python3",
            *("-m", "dbusmock", "--system", "--template", "networkmanager"),
            env=os.environ | {"DBUS_SYSTEM_BUS_ADDRESS": self.address},
            stdout=subprocess.DEVNULL,
        )
        self.bus = dbus.bus.BusConnection(self.address)
        self.addCleanup(self.bus.close)
        wait_until(lambda: self.bus.name_has_owner(NAME), "the mock of NetworkManager")
        self.manager = self.object(MANAGER)
        self.answer("GetPermissions", "", "a{ss}", f"ret = {{'{SHARE}': 'yes'}}")
        self.object(ROOT).AddObject(
            ADDRESSES,
            f"{NAME}.IP4Config",
            {"AddressData": dbus.Array([dbus.Dictionary({"address": ADDRESS, "prefix": dbus.UInt32(24)})], "a{sv}")},
            [],
        )
        self.object(ROOT).AddObject(HOTSPOT, ACTIVE, {"Ip4Config": dbus.ObjectPath(ADDRESSES)}, [])
        paths = f"dbus.ObjectPath('{HOTSPOT_PROFILE}'), dbus.ObjectPath('{HOTSPOT}')"
        self.answer("AddAndActivateConnection2", "a{sa{sv}}ooa{sv}", "ooa{sv}", f"ret = ({paths}, dbus.Dictionary({{}}, 'sv'))")
        # The template's own methods would change its objects.
        ended = f"objects[args[0]].EmitSignal('{ACTIVE}', 'StateChanged', 'uu', [dbus.UInt32(4), dbus.UInt32(2)])"
        self.answer("DeactivateConnection", "o", "", ended)
        self.answer("ActivateConnection", "ooo", "o", f"ret = dbus.ObjectPath('{MANAGER}/ActiveConnection/10')")

    def object(self, path):
        import dbus

        return dbus.Interface(self.bus.get_object(NAME, path), MOCK)

    def answer(self, method, takes, gives, code):
        self.manager.AddMethod(NAME, method, takes, gives, code)

    def add_device(self, name="wlan0", state=DISCONNECTED, network=None):
        """A Wi-Fi device, which may be connected to a network."""
        import dbus

        root = self.object(ROOT)
        device = str(root.AddWiFiDevice(name, name, state))
        if network:
            point = root.AddAccessPoint(device, f"{name}ap", network, "00:23:f8:7e:12:bb", 2, 2425, 5400, 82, 0x100)
            self.profile = str(root.AddWiFiConnection(device, f"{name}wifi", network, "wpa-psk"))
            active = root.AddActiveConnection([device], self.profile, point, f"{name}active", ACTIVATED)
            self.manager.AddProperty(NAME, "PrimaryConnection", dbus.ObjectPath(active))
            self.object(device).UpdateProperties(DEVICE, {"State": self.number(CONNECTED)})
        self.device = device
        return device

    def number(self, value):
        import dbus

        return dbus.UInt32(value)

    def change(self, path, interface, **properties):
        self.object(path).UpdateProperties(interface, properties)

    def signal_state(self, state, reason=1):
        self.object(HOTSPOT).EmitSignal(ACTIVE, "StateChanged", "uu", [self.number(state), self.number(reason)])

    def signal_device(self, state, reason):
        numbers = [self.number(number) for number in (state, 50, reason)]
        self.object(self.device).EmitSignal(DEVICE, "StateChanged", "uuu", numbers)

    def calls(self, method):
        return [arguments for _, arguments in self.manager.GetMethodCalls(method)]

    def await_call(self, method):
        wait_until(lambda: self.calls(method), method)
        return self.calls(method)[-1]

    def begin(self, *arguments, **options):
        """anna's `receive` with a hotspot that has started."""
        running = self.start_receive(*arguments, **options)
        self.await_call("AddAndActivateConnection2")
        self.signal_state(ACTIVATING)
        self.signal_state(ACTIVATED)
        return running

    def start_receive(self, *arguments, accept="all"):
        arguments = ["--name", "anna", "--accept", accept, "--inbox", self.anna.inbox, "--adapter", "none", *arguments]
        return self.anna.start("receive", "--json", "--qr", "--hotspot", *arguments)

    def failure(self, *arguments):
        """Returns the exit code and the message of a `receive` that makes no hotspot."""
        result = self.anna.run("receive", "--qr", "--hotspot", "--adapter", "none", "--inbox", self.anna.inbox, *arguments)
        return result.returncode, result.stderr.decode()

    # Success

    def test_a_hotspot_is_shared_with_its_page_and_taken_down_by_ctrl_c(self):
        self.start_manager()
        self.add_device(network="Office")
        anna = self.begin("--leave-wifi")
        hotspot = anna.wait_for("hotspot")
        join = JOIN.fullmatch(hotspot["join"])
        self.assertEqual((hotspot["name"], hotspot["password"]), join.groups())
        self.assertEqual(("wlan0", ADDRESS, "Office"), tuple(hotspot[key] for key in ("interface", "address", "replaced")))
        settings, device, point, options = self.await_call("AddAndActivateConnection2")
        self.assertEqual((self.device, "/"), (device, point))
        self.assertEqual({"persist": "volatile", "bind-activation": "dbus-client"}, options)
        self.assertEqual(bytes(hotspot["name"], "ascii"), bytes(settings["802-11-wireless"]["ssid"]))
        self.assertEqual(("ap", "bg"), tuple(settings["802-11-wireless"][key] for key in ("mode", "band")))
        security = settings["802-11-wireless-security"]
        self.assertEqual(("wpa-psk", hotspot["password"], ["rsn"]), (security["key-mgmt"], security["psk"], security["proto"]))
        self.assertEqual((["ccmp"], ["ccmp"]), (security["pairwise"], security["group"]))
        self.assertEqual(("shared", False), (settings["ipv4"]["method"], bool(settings["connection"]["autoconnect"])))
        url = anna.wait_for("page")["url"]
        self.assertTrue(url.startswith(f"HTTP://{ADDRESS}:"), url)
        browser = PageBrowser(url)
        self.addCleanup(browser.close)
        self.assertEqual(200, browser.hello())
        photo = self.random.randbytes(300_000)
        self.assertEqual(STORED, browser.upload([(b"photo.jpg", photo, False)]))
        self.assertEqual({"photo.jpg": photo}, self.anna.received())
        anna.signal(INTERRUPT)
        self.assertEqual(130, anna.end())
        self.assertEqual([[HOTSPOT]], self.calls("DeactivateConnection"))
        self.assertEqual([[self.profile, self.device, "/"]], self.calls("ActivateConnection"))
        states = [(event["state"], event.get("replaced")) for event in anna.events if event["event"] == "hotspot_state"]
        self.assertEqual([("starting", None), ("ended", "Office")], states)

    def test_a_send_ends_with_its_hotspot_when_the_phone_has_everything(self):
        self.start_manager()
        self.add_device()
        photo = self.random.randbytes(70_000)
        path = self.place / "photo.jpg"
        path.write_bytes(photo)
        # Nothing is taken away and nothing shared: there is no question.
        sending = self.anna.start("send", path, "--json", "--qr", "--hotspot", "--accept", "all")
        self.await_call("AddAndActivateConnection2")
        self.signal_state(ACTIVATED)
        self.assertIsNone(sending.wait_for("hotspot")["replaced"])
        browser = PageBrowser(sending.wait_for("page")["url"])
        self.addCleanup(browser.close)
        self.assertEqual((200, ADDRESS), (browser.hello(), browser.host))
        self.assertEqual(200, browser.ask())
        browser.wait(SENDING)
        self.assertEqual(photo, browser.download(1))
        self.assertEqual(200, browser.received(1))
        browser.close()
        self.assertEqual(0, sending.end())
        self.assertEqual([[HOTSPOT]], self.calls("DeactivateConnection"))
        self.assertEqual([], self.calls("ActivateConnection"))

    def test_the_terminal_asks_and_shows_both_codes_side_by_side(self):
        self.start_manager()
        self.add_device(network="Office")
        command = self.anna.command("receive", "--qr", "--hotspot", "--adapter", "none", "--no-localsend", "--name", "anna")
        terminal = Terminal(self.anna, *command, columns=80, rows=24, variables={"LC_ALL": "C.UTF-8", "NO_COLOR": "1"})
        self.addCleanup(terminal.close)
        question = " ".join(terminal.wait_for(r"[\s\S]*\[n\]o: ")[0].split())
        self.assertIn('takes wlan0 away from the Wi-Fi network "Office" until this command ends', question)
        self.assertEqual([], self.calls("AddAndActivateConnection2"))
        terminal.press("y\r")
        wait_until(lambda: terminal.read(0.05) and self.calls("AddAndActivateConnection2"), "the hotspot")
        self.signal_state(ACTIVATED)
        text = terminal.wait_for(r"[\s\S]*network (nearshare-\w{4}), password ([\w-]{14})\r?\n2\.[\s\S]*?(HTTP://\S+)\s")
        screen = text[0].replace("\r", "").split("\n")
        codes = [line for line in screen if line and set(line) <= set(" ▀▄█") and "█" in line]
        # With three rows below they fit into 24.
        self.assertEqual((19, 78), (len(codes), max(map(len, codes))))
        self.assertEqual([f"WIFI:T:WPA;S:{text[1]};P:{text[2]};;", text[3]], self.scan([line.ljust(78) for line in codes]))
        terminal.press("\x03")
        self.assertEqual(130, terminal.end())
        self.assertEqual(1, len(self.calls("ActivateConnection")))

    @unittest.skipUnless(shutil.which("zbarimg"), "QR codes are read with zbarimg, of Debian's zbar-tools")
    def scan(self, lines):
        """What a camera reads that is held before each half."""
        read = []
        for part in (slice(0, 37), slice(41, 78)):
            path = self.place / "screen.pgm"
            path.write_bytes(picture([line[part] for line in lines], 255))
            result = subprocess.run(["zbarimg", "--quiet", "--raw", path], capture_output=True, timeout=30)
            self.assertEqual(0, result.returncode, result.stderr.decode())
            read.append(result.stdout.decode().strip())
        return read

    def test_N17_a_no_changes_nothing(self):
        self.start_manager()
        self.add_device(network="Office")
        command = self.anna.command("receive", "--qr", "--hotspot", "--adapter", "none")
        terminal = Terminal(self.anna, *command, columns=80, rows=24)
        self.addCleanup(terminal.close)
        terminal.wait_for(r"\[n\]o: ")
        terminal.press("n\r")
        terminal.wait_for("no hotspot was made, and nothing was changed")
        self.assertEqual(4, terminal.end())
        self.assertEqual([], self.calls("AddAndActivateConnection2"))

    def test_the_doctor_says_whether_a_hotspot_is_possible(self):
        self.start_manager()
        device = self.add_device(network="Office")

        def finding():
            doctor = self.anna.start("doctor", "--json", "--adapter", "none")
            found = doctor.wait_for("finding", lambda event: event["subject"] == "hotspot")
            doctor.process.kill()
            return found["severity"], found["text"]

        self.assertEqual(("ok", "wlan0 can make a Wi-Fi network for phones (--hotspot)"), finding())
        self.change(device, WIRELESS, WirelessCapabilities=self.number(0x2F))
        self.assertEqual(("notice", "no hotspot: wlan0 has no access-point mode with WPA2"), finding())
        self.assertEqual([], self.calls("AddAndActivateConnection2"))

    # Refusals

    def test_without_a_bus_a_manager_or_a_device_the_reason_is_told(self):
        self.anna.bus = f"unix:path={self.place}/nowhere"
        self.assertIn("the system bus is not available", self.refused())
        self.anna.bus = self.address
        self.assertIn("NetworkManager does not run on this machine; start it", self.refused())
        self.start_manager()
        self.assertIn("NetworkManager knows no Wi-Fi device; `nmcli device` lists", self.refused())
        self.object(ROOT).AddEthernetDevice("eth0", "eth0", CONNECTED)
        self.assertIn("NetworkManager knows no Wi-Fi device", self.refused())

    def refused(self, *arguments):
        code, message = self.failure(*arguments)
        self.assertEqual(1, code, message)
        self.assertEqual(1, message.count("nearshare:"), message)
        return message

    def test_a_device_or_radio_that_cannot_make_one_is_told(self):
        self.start_manager()
        device = self.add_device()
        self.assertIn("lo is not a Wi-Fi device", self.refused("--interface", "lo"))
        for interface, properties, message in (
            (NAME, {"NetworkingEnabled": False}, "`nmcli networking on`"),
            (NAME, {"WirelessEnabled": False}, "Wi-Fi is switched off; `nmcli radio wifi on`"),
            (NAME, {"WirelessHardwareEnabled": False}, "a switch or key of this machine has Wi-Fi switched off"),
            (WIRELESS, {"WirelessCapabilities": self.number(0x2F)}, "wlan0 has no access-point mode with WPA2"),
            (DEVICE, {"State": self.number(UNMANAGED)}, "NetworkManager does not manage wlan0; `nmcli device set wlan0"),
            (DEVICE, {"State": self.number(UNAVAILABLE)}, "cannot use wlan0 at the moment; is wpa_supplicant installed?"),
        ):
            path = MANAGER if interface == NAME else device
            (name,) = properties
            before = self.bus.get_object(NAME, path).Get(interface, name, dbus_interface="org.freedesktop.DBus.Properties")
            self.change(path, interface, **properties)
            with self.subTest(name):
                self.assertIn(message, self.refused())
            self.change(path, interface, **{name: before})
        self.assertEqual([], self.calls("AddAndActivateConnection2"))

    def test_a_user_without_the_right_is_told_so(self):
        self.start_manager()
        self.add_device()
        self.answer("GetPermissions", "", "a{ss}", f"ret = {{'{SHARE}': 'no'}}")
        self.assertIn("this user may not make a Wi-Fi network; try in a session", self.refused())
        self.assertEqual([], self.calls("AddAndActivateConnection2"))
        # A password was asked for, and not given.
        self.answer("GetPermissions", "", "a{ss}", f"ret = {{'{SHARE}': 'auth'}}")
        for error, message in (
            (f"{NAME}.PermissionDenied", "this user may not make a Wi-Fi network"),
            ("org.freedesktop.DBus.Error.UnknownMethod", "older than 1.16"),
            ("org.freedesktop.DBus.Error.NoReply", "NetworkManager does not answer; try again"),
            (f"{NAME}.InvalidConnection", "NetworkManager refuses it: psk \\u{1b}"),
        ):
            code = f"raise dbus.exceptions.DBusException('psk \\x1b', name='{error}')"
            self.answer("AddAndActivateConnection2", "a{sa{sv}}ooa{sv}", "ooa{sv}", code)
            with self.subTest(error):
                self.assertIn(message, self.refused())

    def test_N17_without_a_terminal_nothing_is_taken_away_without_consent(self):
        self.start_manager()
        self.add_device(network="Office")
        code, message = self.failure()
        self.assertEqual(2, code)
        self.assertIn('away from the Wi-Fi network "Office"', message)
        self.assertIn("--leave-wifi goes on without a question", message)
        self.assertEqual([], self.calls("AddAndActivateConnection2"))

    # Failures

    def test_a_network_that_does_not_start_is_told_and_the_old_one_returns(self):
        self.start_manager()
        self.add_device(network="Office")
        anna = self.start_receive("--leave-wifi")
        self.await_call("AddAndActivateConnection2")
        self.signal_device(FAILED, SHARED_START_FAILED)
        self.signal_state(DEACTIVATED, 3)
        self.assertEqual(1, anna.end())
        self.assertIn("cannot give addresses to devices that join; install dnsmasq", anna.story())
        self.assertEqual([[self.profile, self.device, "/"]], self.calls("ActivateConnection"))

    def test_ctrl_c_while_it_starts_takes_it_down(self):
        self.start_manager()
        self.add_device(network="Office")
        anna = self.start_receive("--leave-wifi")
        self.await_call("AddAndActivateConnection2")
        self.signal_state(ACTIVATING)
        anna.signal(INTERRUPT)
        self.assertEqual(130, anna.end())
        self.assertEqual([[HOTSPOT]], self.calls("DeactivateConnection"))
        self.assertEqual(1, len(self.calls("ActivateConnection")))

    def test_a_hotspot_that_ends_in_the_middle_ends_the_command(self):
        self.start_manager()
        device = self.add_device(network="Office")
        for lose, message in (
            (self.take_device, "has another connection"),
            (lambda: self.manager.EmitSignal(NAME, "DeviceRemoved", "o", [device]), "wlan0 is gone; plug it in again"),
            (self.end_manager, "because NetworkManager has; start again"),
        ):
            before = len(self.calls("AddAndActivateConnection2"))
            anna = self.start_receive("--leave-wifi")
            wait_until(lambda count=before: len(self.calls("AddAndActivateConnection2")) > count, "the hotspot")
            self.signal_state(ACTIVATED)
            anna.wait_for("page")
            lose()
            self.assertEqual(1, anna.end())
            self.assertIn(message, anna.story())

    def take_device(self):
        self.signal_device(DISCONNECTED, NEW_ACTIVATION)
        self.signal_state(DEACTIVATED, 3)

    def end_manager(self):
        self.manager_process.kill()

    def test_D9_signals_of_others_have_no_effect(self):
        import dbus.lowlevel

        self.start_manager()
        self.add_device()
        anna = self.begin()
        url = anna.wait_for("page")["url"]
        names = [name for name in self.bus.list_names() if name.startswith(":") and self.process_of(name) == anna.process.pid]
        for path, interface, member, values in (
            (HOTSPOT, ACTIVE, "StateChanged", [self.number(DEACTIVATED), self.number(2)]),
            (MANAGER, NAME, "DeviceRemoved", [dbus.ObjectPath(self.device)]),
            ("/org/freedesktop/DBus", "org.freedesktop.DBus", "NameOwnerChanged", [NAME, ":1.2", ""]),
        ):
            for name in names:
                forged = dbus.lowlevel.SignalMessage(path, interface, member)
                forged.set_destination(name)
                forged.append(*values)
                self.bus.send_message(forged)
        self.bus.flush()
        browser = PageBrowser(url)
        self.addCleanup(browser.close)
        self.assertEqual(200, browser.hello())
        self.assertEqual(STORED, browser.upload([(b"a.txt", b"a", False)]))
        self.assertIsNone(anna.process.poll())
        anna.signal(INTERRUPT)
        self.assertEqual(130, anna.end())

    def process_of(self, name):
        return self.bus.get_object("org.freedesktop.DBus", "/org/freedesktop/DBus").GetConnectionUnixProcessID(
            name, dbus_interface="org.freedesktop.DBus"
        )
