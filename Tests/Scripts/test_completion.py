"""What the shells offer when Tab is pressed."""

import pathlib
import shutil
import subprocess
import unittest

from harness import Story

COMPLETIONS = pathlib.Path(__file__).resolve().parents[2] / "completions"

# Completes `nearshare send notes.txt --to x` as bash does, and prints the offered words.
BASH = r"""
source "$1/nearshare.bash"
COMP_WORDS=(nearshare send notes.txt --to x)
COMP_CWORD=4
COMP_LINE="${COMP_WORDS[*]}"
COMP_POINT=${#COMP_LINE}
_nearshare nearshare x --to
printf '%s\n' "${COMPREPLY[@]}"
"""


class CompletionStory(Story):
    def offered(self, name):
        """The words offered to ben for receivers that begin with x, after he has seen anna under this name."""
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
            ["bash", "-c", BASH, "bash", str(COMPLETIONS)],
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
    def test_T8_a_peers_name_is_not_expanded(self):
        # The peer's id is offered instead, which begins with another letter.
        self.assertEqual([], self.offered("x$(touch owned)`touch owned`"))
        self.assertFalse((self.place / "owned").exists())


if __name__ == "__main__":
    unittest.main()
