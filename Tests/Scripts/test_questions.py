"""Prompts of `receive` on a terminal and their answers: several prompts, Ctrl-D, the background, compared codes."""

import json
import os
import re
import shlex
import shutil
import signal
import time
import unittest

from harness import TIMEOUT, Peer, Story, free_port
from pseudo_terminal import PseudoTerminal


class Terminal(PseudoTerminal):
    """A process, or a shell with jobs."""

    def __init__(self, peer, *command, columns=200, rows=50, variables=None):
        super().__init__(command, peer.environment() | (variables or {}), columns, rows)

    @property
    def text(self):
        return re.sub(r"\x1b(\[[0-9;?]*[a-zA-Z]|[78])", "", self.buffer.decode(errors="replace"))

    def wait_for(self, pattern):
        """Waits for the pattern; discards the output before it."""
        end = time.monotonic() + TIMEOUT
        while not (found := re.search(pattern, self.text)):
            if time.monotonic() > end or not self.read(0.2):
                raise AssertionError(f"{pattern!r} did not come:\n{self.text[-3000:]}")
        self.buffer = self.text[found.end() :].encode()
        return found

    def end(self):
        """Waits for the exit status."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            self.read(0.1)
            done, status = os.waitpid(self.process, os.WNOHANG)
            if done:
                self.process = None
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > deadline:
                raise AssertionError(f"it did not end:\n{self.text[-3000:]}")


class Asked(Story):
    def people(self):
        super().people()
        self.cleo = Peer(self.place / "cleo")
        self.addCleanup(self.cleo.stop_all)
        for peer in (self.anna, self.ben, self.cleo):
            self.assertCode(0, peer.run("identity", "rename", peer.home.name))

    def terminal(self, peer, *command, **properties):
        terminal = Terminal(peer, *command, **properties)
        self.addCleanup(terminal.close)
        return terminal

    def receiving(self, *within, **properties):
        """anna's `receive` on a terminal."""
        command = self.anna.command("receive", "--adapter", "none", "--inbox", str(self.anna.inbox))
        anna = self.terminal(self.anna, *within, *command, **properties)
        anna.address = "127.0.0.1:" + anna.wait_for(r"on port (\d+)")[1]
        return anna

    def offer(self, peer, anna, text):
        return peer.start("send", "--json", "--text", text, "--to", anna.address)

    def outcome(self, sending):
        return sending.wait_for("finished")["outcome"]


