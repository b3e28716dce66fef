"""The entries of file managers, and the dialog that they open: the exact commands, started as the desktop starts them."""

import configparser
import importlib.util
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import types
import unittest
from unittest import mock

from desktop import Desktop, DesktopPeer, needs_desktop
from harness import BINARY, Peer, Story, wait_until

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "packaging" / "desktop"
NAMES = ["a b.txt", "-rf", "q'u\"o`t$HOME\\e.txt", "per%20cent %F %%.txt", "line\nbreak.txt", "über;&|<>.txt"]

# Replaces zenity: keeps its arguments, waits for the first line of the list, and picks it.
PICKER = """#!/bin/sh
printf '%s\\n' "$@" > "{place}/arguments"
read -r id; read -r name; read -r trust
printf '%s\\n%s\\n%s\\n' "$id" "$name" "$trust" > "{place}/offered"
{answer}
"""


def entry(file, group):
    parser = configparser.RawConfigParser(delimiters=["="], comment_prefixes=["#"], strict=True)
    parser.optionxform = str
    parser.read(FOLDER / file)
    return dict(parser[group])


@needs_desktop
class MenuStory(Story):
    def people(self):
        self.desktop = Desktop(self.place / "desktop")
        self.addCleanup(self.desktop.close)
        self.anna = Peer(self.place / "anna")
        self.ben = DesktopPeer(self.place / "ben")
        self.ben.desktop = self.desktop
        self.tools = self.place / "tools"
        self.tools.mkdir()
        (self.tools / "nearshare").symlink_to(BINARY)
        self.desktop.variables |= {"PATH": f"{self.tools}:{self.desktop.environment()['PATH']}"}
        for peer in (self.anna, self.ben):
            folder = peer.home / "config" / "nearshare"
            folder.mkdir(parents=True)
            (folder / "config.toml").write_text('interface = "lo"\n')
            self.assertCode(0, peer.run("identity", "rename", peer.home.name))

    def picker(self, answer='printf "%s\\n" "$id"'):
        tool = self.tools / "zenity"
        tool.write_text(PICKER.format(place=self.place, answer=answer))
        tool.chmod(0o755)

    def files(self):
        return [self.file(name, 100 + number) for number, name in enumerate(NAMES)]

    def launch(self, *command):
        environment = self.ben.environment()
        return subprocess.run(
            [str(word) for word in command], env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    def await_received(self, files):
        contents = {path.read_bytes() for path in files}
        wait_until(lambda: set(self.anna.received().values()) == contents, "the files")

    @unittest.skipUnless(shutil.which("gio"), "needs gio")
    def test_T8_the_entries_send_files_of_any_name(self):
        self.picker()
        self.desktop.start_server()
        self.anna.receive("--adapter", "none")
        files = self.files()
        # GLib expands the command as in Thunar and as in every menu of applications.
        for file in ("org.nearshare.nearshare.desktop", "thunar-sendto.desktop"):
            shutil.rmtree(self.anna.inbox, ignore_errors=True)
            result = self.launch("gio", "launch", FOLDER / file, *files)
            self.assertEqual(0, result.returncode, result.stderr)
            self.await_received(files)
        self.assertEqual("anna", (self.place / "offered").read_text().splitlines()[1])

    def test_T8_the_action_of_nemo_names_files_by_addresses_in_quotation_marks(self):
        self.picker()
        action = entry("nearshare.nemo_action", "Nemo Action")
        self.assertEqual(("double", "nearshare send --dialog -- %U"), (action["Quote"], action["Exec"]))
        self.anna.receive("--adapter", "none")
        files = self.files()
        addresses = [path.as_uri().replace("%27", "'").replace("%24", "$").replace("%26", "&") for path in files]
        words = action["Exec"].replace(" %U", "").split()
        self.assertEqual(0, self.launch(*words, *addresses).returncode)
        self.await_received(files)

    def test_all_entries_run_one_command(self):
        commands = {
            entry("dolphin-servicemenu.desktop", "Desktop Action sendWithNearshare")["Exec"],
            entry("thunar-sendto.desktop", "Desktop Entry")["Exec"],
            entry("org.nearshare.nearshare.desktop", "Desktop Entry")["Exec"],
        }
        self.assertEqual({"nearshare send --dialog -- %F"}, commands)

    def test_T8_the_extension_of_nautilus_and_caja_passes_paths_as_they_are(self):
        class Item:
            def __init__(self, **_):
                pass

            def connect(self, _, action):
                self.action = action

        class File:
            def __init__(self, path):
                self.get_location = lambda: types.SimpleNamespace(get_path=lambda: path)

        manager = types.SimpleNamespace(MenuProvider=type("MenuProvider", (), {}), MenuItem=Item)
        gobject = types.SimpleNamespace(GObject=type("GObject", (), {}))
        repository = types.SimpleNamespace(GObject=gobject, Nautilus=manager)
        modules = {"gi": types.SimpleNamespace(repository=repository), "gi.repository": repository}
        with mock.patch.dict(sys.modules, modules):
            spec = importlib.util.spec_from_file_location("extension", FOLDER / "file_manager_extension.py")
            extension = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(extension)
        menu = extension.NearshareMenu()
        self.assertEqual([], menu.get_file_items([File(None)]))
        (item,) = menu.get_file_items(None, [File("/a b"), File("-x")])
        with mock.patch("subprocess.Popen") as start:
            item.action(item)
        start.assert_called_once_with(["nearshare", "send", "--dialog", "--", "/a b", "-x"])

    def test_a_cancelled_dialog_sends_nothing(self):
        self.picker(answer="exit 1")
        self.anna.receive("--adapter", "none")
        result = self.launch("nearshare", "send", "--dialog", "--", self.file("a", 5))
        self.assertEqual(130, result.returncode, result.stderr)
        self.assertIn("no receiver was picked", result.stderr)
        self.assertEqual({}, self.anna.received())

    def test_a_dialog_without_a_selection_is_shown_again(self):
        self.picker(answer=f'test -e "{self.place}/asked" && printf "%s\\n" "$id"; touch "{self.place}/asked"')
        self.anna.receive("--adapter", "none")
        file = self.file("a", 5)
        self.assertEqual(0, self.launch("nearshare", "send", "--dialog", "--", file).returncode)
        self.await_received([file])

    def test_T6_the_dialog_names_what_is_sent(self):
        self.picker()
        self.anna.receive("--adapter", "none")
        file = self.file("<b>a & b.txt", 5)
        self.assertEqual(0, self.launch("nearshare", "send", "--dialog", "--", file).returncode)
        words = (self.place / "arguments").read_text().splitlines()
        self.assertIn("--text=Send &quot;&lt;b&gt;a &amp; b.txt&quot; to:", words)

    def test_a_dialog_without_peers_says_what_to_do(self):
        # Reads no line of the list, which stays empty.
        self.picker()
        tool = self.tools / "zenity"
        tool.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{self.place}/arguments"\nexit 1\n')
        result = self.launch("nearshare", "send", "--dialog", "--", self.file("a", 5))
        self.assertEqual(130, result.returncode, result.stderr)
        self.assertIn("run “nearshare receive” on the other machine", (self.place / "arguments").read_text())

    def test_a_dialog_that_fails_is_a_failure_and_no_answer(self):
        self.picker(answer="exit 255")
        self.desktop.start_server()
        self.anna.receive("--adapter", "none")
        result = self.launch("nearshare", "send", "--dialog", "--", self.file("a", 5))
        self.assertEqual(1, result.returncode, result.stderr)
        self.desktop.await_shown()
        self.desktop.run("dunstctl", "close-all")
        self.assertIn("zenity could not show who is near", self.desktop.run("dunstctl", "history").stdout)

    def test_a_failure_before_the_dialog_is_a_notification(self):
        self.picker()
        self.desktop.start_server()
        missing = self.place / "missing.txt"
        result = self.launch("nearshare", "send", "--dialog", "--", missing)
        self.assertEqual(1, result.returncode, result.stderr)
        self.desktop.await_shown()
        self.desktop.run("dunstctl", "close-all")
        self.assertIn("missing.txt", self.desktop.run("dunstctl", "history").stdout)
        self.assertFalse((self.place / "arguments").exists())

    def test_a_signal_closes_the_dialog(self):
        self.picker(answer=f'echo $$ > "{self.place}/process"; exec sleep 60')
        self.anna.receive("--adapter", "none")
        sending = self.ben.start("send", "--dialog", "--", self.file("a", 5))
        process = self.place / "process"
        wait_until(lambda: process.exists() and process.read_text().strip(), "the dialog")
        number = int(process.read_text())
        sending.signal(signal.SIGTERM)
        self.assertEqual(130, sending.end())
        wait_until(lambda: not pathlib.Path(f"/proc/{number}").exists(), "the end of the dialog")

    def test_the_outcome_is_a_notification(self):
        self.picker()
        self.desktop.start_server()
        anna = self.anna.receive("--adapter", "none", accept="none")
        self.assertEqual(4, self.launch("nearshare", "send", "--dialog", "--", self.file("<b>a</b>", 5)).returncode)
        self.desktop.await_shown()
        self.desktop.run("dunstctl", "close-all")
        history = self.desktop.run("dunstctl", "history").stdout
        self.assertIn("accepts nothing from this machine", history)
        anna.process.kill()

    def test_what_is_left_out_is_in_the_last_notification(self):
        self.picker()
        self.desktop.start_server()
        self.anna.receive("--adapter", "none")
        file = self.file("trip/a", 5)
        for number in range(5):
            (file.parent / f"link{number}").symlink_to("a")
        self.assertEqual(0, self.launch("nearshare", "send", "--dialog", "--", file.parent).returncode)
        self.await_received([file])
        self.desktop.await_shown()
        self.desktop.run("dunstctl", "close-all")
        history = self.desktop.run("dunstctl", "history").stdout
        self.assertIn("sent, 5 B", history)
        self.assertIn("link0: a symbolic link", history)
        self.assertIn("left out: 2 more", history)

    def last_notification(self):
        self.desktop.await_shown()
        self.desktop.run("dunstctl", "close-all")
        history = json.loads(self.desktop.run("dunstctl", "history").stdout)
        # The newest one comes first.
        return json.dumps(history["data"][0][0])

    def test_what_was_sent_is_in_the_last_notification_beside_what_could_not_be_read(self):
        self.picker()
        self.desktop.start_server()
        self.anna.receive("--adapter", "none")
        file = self.file("a", 5)
        result = self.launch("nearshare", "send", "--dialog", "--", file, self.place / "missing")
        self.assertEqual(6, result.returncode, result.stderr)
        self.await_received([file])
        last = self.last_notification()
        for line in ("sent, 5 B", "1 file or folder could not be read", "left out: could not open"):
            self.assertIn(line, last)

    def test_what_the_receiver_has_already_is_not_called_sent(self):
        self.picker()
        self.desktop.start_server()
        self.anna.receive("--adapter", "none")
        file = self.file("a", 5)
        for line in ("sent, 5 B", "nothing new to send"):
            self.assertEqual(0, self.launch("nearshare", "send", "--dialog", "--", file).returncode)
            self.assertIn(line, self.last_notification())

    def test_without_a_dialog_a_terminal_is_opened(self):
        terminal = self.tools / "x-terminal-emulator"
        terminal.write_text(f'#!/bin/sh\nfor word; do printf "%s\\0" "$word"; done > {self.place}/terminal\n')
        terminal.chmod(0o755)
        environment = self.ben.environment() | {"PATH": f"{self.tools}:/nonexistent"}
        paths = [str(path) for path in self.files()]
        result = subprocess.run(
            [BINARY, "send", "--dialog", "--", *paths], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        self.assertEqual(0, result.returncode, result.stderr)
        words = (self.place / "terminal").read_bytes().decode().split("\0")[:-1]
        self.assertEqual(["-e", "sh", "-c"], words[:3])
        self.assertEqual([str(BINARY.resolve()), "send", "--", *paths], words[4:])
        # The script runs exactly these words.
        echo = subprocess.run(
            ["sh", "-c", words[3], "printf", "%s|", *paths], input="\n", capture_output=True, text=True, check=False
        )
        self.assertIn("|".join(paths), echo.stdout)

    @unittest.skipUnless(shutil.which("zenity") and shutil.which("xdotool"), "needs zenity and xdotool")
    def test_a_real_dialog_is_answered(self):
        # Nobody is near when it is opened.
        photo = self.file("photo für.jpg", 3_000)
        sending = self.ben.start("send", "--dialog", "--", photo)
        found = re.compile(r"^\d+$", re.MULTILINE)
        search = ["xdotool", "search", "--onlyvisible", "--name", "Send with nearshare"]
        wait_until(lambda: found.search(self.desktop.run(*search).stdout), "the dialog")
        window = found.search(self.desktop.run(*search).stdout)[0]
        self.desktop.run("xdotool", "windowfocus", "--sync", window)
        self.anna.receive("--adapter", "none")

        def is_sent():
            if not self.anna.received():
                self.desktop.run("xdotool", "key", "--delay", "50", "Home", "space", "Return")
            return self.anna.received() == {"photo für.jpg": photo.read_bytes()}

        wait_until(is_sent, "the file")
        self.assertEqual(0, sending.end())


if __name__ == "__main__":
    unittest.main()
