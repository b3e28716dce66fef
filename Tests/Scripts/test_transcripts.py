"""Short stories of commands and their output, in Tests/Transcripts, run against the real executable.

A line that starts with `$ ` is a command for the shell; the lines up to the next command are its expected output, standard
output and standard error together, and `[exit N]` for an exit status other than 0. Lines that start with `#` are for readers.
In the expected output `…` matches any text within a line, a line with nothing but `…` for any number of lines, and `<id>`
for hexadecimal digits.

The commands are those of ben. `anna nearshare …` runs one as anna. Where a story mentions `$ANNA`, anna runs
`nearshare receive` at that address.
"""

import os
import pathlib
import re
import subprocess
import unittest

from harness import BINARY, Story

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "Transcripts"


def read(text):
    """The commands of a transcript, each with the lines that are expected."""
    steps = []
    for line in text.splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        elif not line.startswith("#") and (steps or line.strip()):
            steps[-1][1].append(line)
    return [(command, trim(lines)) for command, lines in steps]


def trim(lines):
    """Without blank lines at the end, which separate the steps."""
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines


def pattern(lines):
    """A regular expression for the expected output."""
    parts = []
    for line in lines:
        if line.strip() == "…":
            parts.append(r"(?:.*\n)*")
        else:
            text = re.escape(line).replace(re.escape("…"), ".*").replace(re.escape("<id>"), "[0-9a-f]+")
            parts.append(text + r"\n")
    return re.compile("".join(parts))


class Transcripts(Story):
    def run_story(self, path):
        text = path.read_text()
        tools = self.place / "bin"
        work = self.place / "work"
        for folder in (tools, work):
            folder.mkdir()
        (tools / "nearshare").symlink_to(BINARY)
        words = " ".join(
            f"{name}={value}"
            for name, value in self.anna.environment().items()
            if name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
        )
        (tools / "anna").write_text(f'#!/bin/sh\nexec env {words} "$@"\n')
        (tools / "anna").chmod(0o755)
        environment = self.ben.environment() | {"PATH": f"{tools}:{os.environ['PATH']}", "TZ": "UTC"}
        for person in (self.anna, self.ben):
            self.assertCode(0, person.run("identity", "rename", person.home.name))
        if "$ANNA" in text:
            environment["ANNA"] = self.anna.receive("--adapter", "none").address
        for command, expected in read(text):
            with self.subTest(command):
                result = subprocess.run(
                    ["sh", "-c", command],
                    env=environment,
                    cwd=work,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    timeout=60,
                    start_new_session=True,
                )
                output = result.stdout.decode(errors="replace")
                if output and not output.endswith("\n"):
                    output += "\n"
                if result.returncode:
                    output += f"[exit {result.returncode}]\n"
                if not pattern(expected).fullmatch(output):
                    self.fail(f"{path.name}\n$ {command}\nexpected:\n" + "\n".join(expected) + f"\ngot:\n{output}")


def add(path):
    setattr(Transcripts, "test_" + path.stem.replace("-", "_"), lambda self: self.run_story(path))


for story in sorted(FOLDER.glob("*.txt")):
    add(story)


if __name__ == "__main__":
    unittest.main()