class QuestionStory(Asked):
    def test_R4_an_answer_without_a_number_is_rejected_when_two_questions_are_open(self):
        anna = self.receiving()
        ben = self.offer(self.ben, anna, "from ben")
        anna.wait_for(r"accept\? \[y\]es")
        cleo = self.offer(self.cleo, anna, "from cleo")
        anna.wait_for(r'number 1, "ben", \d+ s left: accept\?\s+number 2, "cleo", \d+ s left: accept\?\s+which one\?')
        anna.press("y\n")
        anna.wait_for(r"which one\? y 1 or y 2")
        anna.press("n 2\n")
        self.assertEqual("declined", self.outcome(cleo))
        anna.wait_for(r'number 1, "ben", \d+ s left: accept\?')
        anna.press("\n")
        anna.wait_for(r'number 1, "ben", \d+ s left: accept\?')
        anna.press("y\n")
        self.assertEqual("completed", self.outcome(ben))
        anna.wait_for("ben: from ben")

    def test_T4_R11_a_question_about_many_long_names_fits_the_screen(self):
        anna = self.receiving(columns=80, rows=24)
        # Each scalar takes three bytes in the name, and eight columns on the screen.
        files = [self.file(f"{number:03}" + "\u202e" * 70 + ".sh", 1) for number in range(128)]
        ben = self.ben.start("send", "--json", *files, "--to", anna.address)
        asked = anna.wait_for(r"(?s)new here, .*accept\? [^\n]*: ")[0]
        rows = asked.replace("\r", "").split("\n")
        self.assertLessEqual(len(rows) + 1, 24, asked)
        self.assertLessEqual(max(map(len, rows)), 80, asked)
        listed = re.findall(r'  "\d{3}\\u\{202e\}.*\.sh"  1 B', asked)
        self.assertGreaterEqual(len(listed), 3, asked)
        self.assertIn(f"  … and {128 - len(listed)} more; l lists them", asked)
        anna.press("l\n")
        page = anna.wait_for(r"(?s) 1  .* more\s")[0].replace("\r", "")
        self.assertEqual(18, page.count("\n"), page)
        anna.press("n\n")
        self.assertEqual("declined", self.outcome(ben))

    def test_an_arrival_is_wrapped_between_its_words(self):
        anna = self.receiving(columns=60)
        ben = self.offer(self.ben, anna, " ".join(["wordy"] * 30))
        anna.wait_for(r"accept\? \[y\]es")
        anna.press("ye\n")
        anna.wait_for(r"ben: wordy( wordy)+\r\n  wordy( wordy)+\r\n  wordy")
        self.assertEqual("completed", self.outcome(ben))

    def test_the_contents_of_a_folder_are_listed_on_request(self):
        anna = self.receiving()
        folder = self.place / "trip"
        (folder / "day one").mkdir(parents=True)
        for number in range(30):
            (folder / "day one" / f"{number:02}.jpg").write_bytes(b"x" * (1000 + number))
        (folder / "a\x1b[2Jb").write_bytes(b"name")
        ben = self.ben.start("send", "--json", folder, "--to", anna.address)
        anna.wait_for(r"accept\? \[y\]es, \[a\]lways, \[n\]o, \[b\]lock, \[l\]ist, \[p\]art: ")
        anna.press("l\n")
        listed = anna.wait_for(r'"trip"/(?s:.*) more\s+\d+ s left: accept\?')[0]
        self.assertIn('3  "trip/day one"/', listed)
        self.assertIn('4  "trip/day one/00.jpg"  1.0 KB', listed)
        self.assertIn(r"a\u{1b}[2Jb", listed)
        self.assertRegex(listed, r"… and 15 more")
        anna.press("y\n")
        self.assertEqual("completed", self.outcome(ben))

    def test_a_part_of_an_offer_is_accepted(self):
        anna = self.receiving()
        folder = self.place / "trip"
        (folder / "day").mkdir(parents=True)
        for name in ["a.txt", "b.jpg", "day/C.JPG", "day/d.txt"]:
            (folder / name).write_bytes(name.encode() * 1000)
        single = self.file("single.bin", 5000)
        ben = self.ben.start("send", "--json", folder, single, "--to", anna.address)
        anna.wait_for(r"\[p\]art: ")
        anna.press("p *.png\n")
        anna.wait_for(r'nothing in the list matches "\*.png"\s')
        anna.press("p 2-3 *.jpg\n")
        anna.wait_for(r"3 of 5 files accepted, 19.0 KB")
        self.assertEqual({"count": 3, "offered": 5, "size": 19000}, ben.wait_for("part")["files"])
        self.assertEqual("completed", self.outcome(ben))
        anna.wait_for(r"trip\b.* from ben: complete")
        self.assertEqual(["trip/a.txt", "trip/b.jpg", "trip/day/C.JPG"], sorted(self.anna.received()))
        # Another time another part, and the sender's user reads it.
        result = self.ben.start("send", folder, single, "--to", anna.address)
        anna.wait_for(r"\[p\]art: ")
        anna.press("p single*\n")
        self.assertEqual(0, result.end())
        self.assertIn(" has accepted 1 of 5 files, 5.0 KB", "\n".join(result.errors))
        self.assertEqual(single.read_bytes(), self.anna.received()["single.bin"])

    def test_A13_a_broken_part_goes_on_with_the_same_selection(self):
        anna = self.receiving()
        paths = [self.file(f"{number}.bin", 2_000_000) for number in range(3)]
        command = ["send", "--json", *paths, "--to", anna.address]
        ben = self.ben.start(*command, "--limit", "1MB")
        anna.wait_for(r"\[p\]art: ")
        anna.press("p 2,3\n")
        ben.wait_for("progress", lambda event: event["done"] > 300_000)
        ben.signal(signal.SIGKILL)
        ben.end()
        again = self.ben.start(*command)
        self.assertEqual("completed", self.outcome(again))
        # In any order.
        told = {event["event"]: event for event in again.events}
        self.assertEqual({"count": 2, "offered": 3, "size": 4_000_000}, told["part"]["files"])
        self.assertGreater(told["resumed"]["offset"], 0)
        self.assertEqual(["1.bin", "2.bin"], sorted(self.anna.received()))

    def test_A13_a_receiver_that_was_started_again_goes_on_with_the_same_part(self):
        port = free_port()
        command = self.anna.command("receive", "--adapter", "none", "--inbox", str(self.anna.inbox), "--port", port)
        paths = [self.file(f"{number}.bin", 2_000_000) for number in range(3)]
        for number in (signal.SIGTERM, signal.SIGKILL):
            anna = self.terminal(self.anna, *command)
            anna.wait_for(rf"on port {port}")
            ben = self.ben.start("send", "--json", *paths, "--to", f"127.0.0.1:{port}", "--limit", "1MB")
            anna.wait_for(r"\[p\]art: ")
            anna.press("p 2,3\n")
            ben.wait_for("progress", lambda event: event["done"] > 300_000)
            os.kill(anna.process, number)
            anna.end()
            anna = self.terminal(self.anna, *command)
            anna.wait_for(r"ben → 1.bin and 1 more: goes on at .* of 4.0 MB")
            ben.wait_for("finished", lambda event: event["outcome"] == "completed")
            anna.wait_for("complete")
            self.assertNotIn(b"accept?", anna.transcript)
            self.assertEqual(["1.bin", "2.bin"], sorted(self.anna.received()))
            os.kill(anna.process, signal.SIGTERM)
            anna.end()
            shutil.rmtree(self.anna.inbox)

    def test_the_question_says_what_an_interrupted_transfer_has_received(self):
        content = self.file("large.bin", 4_000_000)
        for is_first in (True, False):
            anna = self.receiving()
            ben = self.ben.start("send", "--json", content, "--to", anna.address, *(["--limit", "1MB"] if is_first else []))
            if is_first:
                anna.wait_for(r"accept\? \[y\]es")
                self.assertNotIn("received earlier", anna.transcript.decode())
                anna.press("y\n")
                ben.wait_for("progress", lambda event: event["done"] > 1_000_000)
                for process in (anna.process, ben.process.pid):
                    os.kill(process, signal.SIGKILL)
                anna.end()
                # Otherwise the answer would hold for ten minutes.
                self.assertCode(0, self.anna.run("peers", "forget", "ben"))
            else:
                anna.wait_for(r"4.0 MB in total, [\d.]+ [KM]B of it received earlier, .* free on this machine(?s:.*)accept\?")
                anna.press("y\n")
                self.assertEqual("completed", self.outcome(ben))

    def test_a_receiver_that_was_started_again_does_not_ask_again(self):
        port = free_port()
        command = self.anna.command("receive", "--adapter", "none", "--inbox", str(self.anna.inbox), "--port", port)
        for number in (signal.SIGTERM, signal.SIGKILL):
            anna = self.terminal(self.anna, *command)
            anna.wait_for(rf"on port {port}")
            content = self.file(f"{number}.bin", 4_000_000)
            ben = self.ben.start("send", "--json", content, "--to", f"127.0.0.1:{port}", "--limit", "1MB")
            anna.wait_for(r"accept\? \[y\]es")
            anna.press("y\n")
            ben.wait_for("progress", lambda event: event["done"] > 1_000_000)
            os.kill(anna.process, number)
            anna.end()
            anna = self.terminal(self.anna, *command)
            ben.wait_for("finished", lambda event: event["outcome"] == "completed")
            anna.wait_for(rf"ben → {content.name}: goes on at \d.* of 4.0 MB")
            self.assertNotIn(b"accept?", anna.transcript)
            self.assertEqual(content.read_bytes(), self.anna.received()[content.name])
            # Also what the killed process could not record.
            interrupted = [line for line in self.anna.run("history").stdout.decode().splitlines() if content.name in line]
            self.assertRegex(interrupted[0], r" [\d.]+ [KM]B of 4.0 MB +interrupted ")
            os.kill(anna.process, signal.SIGTERM)
            anna.end()

    def test_the_history_has_what_was_declined_and_what_a_closed_terminal_has_ended(self):
        anna = self.receiving()
        ben = self.offer(self.ben, anna, "one")
        anna.wait_for(r"accept\? \[y\]es")
        anna.press("n\n")
        self.assertEqual("declined", self.outcome(ben))
        ben = self.terminal(
            self.ben, *self.ben.command("send", self.file("two.bin", 9_000_000), "--limit", "1MB", "--to", anna.address)
        )
        anna.wait_for(r'"two.bin"(?s:.*)accept\? \[y\]es')
        anna.press("y\n")
        ben.wait_for(r"\d MB of 9.0 MB")
        # Both the terminal and its shell hang up.
        for _ in range(2):
            os.kill(ben.process, signal.SIGHUP)
        ben.end()
        anna.wait_for("two.bin from ben")
        anna.press("\x03")
        anna.end()

        def history(peer):
            lines = peer.run("history", "--json").stdout.splitlines()
            return [(event["direction"], event["outcome"], event["content"]) for event in map(json.loads, lines)]

        self.assertEqual([("received", "declined", "a message"), ("received", "cancelled", "two.bin")], history(self.anna))
        self.assertEqual([("sent", "declined", "message"), ("sent", "cancelled", "two.bin")], history(self.ben))

    def slow_send(self, peer, receiver):
        """Starts a send of some 13 s."""
        path = self.file(f"{peer.home.name}.bin", 8_000_000)
        return peer.start("send", "--json", path, "--to", receiver.address, "--limit", "600KB")

    def test_one_of_several_transfers_is_cancelled(self):
        anna = self.receiving()
        senders = []
        for peer in [self.ben, self.cleo]:
            senders.append(self.slow_send(peer, anna))
            anna.wait_for(rf'"{peer.home.name}" offers:(?s:.*)accept\? \[y\]es')
            anna.press("y\n")
            anna.wait_for(rf"{peer.home.name} → {peer.home.name}.bin  ")
        anna.press("c\n")
        anna.wait_for(r"1  ben → ben.bin\s+2  cleo → cleo.bin\s")
        anna.press("c 2\n")
        self.assertEqual("cancelled", self.outcome(senders[1]))
        self.assertNotEqual(0, senders[1].end())
        self.assertIn("cancelled the transfer", "".join(senders[1].errors))
        self.assertEqual("completed", self.outcome(senders[0]))
        self.assertEqual(["ben.bin"], sorted(self.anna.received()))

    def test_an_offer_keeps_its_number_until_it_has_ended(self):
        anna = self.receiving()
        senders = []
        for peer in [self.ben, self.cleo]:
            senders.append(self.slow_send(peer, anna))
            anna.wait_for(rf'"{peer.home.name}" offers:')
        anna.wait_for('number 2, "cleo", .* left: accept')
        anna.press("y 2\n")
        anna.wait_for(r"cleo → cleo.bin  ")
        anna.press("c\n")
        anna.wait_for(r" 2  cleo → cleo.bin\s+c 2 cancels number 2")
        anna.press("ye 3\n")
        anna.wait_for("there is no such question; write y 1 to accept")
        anna.press("y 1\n")
        anna.wait_for(r"ben → ben.bin  ")
        anna.press("c\n")
        anna.wait_for(r" 1  ben → ben.bin\s+2  cleo → cleo.bin\s")
        anna.press("c 2\n")
        self.assertEqual("cancelled", self.outcome(senders[1]))
        self.assertEqual("completed", self.outcome(senders[0]))

    def test_a_line_without_a_question_is_answered_with_the_keys(self):
        anna = self.receiving()
        anna.press("y\n")
        anna.wait_for("no question is open: y or n answers one, c cancels a transfer, Ctrl-C ends this")
        ben = self.offer(self.ben, anna, "hello")
        anna.wait_for(r"accept\? \[y\]es, \[a\]lways, \[n\]o, \[b\]lock: ")
        anna.press("n\n")
        self.assertEqual("declined", self.outcome(ben))

    def test_the_cursor_stays_where_the_reader_of_a_pipe_has_left_it(self):
        words = shlex.join(self.anna.command("receive", "--stdout", "--accept", "all", "--adapter", "none"))
        anna = self.terminal(self.anna, "bash", "-c", f"{words} | wc -c")
        address = "127.0.0.1:" + anna.wait_for(r"on port (\d+)")[1]
        self.assertCode(0, self.ben.run("send", self.file("big.bin", 3_000_000), "--limit", "1MB", "--to", address))
        self.assertEqual(0, anna.end())
        self.assertIn(b"3000000", anna.buffer)
        self.assertIsNone(re.search(rb"\x1b\[[0-9]*[A-HJK]", anna.buffer), anna.buffer)

    def test_ctrl_d_is_no_answer_and_later_answers_are_read(self):
        anna = self.receiving()
        for number in range(2):
            ben = self.offer(self.ben, anna, "hello")
            anna.wait_for(r"accept\? \[y\]es, \[a\]lways, \[n\]o, \[b\]lock: ")
            anna.press("\x04\x04")
            anna.press("y\n")
            self.assertEqual("completed", self.outcome(ben), number)
            anna.wait_for("complete")

    def test_questions_wait_in_the_background_and_are_answered_in_the_foreground(self):
        words = shlex.join(self.anna.command("receive", "--adapter", "none", "--inbox", str(self.anna.inbox)))
        shell = self.terminal(self.anna, "bash", "--norc", "--noprofile", "-i")
        shell.press(f"PS1=ready:; {words} &\n")
        shell.address = "127.0.0.1:" + shell.wait_for(r"on port (\d+)")[1]
        ben = self.offer(self.ben, shell, "hello")
        shell.wait_for(r"accept\? \[y\]es")
        self.bring_back(shell)
        shell.press("y\n")
        self.assertEqual("completed", self.outcome(ben))
        shell.press("\x1a")
        shell.wait_for("Stopped")
        shell.press("bg\n")
        shell.wait_for("&")
        ben = self.offer(self.ben, shell, "again")
        shell.wait_for(r"accept\? \[y\]es")
        self.bring_back(shell)
        shell.press("y\n")
        self.assertEqual("completed", self.outcome(ben))
        shell.press("\x03")
        shell.wait_for("ready:")
        shell.press("exit\n")
        shell.end()

    def bring_back(self, shell):
        shell.press("fg\n")
        shell.wait_for("receive --adapter")
        # The question is repeated automatically after a while in the background, otherwise by Enter.
        shell.press("\n")
        shell.wait_for(r"accept\? \[y\]es")

    def test_without_cursor_movement_there_are_only_whole_lines(self):
        words = shlex.join(self.anna.command("receive", "--adapter", "none", "--inbox", str(self.anna.inbox)))
        for command, variables in ((f"exec {words}", {"TERM": "dumb"}), (f"{words} | cat", {"TERM": "xterm"})):
            anna = self.terminal(self.anna, "sh", "-c", command, variables=variables)
            anna.address = "127.0.0.1:" + anna.wait_for(r"on port (\d+)")[1]
            for number in range(2):
                start = len(anna.transcript)
                path = self.file(f"{len(command)}-{number}.bin", 300_000)
                ben = self.ben.start("send", "--json", path, "--to", anna.address, "--limit", "300KB")
                anna.wait_for(r"accept\? \[y\]es")
                anna.press("yex\x7f\x7f\n")
                self.assertEqual("completed", self.outcome(ben))
                anna.wait_for("complete")
                # The first line that goes to a pipe ends drawing.
                if number == 1 or variables["TERM"] == "dumb":
                    drawn = anna.transcript[start:]
                    self.assertNotIn(b"\x1b", drawn)
                    self.assertNotIn(b"\r", drawn.replace(b"\r\n", b""))
                    self.assertRegex(drawn, rb"answer by \d\d:\d\d:\d\d: accept\?")
                    self.assertNotIn(b"[c]ancel a transfer", drawn)
            self.assertEqual(1, anna.transcript.count(b"c and Enter cancels a transfer"))
            anna.press("\x03")

    def test_a_closed_terminal_ends_the_command(self):
        anna = self.receiving()
        os.close(anna.device)
        anna.device = os.open("/dev/null", os.O_RDONLY)
        self.assertNotEqual(0, anna.end())


