"""Offers that are refused, or cannot be resumed: both ends get the reason, scripts an exit code that says whether to retry."""

import json
import os
import re
import shlex
import signal
import subprocess
import time
import unittest

from harness import TIMEOUT, Peer, Story, address_of, has_namespaces, wait_until


class RefusalStory(Story):
    def send(self, anna, *arguments):
        """Returns the exit status and the messages."""
        result = self.ben.run("send", *arguments, "--to", anna.address)
        return result.returncode, result.stderr.decode(errors="replace")

    def test_what_cannot_be_read_is_named_and_the_rest_is_sent(self):
        anna = self.anna.receive()
        code, words = self.send(anna, self.file("a.txt", 100), self.place / "source/gone.txt", self.file("b.txt", 100))
        self.assertEqual(6, code, words)
        self.assertIn("gone.txt", words)
        self.assertIn("1 file or folder could not be read and was left out", words)
        anna.wait_for("finished")
        self.assertEqual({"a.txt", "b.txt"}, set(self.anna.received()))
        code, words = self.send(anna, self.place / "source/gone.txt")
        self.assertEqual(1, code, words)

    def folder_of_three(self):
        for name, size in [("trip/a.bin", 3_000_000), ("trip/b.txt", 100), ("trip/c.txt", 100)]:
            self.file(name, size)
        return self.place / "source/trip"

    def test_a_file_that_vanishes_is_named_on_both_ends_and_the_next_try_sends_it_alone(self):
        anna, trip = self.anna.receive(), self.folder_of_three()
        content = (trip / "b.txt").read_bytes()
        ben = self.ben.start("send", "--json", "--limit", "1M", trip, "--to", anna.address)
        # Long before its turn.
        ben.wait_for("progress", lambda event: event["done"] > 100_000)
        (trip / "b.txt").unlink()
        for peer in (ben, anna):
            finished = peer.wait_for("finished")
            self.assertEqual("partial", finished["outcome"], finished)
            self.assertEqual({"count": 1, "offered": 3, "listed": ["b.txt"]}, finished["missing"])
            self.assertIn("1 of 3 files was not stored: b.txt", finished["detail"])
        self.assertEqual(6, ben.end(), ben.story())
        self.assertEqual({"trip/a.bin", "trip/c.txt"}, set(self.anna.received()))
        for peer in (self.ben, self.anna):
            entries = [json.loads(line) for line in peer.run("history", "--json").stdout.splitlines()]
            self.assertIn("partial", [entry["outcome"] for entry in entries])
        (trip / "b.txt").write_bytes(content)
        code, words = self.send(anna, trip)
        self.assertEqual(0, code, words)
        self.assertIn("3 files, 1 new, 2 were already there", words)
        self.assertEqual({"count": 3, "new": 1, "already_there": 2, "not_older": 0}, anna.wait_for("finished")["files"])
        self.assertEqual(content, self.anna.received()["trip (2)/b.txt"])

    def test_a_file_that_shrinks_while_it_is_sent_is_named_in_the_text_of_both_ends(self):
        anna, trip = self.anna.receive(), self.folder_of_three()
        ben = self.ben.start("send", "--limit", "1M", trip, "--to", anna.address)
        anna.wait_for("progress", lambda event: event["done"] > 100_000)
        os.truncate(trip / "a.bin", 2_000_000)
        anna.wait_for("finished")
        self.assertEqual(6, ben.end(), ben.story())
        self.assertRegex(
            "".join(ben.errors), "1 of 3 files was not stored: a.bin; a.bin was changed while it was being sent; send it again"
        )
        self.assertEqual({"trip/b.txt", "trip/c.txt"}, set(self.anna.received()))
        receiver = Peer(self.place / "carl")
        self.addCleanup(receiver.stop_all)
        carl = receiver.start("receive", "--name", "carl", "--accept", "all", "--once", "--inbox", receiver.inbox)
        wait_until(lambda: "on port" in "".join(carl.errors), "the receiver")
        address = "127.0.0.1:" + re.search(r"on port (\d+)", "".join(carl.errors))[1]
        self.folder_of_three()
        ben = self.ben.start("send", "--json", "--limit", "1M", trip, "--to", address)
        ben.wait_for("progress", lambda event: event["done"] > 100_000)
        (trip / "c.txt").unlink()
        self.assertEqual(6, ben.end(), ben.story())
        self.assertEqual(6, carl.end())
        self.assertIn("1 of 3 files was not stored: c.txt", "".join(carl.errors))

    def test_the_senders_keys_are_never_sent(self):
        anna = self.known()
        (self.ben.home / "letter.txt").write_text("hello")
        code, words = self.send(anna, self.ben.home)
        self.assertEqual(0, code, words)
        self.assertIn("own keys are never sent", words)
        anna.wait_for("delivered", lambda event: event["kind"] == "folder")
        names = {os.path.basename(name) for name in self.anna.received()}
        self.assertIn("letter.txt", names)
        self.assertFalse({"identity.key", "trust.json"} & names, names)

    def known(self, accept="all", *arguments):
        anna = self.anna.receive(*arguments, accept=accept)
        self.assertEqual(0, self.send(anna, "--text", "hello")[0])
        return anna

    def test_a_blocked_sender_is_told_that_nothing_is_accepted_and_not_to_resume(self):
        anna = self.known()
        self.assertCode(0, self.anna.run("peers", "block", self.anna.run("peers").stdout.decode().split()[1]))
        for _ in range(5):
            code, words = self.send(anna, self.file("photo.jpg", 100_000))
            self.assertEqual(4, code, words)
            self.assertIn("accepts nothing from this machine", words)
            self.assertNotIn("lost", words)
        # The history says no other words than the command.
        reasons = {json.loads(line)["reason"] for line in self.ben.run("history", "--json", "--limit", "5").stdout.splitlines()}
        self.assertEqual({"accepts nothing from this machine"}, {reason.removeprefix("anna ") for reason in reasons})

    @unittest.skipUnless(has_namespaces(), "hiding /proc needs root")
    def test_a_machine_without_proc_is_told(self):
        """Swift's threads need it, and end the process at some time without it."""
        covered = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
        for arguments in (["--version"], ["send", "x"]):
            command = [*covered, *self.ben.command(*arguments)]
            said = subprocess.run(command, env=self.ben.environment(), capture_output=True, timeout=60, check=False)
            self.assertCode(1, said)
            self.assertIn("/proc is not mounted", said.stderr.decode())

    def test_without_utf8_messages_in_a_pipe_are_ascii_and_names_stay(self):
        environment = self.ben.environment() | {"LC_ALL": "C"}
        path = self.file("Zoë…", 10)
        command = self.ben.command("send", path, "--to", self.anna.receive(name="anna").address)
        sent = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)
        self.assertCode(0, sent)
        words = sent.stderr.decode()
        self.assertRegex(words, r"inviting .*\.\.\.")
        self.assertRegex(words, r"Zoë\.\.\..* -> .*done")
        self.assertNotRegex(words, "[…→]")
        events = [*self.ben.command("history"), "--json"]
        self.assertIn("Zoë…", subprocess.run(events, env=environment, capture_output=True, check=True).stdout.decode())

    def test_K2_A5_a_friend_is_accepted_although_another_peer_claimed_the_name(self):
        cleo = Peer(self.place / "cleo")
        self.addCleanup(cleo.stop_all)
        for peer, name in ((self.ben, "ben"), (cleo, "ben")):
            self.assertCode(0, peer.run("identity", "rename", name))
        anna = self.known()
        ben = self.anna.run("peers").stdout.decode().split()[1]
        self.assertCode(0, self.anna.run("friends", "add", "--unverified", ben))
        self.assertCode(0, self.ben.run("identity", "rename", "ben two"))
        self.assertEqual(0, self.send(anna, "--text", "hello")[0])
        self.assertCode(5, cleo.run("send", "--text", "it is me", "--to", anna.address))
        self.assertCode(0, self.ben.run("identity", "rename", "ben"))
        anna.signal(signal.SIGTERM)
        anna.end()
        anna = self.anna.receive(accept="friends")
        self.assertEqual(0, self.send(anna, "--text", "hello again")[0])
        self.assertCode(4, cleo.run("send", "--text", "it is me", "--to", anna.address))

    def test_accept_none_declines_every_peer(self):
        anna = self.anna.receive(accept="none")
        code, words = self.send(anna, "--text", "hello")
        self.assertEqual(4, code)
        self.assertIn("accepts nothing from this machine", words)
        self.assertNotIn("friend", words)

    def test_R8_an_exceeded_quota_is_reported_with_numbers(self):
        anna = self.anna.start(
            "receive", "--name", "anna", "--accept", "all", "--max-per-peer", "1MB", "--inbox", self.anna.inbox
        )
        words = self.said(anna, "on port")
        address = f"127.0.0.1:{words.split('port')[1].strip()}"
        for size, code in ((35_000, 0), (990_000, 7)):
            result = self.ben.run("send", self.file(f"{size}", size), "--to", address)
            self.assertEqual(code, result.returncode, result.stderr)
        words = self.said(anna, "--max-per-peer")
        for amount in ("994 KB", "39.1 KB", "961 KB", "1.0 MB"):
            self.assertIn(amount, words)

    def said(self, running, words):
        """Waits for a line on standard error that contains the text."""
        end = time.monotonic() + TIMEOUT
        while True:
            for line in list(running.errors):
                if words in line:
                    return line
            self.assertLess(time.monotonic(), end, running.story())
            time.sleep(0.01)

    @unittest.skipUnless(has_namespaces(), "a small disk of its own needs root")
    def test_R8_a_full_disk_is_reported_with_numbers(self):
        self.anna.inbox.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=80m", "tmpfs", self.anna.inbox], check=True)
        self.addCleanup(subprocess.run, ["umount", self.anna.inbox])
        anna = self.anna.receive()
        self.assertEqual(7, self.send(anna, self.file("big.bin", 30_000_000))[0])
        detail = anna.wait_for("finished")["detail"]
        for words in ("needs 30.0 MB", "can be used", "67.1 MB of the disk must stay free"):
            self.assertIn(words, detail)

    def test_a_reader_that_closes_the_pipe_ends_the_command(self):
        read, write = os.pipe()
        process = subprocess.Popen(
            self.anna.command("receive", "--stdout", "--accept", "all", "--adapter", "none"),
            env=self.anna.environment(),
            stdin=subprocess.DEVNULL,
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        os.close(write)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        address = address_of(process)
        os.close(read)
        result = self.ben.run("send", self.file("photo.jpg", 3_000_000), "--to", address)
        self.assertCode(1, result)
        self.assertIn("the program that reads it there has closed the pipe", " ".join(result.stderr.decode().split()))
        self.assertEqual(141, process.wait(TIMEOUT))
        shown = " ".join(process.stderr.read().split())
        self.assertIn("the program that reads standard output has closed the pipe", shown)

    def test_a_receiver_that_writes_to_standard_output_says_that_it_accepts_a_single_file(self):
        process = subprocess.Popen(
            self.anna.command("receive", "--stdout", "--accept", "all", "--adapter", "none"),
            env=self.anna.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        address = address_of(process)
        self.folder_of_three()
        one, two = self.file("one.txt", 100), self.file("two.txt", 100)
        for paths in ([one, two], [self.place / "source/trip"]):
            result = self.ben.run("send", *paths, "--to", address)
            self.assertCode(4, result)
            self.assertIn("accepts a single file only, and no folder", " ".join(result.stderr.decode().split()))
        self.assertCode(0, self.ben.run("send", one, "--to", address))
        self.assertIn("declined (not a single file)", self.ben.run("history").stdout.decode())

    def test_R4_a_program_that_does_not_read_its_pipe_holds_up_nobody(self):
        process = subprocess.Popen(
            self.anna.command("receive", "--json", "--accept", "none", "--adapter", "none"),
            env=self.anna.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        address = f"127.0.0.1:{json.loads(process.stdout.readline())['port']}"
        files = [self.file(f"{number}{'x' * 200}", 1) for number in range(100)]
        # The events of four such offers fill a pipe.
        for _ in range(8):
            self.assertCode(4, self.ben.run("send", *files, "--to", address))
        process.send_signal(signal.SIGINT)
        self.assertEqual(130, process.wait(TIMEOUT))

    def test_closed_standard_descriptors_are_not_those_of_files(self):
        def run(closed, *arguments):
            words = " ".join(shlex.quote(str(word)) for word in self.anna.command(*arguments))
            return subprocess.run(
                f"{words} {closed}", shell=True, env=self.anna.environment(), capture_output=True, timeout=TIMEOUT
            )

        self.assertCode(0, self.anna.run("keys", "export"))
        result = run(">&-", "identity", "show")
        self.assertEqual((1, b""), (result.returncode, result.stdout))
        self.assertIn(b"could not write to standard output: Bad file descriptor", result.stderr)
        self.assertCode(0, run("2>&-", "identity", "show"))
        ben = self.ben.receive()
        self.assertCode(0, run("<&- >&- 2>&-", "send", self.file("photo.jpg", 10), "--to", ben.address))
        # The sentences are in none of the files that got a descriptor meanwhile.
        ben.wait_for("finished")
        state = self.anna.environment()["XDG_STATE_HOME"]
        found = subprocess.run(["grep", "-rlE", "inviting|done, 10 B", state], capture_output=True, text=True).stdout
        self.assertEqual("", found)

    def test_names_with_line_breaks_or_without_visible_characters(self):
        for name in ("a\nb", "a\x1b[31mb", "a\tb", " ", "", "a\u2028b"):
            self.assertCode(2, self.anna.run("identity", "rename", name))
            self.assertCode(2, self.anna.run("receive", "--name", name))
        self.assertCode(0, self.anna.run("identity", "rename", "Anna 😀 am Fenster"))

    def test_an_empty_name_selects_no_peer(self):
        photo = self.file("photo.jpg", 10)
        for arguments in (
            ["send", photo, "--to", ""],
            ["send", photo, "--to", "anna", "--to", " "],
            ["friends", "add", ""],
            ["friends", "remove", ""],
            ["peers", "verify", ""],
            ["peers", "block", "\t"],
            ["peers", "rename", "", "x"],
            ["peers", "forget", ""],
            ["keys", "forget", ""],
            ["voice", "--input", photo, "--to", ""],
        ):
            with self.subTest(arguments=arguments):
                self.assertCode(2, self.anna.run(*arguments))

    def test_a_receiver_that_is_named_twice_gets_one_copy(self):
        anna = self.anna.receive()
        result = self.ben.run("send", "--text", "hello", "--to", anna.address, "--to", anna.address)
        self.assertCode(0, result)
        anna.wait_for("finished")
        self.assertEqual(1, len([event for event in anna.events if event["event"] == "invitation"]))

    def test_times_and_unblocking_are_reported_correctly(self):
        self.assertIn("0.1 to 600", self.ben.run("send", "x", "--to", "anna", "--timeout", "0").stderr.decode())
        self.known()
        ben = self.anna.run("peers").stdout.decode().split()[1]
        self.assertIn("is not blocked", self.anna.run("peers", "unblock", ben).stderr.decode())

    def test_items_moved_from_the_spool_are_listed_in_the_inbox(self):
        anna = self.anna.receive()
        self.anna.inbox.rmdir()
        self.anna.inbox.write_text("in the way")
        self.assertEqual(0, self.send(anna, self.file("photo.jpg", 4000))[0])
        waited = anna.wait_for("delivered")["path"]
        self.assertIn(waited, self.anna.run("inbox").stdout.decode())
        self.anna.inbox.unlink()
        self.assertTrue(anna.wait_for("delivered")["in_inbox"])
        words = self.anna.run("inbox").stdout.decode()
        self.assertIn(str(self.anna.inbox / "photo.jpg"), words)
        self.assertNotIn(waited, words)

    def test_an_inbox_that_cannot_be_used_is_not_said_to_receive_files(self):
        for command in (("receive",), ("mesh", "run")):
            anna = self.anna.start(*command, "--name", "anna", "--adapter", "none", "--inbox", "/proc/nearshare")
            wait_until(lambda anna=anna: "files wait in" in "".join(anna.errors), "the notice")
            said = " ".join("".join(anna.errors).split())
            self.assertIn("could not create the inbox /proc/nearshare", said)
            self.assertIn("until /proc/nearshare can be used", said)
            self.assertNotIn("files go to", said)
            anna.signal(signal.SIGTERM)
            anna.end()
            refused = self.anna.run(*command, "--inbox", "/dev/null")
            self.assertEqual(2, refused.returncode)
            self.assertIn("--inbox expects a folder; /dev/null is not one", refused.stderr.decode())
        folder = self.anna.home / "config/nearshare"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.toml").write_text('inbox = "/dev/null"\n')
        for command in (("receive",), ("mesh", "run")):
            refused = self.anna.run(*command)
            self.assertEqual(2, refused.returncode)
            self.assertIn("the inbox must be a folder; /dev/null is not one", refused.stderr.decode())
        for inbox in (folder, folder.parent, self.anna.home / "state/nearshare/inbox"):
            (folder / "config.toml").write_text(f'inbox = "{inbox}"\n')
            for command in (("receive",), ("mesh", "run"), ("receive", "--inbox", inbox)):
                refused = self.anna.run(*command)
                self.assertEqual(2, refused.returncode)
                self.assertIn("nearshare's own directory", " ".join(refused.stderr.decode().split()))
            self.assertEqual(1, self.anna.run("config").returncode)
        (folder / "config.toml").write_text('inbox = "/dev/null"\n')
        # A command that only uses the node stays confined.
        sent = self.anna.run("message", "hello", "--broadcast", "--wait", "none", "--adapter", "none")
        self.assertNotIn("can write to all of your files", sent.stderr.decode())

    def test_a_text_that_waits_in_the_spool_is_shown_once_with_its_sender(self):
        self.assertCode(0, self.ben.run("identity", "rename", "ben"))
        anna = self.anna.start("receive", "--name", "anna", "--accept", "all", "--inbox", self.anna.inbox)
        wait_until(lambda: re.search(r"on port \d+", "".join(anna.errors)), "the port")
        port = re.search(r"on port (\d+)", "".join(anna.errors))[1]
        self.anna.inbox.rmdir()
        self.anna.inbox.write_text("in the way")
        self.assertCode(0, self.ben.run("send", "--text", "see you at 8", "--to", f"127.0.0.1:{port}"))
        self.anna.inbox.unlink()

        def shown():
            return "".join(event["line"] for event in anna.events)

        wait_until(lambda: f"{self.anna.inbox}/" in shown(), "the text to be moved")
        self.assertEqual(["ben: see you at 8"], re.findall(".*see you.*", shown()))
        self.assertEqual([b"see you at 8"], list(self.anna.received().values()))


if __name__ == "__main__":
    unittest.main()
