"""Notifications of the desktop, end to end: a button of a real notification daemon accepts a file."""

import json
import os
import signal
import unittest

from desktop import DesktopStory, needs_desktop
from harness import wait_until

FOLLOWS = "showing what the node receives"
# Markup, a control character, an override of the direction and a line break.
MALICIOUS = "<b>a</b>&amp;<img src='file:///etc/passwd'/>\x1b]0;t\x07\u202etxt.exe\n.jpg"


@needs_desktop
class NotificationStory(DesktopStory):
    def notify(self, *options):
        """anna's notifications, once they follow her node."""
        running = self.anna.start("notify", "--log-level", "info", *options)
        self.await_following(running, 1)
        return running

    def await_following(self, running, count):
        wait_until(lambda: sum(FOLLOWS in line for line in list(running.errors)) >= count, FOLLOWS)

    def count_of_ends(self, running):
        return sum("no notification server answers" in line for line in list(running.errors))

    def configure(self, text):
        folder = self.anna.home / "config" / "nearshare"
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text(text)

    def start_node(self, accept="ask"):
        """anna's node, without a terminal."""
        return self.anna.receive("--adapter", "none", accept=accept)

    def offer(self, anna, *what):
        return self.ben.start("send", "--json", *what, "--to", anna.address)

    def outcome(self, sending):
        return sending.wait_for("finished")["outcome"]

    def shown(self):
        """Closes what is shown. Returns the summary and body of all that was shown, the latest first."""
        self.desktop.run("dunstctl", "close-all")
        history = json.loads(self.desktop.run("dunstctl", "history").stdout)["data"][0]
        return [(entry["summary"]["data"], entry["body"]["data"]) for entry in history]

    def test_a_button_accepts_a_file_and_its_arrival_is_shown(self):
        self.desktop.start_server()
        anna = self.start_node()
        self.notify()
        photo = self.file("photo of us.jpg", 20_000)
        sending = self.offer(anna, photo)
        code = sending.wait_for("short_code")["code"]
        self.desktop.await_shown()
        self.desktop.press("Accept")
        self.assertEqual("completed", self.outcome(sending))
        self.assertEqual({photo.name: photo.read_bytes()}, self.anna.received())
        self.desktop.await_shown()
        arrival, question = self.shown()
        self.assertEqual(('received "photo of us.jpg" from ben', "20.0 KB"), arrival)
        self.assertEqual('accept from "ben"?', question[0])
        lines = question[1].splitlines()
        self.assertRegex(lines[0], "^new here, [0-9a-f]{16}$")
        self.assertEqual(f"short code {code[:4]} {code[4:]}: &quot;ben&quot; should see the same", lines[1])
        self.assertRegex(lines[2], "^&quot;photo of us.jpg&quot;  20.0 KB, ")

    def test_a_button_declines_and_a_question_that_ends_elsewhere_is_closed(self):
        self.desktop.start_server()
        anna = self.start_node()
        self.notify()
        sending = self.offer(anna, "--text", "hello")
        self.desktop.await_shown()
        self.desktop.press("Decline")
        self.assertEqual("declined", self.outcome(sending))
        self.desktop.await_shown(0)
        sending = self.offer(anna, "--text", "hello")
        self.desktop.await_shown()
        sending.signal(signal.SIGINT)
        sending.end()
        self.desktop.await_shown(0)

    def test_T6_markup_and_controls_in_names_are_shown_as_text(self):
        self.desktop.start_server()
        self.assertCode(0, self.ben.run("identity", "rename", "<u>ben</u>&\u202e"))
        anna = self.start_node()
        self.notify()
        sending = self.offer(anna, self.file(MALICIOUS.replace("/", "_"), 10))
        self.desktop.await_shown()
        self.desktop.press("Accept")
        self.assertEqual("completed", self.outcome(sending))
        self.desktop.await_shown()
        arrival, question = self.shown()
        # The daemon shows summaries as they are, and bodies as markup.
        self.assertIn("<u>ben</u>&", question[0])
        self.assertIn("&lt;b&gt;a&lt;_b&gt;&amp;amp;", question[1])
        for text in (*arrival, *question):
            for character in "\x1b\x07\u202e":
                self.assertNotIn(character, text)
        self.assertEqual(2, question[1].count("\n"))

    def test_nobody_is_asked_while_there_is_no_server_and_again_when_it_is_back(self):
        anna = self.start_node()
        running = self.anna.start("notify", "--log-level", "info")
        wait_until(lambda: self.count_of_ends(running) > 0, "the message")
        self.assertEqual("declined", self.outcome(self.offer(anna, "--text", "one")))
        self.desktop.start_server()
        self.await_following(running, 1)
        sending = self.offer(anna, "--text", "two")
        self.desktop.await_shown()
        self.desktop.press("Accept")
        self.assertEqual("completed", self.outcome(sending))
        before = self.count_of_ends(running)
        self.desktop.stop_server()
        wait_until(lambda: self.count_of_ends(running) > before, "the end")
        self.assertEqual("declined", self.outcome(self.offer(anna, "--text", "three")))

    def test_the_node_is_followed_again_when_it_was_restarted(self):
        self.desktop.start_server()
        # Started before there is a node.
        running = self.anna.start("notify", "--log-level", "info")
        anna = self.start_node()
        self.await_following(running, 1)
        anna.signal(signal.SIGTERM)
        anna.end()
        anna = self.start_node()
        self.await_following(running, 2)
        self.offer(anna, "--text", "hello")
        self.desktop.await_shown()

    def test_without_a_bus_or_with_the_setting_it_ends(self):
        self.anna.desktop = None
        result = self.anna.run("notify")
        self.assertEqual(1, result.returncode)
        self.assertIn("notifications need a desktop session", result.stderr.decode())
        self.anna.desktop = self.desktop
        self.configure("notifications = false\n")
        result = self.anna.run("notify")
        self.assertCode(0, result)
        self.assertIn("turned off", result.stderr.decode())

    def test_a_second_notify_names_the_process_that_shows_them(self):
        self.desktop.start_server()
        self.start_node()
        first = self.notify()
        second = self.anna.run("notify")
        self.assertEqual(1, second.returncode)
        text = f"notifications are shown already, by process {first.process.pid}"
        self.assertIn(text, second.stderr.decode())
        first.signal(signal.SIGTERM)
        first.end()
        self.notify()

    def test_the_button_of_an_arrival_opens_the_item(self):
        opened = self.place / "opened"
        opener = self.place / "opener"
        opener.write_text(f'#!/bin/sh\nprintf "%s" "$1" > {opened}.new && mv {opened}.new {opened}\n')
        opener.chmod(0o755)
        self.configure(f'[open]\n"*/*" = "{opener}"\n')
        self.desktop.start_server()
        anna = self.start_node(accept="all")
        self.notify()
        photo = self.file("-a b.jpg", 2_000)
        self.assertEqual("completed", self.outcome(self.offer(anna, photo)))
        self.desktop.await_shown()
        self.desktop.press("Open")
        wait_until(opened.exists, "the program that opens it")
        (path,) = self.anna.received()
        self.assertEqual(os.fspath(self.anna.inbox / path), opened.read_text())


if __name__ == "__main__":
    unittest.main()
