"""What the shells offer when Tab is pressed."""

import pathlib
import re
import shutil
import subprocess
import time
import unittest

from harness import Story
from pseudo_terminal import PseudoTerminal

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
    def offered(self, name, word="x"):
        """The words offered to ben for receivers that begin with a word, after he has seen anna under this name."""
        anna = self.anna.receive("--interface", "lo", name=name)
        seen = self.ben.run("browse", "--interface", "lo", "--timeout", "3")
        self.assertCode(0, seen)
        self.assertIn(anna.ready["id"], seen.stdout.decode())
        programs = self.place / "bin"
        programs.mkdir()
        (programs / "nearshare").symlink_to(self.ben.command()[0])
        environment = self.ben.environment()
        environment["PATH"] = f"{programs}:{environment['PATH']}"
        completed = subprocess.run(
            ["bash", "-c", BASH, "bash", str(COMPLETIONS), word],
            env=environment,
            cwd=self.place,
            capture_output=True,
            text=True,
            timeout=30,
        )
        self.assertEqual(0, completed.returncode, completed.stderr)
        return completed.stdout.split()

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
        programs = self.place / "bin"
        programs.mkdir()
        (programs / "nearshare").symlink_to(self.ben.command()[0])
        environment = self.ben.environment()
        environment |= {"PATH": f"{programs}:{environment['PATH']}", "PS1": "> ", "INPUTRC": "/dev/null"}
        start = f"cd '{self.place}'; source '{COMPLETIONS}/nearshare.bash'; echo rea''dy\n"
        for keys, expected in (
            ("nearshare send x\t", rb"send x\\ y/"),
            ("nearshare send x\\ y/t\tp\t", rb"send x\\ y/trip/photo.jpg "),
            ("nearshare receive --inbox n\t", rb"--inbox nest/"),
            ("nearshare help rec\t", rb"help receive "),
            ("nearshare help mesh st\ta\t", rb"help mesh st\x07?atus "),
        ):
            shell = PseudoTerminal(["bash", "--norc", "--noprofile", "-i"], environment, 100, 24)
            shell.press(start)
            self.read_until(shell, rb"\rready")
            shell.press(keys)
            self.read_until(shell, expected)
            shell.press("\x15exit\n")
            while shell.read(5):
                pass

    def read_until(self, shell, pattern):
        deadline = time.monotonic() + 20
        while not re.search(pattern, shell.everything):
            self.assertLess(time.monotonic(), deadline, (pattern, shell.everything))
            self.assertTrue(shell.read(1), (pattern, shell.everything))


if __name__ == "__main__":
    unittest.main()
