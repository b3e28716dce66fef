"""What the shells offer when Tab is pressed."""

import json
import pathlib
import re
import shutil
import signal
import subprocess
import time
import unittest

from harness import Story, wait_until
from pseudo_terminal import PseudoTerminal
from sound_machine import tone, write_wave
from test_voice import own_network

COMPLETIONS = pathlib.Path(__file__).resolve().parents[2] / "completions"

# Completes `nearshare send notes.txt --to WORD` as bash does, and prints the offered words.
BASH = r"""
source "$1/nearshare.bash"
COMP_WORDS=(nearshare send notes.txt --to "$2")
COMP_CWORD=4
COMP_LINE="${COMP_WORDS[*]}"
COMP_POINT=${#COMP_LINE}
_nearshare nearshare "$2" --to
printf '%s\n' "${COMPREPLY[@]}"
"""


class CompletionStory(Story):
    def shell_environment(self):
        """The environment of a shell in which `nearshare` is the tool under test, and ben its user."""
        programs = self.place / "bin"
        programs.mkdir(exist_ok=True)
        if not (programs / "nearshare").exists():
            (programs / "nearshare").symlink_to(self.ben.command()[0])
        environment = self.ben.environment()
        environment |= {"PATH": f"{programs}:{environment['PATH']}", "PS1": "> ", "INPUTRC": "/dev/null", "LANG": "C.UTF-8"}
        return environment

    def offered(self, name, word="x"):
        """The words offered to ben for receivers that begin with a word, after he has seen anna under this name."""
        anna = self.anna.receive("--interface", "lo", name=name)
        seen = self.ben.run("browse", "--interface", "lo", "--timeout", "3")
        self.assertCode(0, seen)
        self.assertIn(anna.ready["id"], seen.stdout.decode())
        return self.words(word)

    def words(self, word):
        """The words offered to ben for receivers that begin with a word."""
        environment = self.shell_environment()
        completed = subprocess.run(
            ["bash", "-c", BASH, "bash", str(COMPLETIONS), word],
            env=environment,
            cwd=self.place,
            capture_output=True,
            text=True,
            timeout=30,
        )
        self.assertEqual(0, completed.returncode, completed.stderr)
        return list(filter(None, completed.stdout.splitlines()))

    @unittest.skipUnless(shutil.which("bash"), "needs bash")
    def test_peers_that_the_running_node_sees_are_offered_and_one_that_does_not_reply_is_not_waited_for(self):
        own_network(self)
        node = self.ben.receive("--interface", "lo", name="ben")
        name = f"Anna {self.seed:08x}"
        self.anna.receive("--interface", "lo", name=name)
        wait_until(lambda: self.words("ann") == [name.replace(" ", "\\ ")], "the name to be offered")
        node.signal(signal.SIGSTOP)
        self.addCleanup(node.signal, signal.SIGCONT)
        start = time.monotonic()
        self.assertEqual([], self.words("ann"))
        # 250 ms for the node, and the start of bash and of a debug build.
        self.assertLess(time.monotonic() - start, 5)

    @unittest.skipUnless(shutil.which("bash"), "needs bash")
    def test_a_peers_name_is_offered(self):
        self.assertEqual(["xenia"], self.offered("xenia"))

    @unittest.skipUnless(shutil.which("bash"), "needs bash")
    def test_a_peers_name_is_offered_in_any_letter_case(self):
        self.assertEqual(["Xenia"], self.offered("Xenia", "xEN"))

    @unittest.skipUnless(shutil.which("bash"), "needs bash")
    def test_T8_a_peers_name_is_not_expanded(self):
        # The peer's id is offered instead, which begins with another letter.
        self.assertEqual([], self.offered("x$(touch owned)`touch owned`"))
        self.assertFalse((self.place / "owned").exists())

    @unittest.skipUnless(shutil.which("bash"), "needs bash")
    def test_keys_in_bash_complete_folders_with_spaces_and_the_commands_after_help(self):
        (self.place / "x y" / "trip").mkdir(parents=True)
        (self.place / "x y" / "trip" / "photo.jpg").write_bytes(b"x")
        (self.place / "nest").mkdir()
        (self.place / "nest.txt").write_bytes(b"x")
        environment = self.shell_environment()
        start = f"cd '{self.place}'; source '{COMPLETIONS}/nearshare.bash'; echo rea''dy\n"
        for keys, expected in (
            ("nearshare send x\t", rb"send x\\ y/"),
            ("nearshare send x\\ y/t\tp\t", rb"send x\\ y/trip/photo.jpg "),
            ("nearshare receive --inbox n\t", rb"--inbox nest/"),
            ("nearshare help rec\t", rb"help receive "),
            ("nearshare help mesh st\ta\t", rb"help mesh st\x07?atus "),
        ):
            shell = PseudoTerminal(["bash", "--norc", "--noprofile", "-i"], environment, 100, 24)
            self.addCleanup(shell.close)
            shell.press(start)
            self.read_until(shell, rb"\rready")
            shell.press(keys)
            self.read_until(shell, expected)
            shell.press("\x15exit\n")
            while shell.read(5):
                pass

    def assertCompleted(self, terminal, shell, typed, words):
        """Presses Tab behind a command, and has the shell print the words that it then consists of."""
        with self.subTest(shell=shell, typed=typed):
            terminal.buffer = b""
            terminal.press(f"nearshare {typed}\t\x01printf '%s|' \n")
            self.read_until(terminal, re.escape(f"nearshare|{words}|").encode())

    def end_shell(self, terminal):
        terminal.press("\x15exit\n")
        while terminal.read(5):
            pass

    def start_shell(self, shell):
        """A shell on a terminal that completes words of `nearshare`."""
        commands = {
            "bash": (["bash", "--norc", "--noprofile", "-i"], f"source '{COMPLETIONS}/nearshare.bash'"),
            "zsh": (["zsh", "-f", "-i"], f"PS1='> '; fpath=('{COMPLETIONS}' $fpath); autoload -Uz compinit; compinit -u -D"),
            "fish": (["fish", "--no-config", "-i"], f"source '{COMPLETIONS}/nearshare.fish'"),
        }
        command, start = commands[shell]
        terminal = PseudoTerminal(command, self.shell_environment(), 100, 24)
        self.addCleanup(terminal.close)
        terminal.press(f"cd '{self.place}'; {start}; echo rea''dy\n")
        self.read_until(terminal, rb"ready\r\n")
        return terminal

    def test_keys_complete_names_with_spaces_and_apostrophes(self):
        """In each shell, what Tab inserts is one word: the name."""
        for name in ("Anna's phone", "Mum & Dad"):
            self.say_known(name)
        beginnings = ("Anna", "anna", "mum", "'Mum &", '"Mum &', r"Anna\'s\ p", '"Anna')
        for shell in ("bash", "zsh", "fish"):
            if not shutil.which(shell):
                continue
            terminal = self.start_shell(shell)
            for beginning in beginnings:
                with self.subTest(shell=shell, typed=beginning):
                    name = "Mum & Dad" if "mum" in beginning.lower() else "Anna's phone"
                    terminal.buffer = b""
                    terminal.press(f"nearshare send x --to {beginning}\t")
                    self.read_until(terminal, rb"Dad|hone")
                    terminal.press("\x01printf '%s|' \n")
                    self.read_until(terminal, re.escape(f"nearshare|send|x|--to|{name}|").encode())
            self.end_shell(terminal)

    def test_keys_complete_a_value_behind_an_equals_sign_and_the_command_line_of_exec(self):
        """In each shell. Behind the command of `--exec`, files are offered, and no options of nearshare."""
        self.say_known("Xenia")
        (self.place / "nest.txt").write_bytes(b"x")
        for shell in ("bash", "zsh", "fish"):
            if not shutil.which(shell):
                continue
            terminal = self.start_shell(shell)
            program = self.place / "bin" / "qqview"
            program.touch(0o755)
            for typed, words in (
                ("send x --to=Xe", "send|x|--to=Xenia"),
                ("send x --to=xe", "send|x|--to=xe" if shell == "fish" else "send|x|--to=Xenia"),
                ("send --to=Xenia --via=me", "send|--to=Xenia|--via=mesh"),
                ("receive --inbox=x --exec qq", "receive|--inbox=x|--exec|qqview"),
                ("receive --exec cat nes", "receive|--exec|cat|nest.txt"),
                ("receive --exec cat --keep", "receive|--exec|cat|--keep"),
                ("receive --exec cat -n nes", "receive|--exec|cat|-n|nest.txt"),
                ("receive --keep", "receive|--keep-executable"),
            ):
                self.assertCompleted(terminal, shell, typed, words)
            self.end_shell(terminal)

    def test_keys_complete_the_new_name_of_a_peer_that_was_renamed(self):
        """In each shell. What is typed of the peer's own name is replaced; fish shows the new name beside it."""
        anna = self.anna.receive("--once", name="Xenia")
        self.assertCode(0, self.ben.run("send", "--text", "hi", "--to", anna.address))
        self.assertCode(0, self.ben.run("peers", "rename", "Xenia", "mum's phone"))
        for shell in ("bash", "zsh", "fish"):
            if not shutil.which(shell):
                continue
            terminal = self.start_shell(shell)
            for typed, words in (
                ("send x --to xe", "send|x|--to|Xenia" if shell == "fish" else "send|x|--to|mum's phone"),
                ("send x --to=xe", "send|x|--to=xe" if shell == "fish" else "send|x|--to=mum's phone"),
                ("send x --to mu", "send|x|--to|mum's phone"),
                ("send x --to xy", "send|x|--to|xy"),
            ):
                self.assertCompleted(terminal, shell, typed, words)
            self.end_shell(terminal)

    def test_keys_complete_ids_of_voice_notes_and_files(self):
        sound = write_wave(self.place / "sound of one second.wav", tone(1))
        self.assertCode(0, self.ben.run("voice", "--input", sound))
        (note,) = [json.loads(line) for line in self.ben.run("voice", "list", "--json").stdout.splitlines()]
        (self.place / "zz-note.opus").write_bytes(b"x")
        for shell in ("bash", "zsh", "fish"):
            if not shutil.which(shell):
                continue
            terminal = self.start_shell(shell)
            for command, typed, word in (
                ("play", note["id"][:3], note["id"]),
                ("show", note["id"][:3], note["id"]),
                ("play", "zz", "zz-note.opus"),
            ):
                with self.subTest(shell=shell, typed=typed):
                    terminal.buffer = b""
                    terminal.press(f"nearshare voice {command} {typed}\t")
                    self.read_until(terminal, re.escape(word[len(typed) :]).encode())
                    terminal.press("\x01printf '%s|' \n")
                    self.read_until(terminal, re.escape(f"nearshare|voice|{command}|{word}|").encode())
            self.end_shell(terminal)

    def say_known(self, name):
        """Makes ben know a peer by this name."""
        other = type(self.anna)(self.place / f"peer-{len(name)}")
        path = other.home / "keys"
        self.assertCode(0, other.run("keys", "export", "--output", path))
        self.assertCode(0, self.ben.run("keys", "import", path, "--for", name))

    def read_until(self, shell, pattern):
        deadline = time.monotonic() + 20
        while not re.search(pattern, shell.buffer):
            self.assertLess(time.monotonic(), deadline, (pattern, shell.buffer))
            self.assertTrue(shell.read(1), (pattern, shell.buffer))


if __name__ == "__main__":
    unittest.main()