class CodeStory(Asked):
    def compare(self):
        anna = self.receiving()
        ben = self.terminal(self.ben, *self.ben.command("peers", "verify", anna.address))
        ben.wait_for(r"are they the same\?")
        anna.wait_for(r'is it the same on the screen of "ben"\?')
        return anna, ben

    def trust(self, peer):
        return [line.split()[2] for line in peer.run("peers").stdout.decode().splitlines()]

    def verified(self):
        anna, ben = self.compare()
        anna.press("y\n")
        anna.wait_for("waiting for ben to confirm it as well")
        self.assertEqual([], self.trust(self.anna))
        ben.press("y\n")
        ben.wait_for("anna is verified")
        self.assertEqual(0, ben.end())
        anna.wait_for("ben is verified")
        self.assertEqual((["verified"], ["verified"]), (self.trust(self.anna), self.trust(self.ben)))
        anna.press("\x03")
        anna.end()

    def test_K3_a_key_is_verified_when_both_users_confirm_in_either_order(self):
        self.verified()
        anna, ben = self.compare()
        ben.press("y\n")
        ben.wait_for("waiting for anna")
        anna.press("y\n")
        anna.wait_for("ben is verified")
        self.assertEqual(0, ben.end())

    def test_K3_a_no_of_the_requesting_user_is_reported_and_removes_the_verification(self):
        self.verified()
        anna, ben = self.compare()
        ben.press("n\n")
        anna.wait_for("ben says that the codes are not the same")
        self.assertEqual(5, ben.end())
        self.assertEqual(["seen"], self.trust(self.ben))

    def test_K3_a_no_after_the_other_yes_verifies_no_key(self):
        anna, ben = self.compare()
        anna.press("y\n")
        anna.wait_for("waiting for ben")
        ben.press("n\n")
        anna.wait_for("not verified: ben says that the codes are not the same")
        self.assertEqual(5, ben.end())
        self.assertEqual(([], []), (self.trust(self.anna), self.trust(self.ben)))

    def test_K3_a_no_of_the_asked_user_closes_the_requesting_users_question(self):
        self.verified()
        anna, ben = self.compare()
        anna.press("n\n")
        ben.wait_for("anna says that the codes are not the same")
        self.assertEqual(5, ben.end())
        self.assertEqual(["seen"], self.trust(self.anna))

    def test_K3_ctrl_c_is_no_answer_of_the_asked_user(self):
        self.verified()
        anna, ben = self.compare()
        anna.press("\x03")
        anna.end()
        ben.wait_for("nothing was compared")
        self.assertNotEqual(5, ben.end())
        self.assertEqual((["verified"], ["verified"]), (self.trust(self.anna), self.trust(self.ben)))

    def test_a_question_is_closed_when_the_requesting_peer_disconnects(self):
        anna, ben = self.compare()
        ben.press("\x03")
        ben.end()
        anna.wait_for("the connection to ben ended; nothing was compared")
        self.assertEqual([], self.trust(self.anna))


