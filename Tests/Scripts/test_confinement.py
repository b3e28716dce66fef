"""The confined process: what the kernel says of each thread of a running node, its helper process, and what it is told where
the kernel or the machine lacks something. What a confined process cannot do is tested by SandboxTests."""

import json
import os
import pathlib
import re
import select
import subprocess
import time
import unittest

from harness import TIMEOUT, Story, has_namespaces
from test_voice import Screen


def status(process, task=None):
    """Returns the fields of /proc/PID/status."""
    task = process if task is None else task
    lines = pathlib.Path(f"/proc/{process}/task/{task}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def children(process):
    return [int(word) for word in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()]


class ConfinedProcess(Story):
    def assert_confined(self, process):
        tasks = os.listdir(f"/proc/{process}/task")
        self.assertGreater(len(tasks), 2)
        for task in tasks:
            try:
                fields = status(process, task)
            except FileNotFoundError:
                continue
            self.assertEqual(("2", "1"), (fields["Seccomp"], fields["NoNewPrivs"]), fields["Name"])

    def helper(self, process):
        (helper,) = [child for child in children(process) if status(child)["Name"] == "nearshare-help"]
        return helper

    def readable(self, descriptor):
        return select.select([descriptor], [], [], TIMEOUT)[0]

    def said(self, running, words):
        """Waits for the words on standard error."""
        end = time.monotonic() + TIMEOUT
        while not any(words in line for line in list(running.errors)):
            self.assertLess(time.monotonic(), end, running.story())
            time.sleep(0.01)

    def await_node(self, peer):
        """Waits until a command of the peer runs its node."""
        end = time.monotonic() + TIMEOUT
        while peer.run("mesh", "status").returncode != 0:
            self.assertLess(time.monotonic(), end, peer.started[-1].story())

    def test_L1_every_thread_of_a_receiver_is_confined(self):
        anna = self.anna.receive()
        self.assertCode(0, self.ben.run("send", self.file("photo", 300_000), "--to", anna.address))
        anna.wait_for("delivered")
        self.assert_confined(anna.process.pid)
        self.assertEqual([], [line for line in anna.errors if "no Landlock" not in line and "no network" not in line])

    def test_L1_every_thread_of_a_mesh_node_and_of_a_chat_is_confined(self):
        node = self.anna.start("mesh", "run", "--json", "--adapter", "none")
        node.wait_for("ready")
        self.assert_confined(node.process.pid)
        self.assertCode(0, self.anna.run("mesh", "status"))
        chat = self.ben.start("chat", "--public", "--json", "--follow", "--adapter", "none", stdin=subprocess.PIPE)
        chat.wait_for("contacts")
        self.assert_confined(chat.process.pid)

    def test_L1_every_thread_of_commands_that_run_the_node_meanwhile_is_confined(self):
        self.anna.run("keys", "export")
        link = json.loads(self.anna.run("identity", "qr", "--json").stdout)["link"]
        for peer, arguments in (
            # Looks for the owner of the link for three seconds.
            (self.ben, ("peers", "verify", link)),
            (self.anna, ("messages", "--follow", "--json", "--adapter", "none")),
            (
                self.ben,
                ("message", "hello", "--to", "0011223344556677", "--mode", "mesh", "--timeout", "600", "--adapter", "none"),
            ),
        ):
            command = peer.start(*arguments)
            self.await_node(peer)
            self.assert_confined(command.process.pid)
            # So that types of received files are detected by workers.
            self.helper(command.process.pid)
            if arguments[0] == "peers":
                command.end()

    def test_L3_no_sandbox_keeps_all_rights(self):
        anna = self.anna.receive("--no-sandbox")
        self.assertEqual("0", status(anna.process.pid)["Seccomp"])

    def test_L2_the_helper_process_has_one_thread_and_ends_with_the_node(self):
        anna = self.anna.receive()
        helper = self.helper(anna.process.pid)
        self.assertEqual(("1", "2"), (status(helper)["Threads"], status(helper)["Seccomp"]))
        ended = os.pidfd_open(helper)
        self.addCleanup(os.close, ended)
        anna.process.kill()
        anna.end()
        # Readable when the process has ended.
        self.assertIn(ended, self.readable(ended))

    def test_L2_a_node_without_its_helper_receives_and_says_that_types_are_unknown(self):
        anna = self.anna.receive()
        helper = self.helper(anna.process.pid)
        ended = os.pidfd_open(helper)
        self.addCleanup(os.close, ended)
        os.kill(helper, 9)
        self.readable(ended)
        self.assertCode(0, self.ben.run("send", self.file("photo.jpg", 3000), "--to", anna.address))
        self.assertIsNone(anna.wait_for("delivered")["type"])
        self.said(anna, "types are unknown")

    @unittest.skipUnless(has_namespaces(), "hiding a library needs root")
    def test_L3_a_missing_libseccomp_is_reported(self):
        self.anna.hide("libseccomp.so.2")
        anna = self.anna.receive()
        self.said(anna, "libseccomp2")
        self.assertCode(0, self.ben.run("send", self.file("f", 1000), "--to", anna.address))
        anna.wait_for("delivered")

    @unittest.skipUnless(has_namespaces(), "mounting needs root")
    def test_P10_an_inbox_whose_disk_is_mounted_later_receives_what_waited(self):
        anna = self.anna.receive()
        photo = self.file("photo", 5000)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", self.anna.inbox], check=True)
        self.addCleanup(subprocess.run, ["umount", self.anna.inbox])
        self.assertCode(0, self.ben.run("send", photo, "--to", anna.address))
        anna.wait_for("delivered", lambda event: event["in_inbox"])
        self.assertEqual({"photo": photo.read_bytes()}, self.anna.received())

    def test_questions_work_in_a_confined_process(self):
        screen = Screen(self, self.anna.command("receive", "--adapter", "none", "--name", "anna"), self.anna.environment())
        screen.wait_for("Ctrl-C ends this")
        # The line may be wrapped.
        port = re.search(r"on\s+port (\d+)", screen.text)[1]
        sending = self.ben.start("send", "--json", self.file("photo", 1000), "--to", f"127.0.0.1:{port}")
        screen.wait_for(r"accept\?")
        screen.press("y\n")
        self.assertEqual(0, sending.end())


if __name__ == "__main__":
    unittest.main()