if __name__ == "__main__":
    unittest.main()


class TerminalSizeStory(Asked):
    """Lines on terminals of 80 x 24 and 40 x 12 cells."""

    def lines(self, peer, size, variables, code, *arguments):
        """Returns what a command writes. No line is longer than the terminal, but a single word."""
        terminal = self.terminal(peer, *peer.command(*arguments), columns=size[0], rows=size[1], variables=variables)
        self.assertEqual(code, terminal.end())
        while terminal.read(0.1) and not terminal.buffer:
            pass
        # A progress line is drawn over itself.
        lines = [part for line in terminal.text.split("\n") for part in line.rstrip("\r").split("\r")]
        for line in lines:
            self.assertTrue(len(line) <= size[0] or len(line.split()) == 1, f"{arguments}: {line!r}")
        return lines

    def test_questions_findings_and_usage_errors_are_broken_between_words(self):
        name = ("peers", "verify", "anna", "--timeout", "a-word-that-is-long")
        for size in ((80, 24), (40, 12)):
            self.lines(self.ben, size, {}, 2, *name)
            self.lines(self.ben, size, {}, 2, "receive", "--accept", "strangers")
            for arguments in (("doctor", "--adapter", "none"), ("setup",)):
                screen = self.terminal(self.ben, *self.ben.command(*arguments), columns=size[0], rows=size[1])
                if arguments == ("setup",):
                    for _ in range(3):
                        screen.wait_for(r"\]: ")
                        screen.press("\n")
                screen.wait_for(r"clock:|time:")
                if arguments == ("setup",):
                    screen.press("\x03")
                for line in screen.transcript.decode().replace("\r", "").split("\n"):
                    plain = re.sub(r"\x1b(\[[0-9;?]*[a-zA-Z]|[78])", "", line)
                    self.assertTrue(len(plain) <= size[0] or len(plain.split()) == 1, f"{arguments}: {plain!r}")

    def test_messages_and_tables_fit(self):
        anna = self.anna.receive()
        for size in ((80, 24), (40, 12)):
            for variables in ({}, {"LC_ALL": "C", "TERM": "dumb"}):
                name = f"a-rather-long-name-{size[0]}{len(variables)}.txt"
                self.lines(self.ben, size, variables, 0, "send", self.file(name, 10), "--to", anna.address)
                self.lines(self.ben, size, variables, 3, "send", "--text", "x", "--to", "nobody", "--timeout", "0.5")
                self.lines(self.ben, size, variables, 0, "peers")
                self.lines(self.ben, size, variables, 0, "browse", "--timeout", "0.5")
                self.lines(self.ben, size, variables, 0, "history")
                inbox = self.lines(self.anna, size, variables, 0, "inbox", "--last", "2")
                if size[0] == 40:
                    # The path stands on a line of its own, whole.
                    self.assertIn(f"    {self.anna.inbox}/{name}", inbox)
