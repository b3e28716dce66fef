#!/usr/bin/env python3
"""What a transfer costs, counted without a clock, and compared with limits: system calls of both ends for each MiB, and, of a
release build, instructions.

Valgrind stops in the debug information of either build and in code of the debug build, so that instructions are counted in a
stripped copy of the release build only. What a start costs is left out by the difference of two sizes."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import limits

MIB = 1 << 20
# From 27 and 34 to 41 and 62 were seen, on several machines: they depend on how often one end waits for the other.
MOST_CALLS = {"read, write, send and receive": 48, "all": 90}
# Millions, above the figures seen by a tenth; most of them are AES-GCM's, without the vector instructions of the machine.
MOST_INSTRUCTIONS = {"sender": 3.2, "receiver": 3.95}
MOVING = {"read", "write", "sendto", "sendmsg", "recvfrom", "recvmsg"}


def environment(home):
    """That of a user whose home is a folder, without the settings of whoever runs this."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "NEARSHARE_"))}
    return inherited | {"HOME": str(home), "XDG_RUNTIME_DIR": str(home.parent)}


class Transfer:
    def __init__(self, binary, place, size):
        self.place, self.size = place, size
        shutil.rmtree(place, ignore_errors=True)
        for side in ("receiver", "sender"):
            (place / side).mkdir(parents=True)
        (place / "file").write_bytes(os.urandom(size))
        self.pair = limits.Pair(
            [binary, "receive", "--inbox", place / "inbox", "--accept", "all", "--once", "--json"],
            lambda receiver: [binary, "send", "--quiet", place / "file", "--to", f"127.0.0.1:{limits.port(receiver)}"],
            [environment(place / side) for side in ("receiver", "sender")],
        )

    def calls(self):
        """Counts by name of the system call."""
        counts = {}
        self.pair.run(lambda side: ["strace", "-f", "-c", "-o", str(self.place / side / "calls")])
        for side in ("receiver", "sender"):
            for line in (self.place / side / "calls").read_text().splitlines():
                fields = line.split()
                if len(fields) >= 5 and fields[3].isdigit() and fields[-1] != "total":
                    counts[fields[-1]] = counts.get(fields[-1], 0) + int(fields[3])
        return counts

    def instructions(self):
        """Millions by side: of the process that runs longest, which is not one of its workers."""

        def prefix(side):
            home = self.place / side
            tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={home}/%p", f"--log-file={home}/log-%p"]
            return [*tool, "--trace-children=no"]

        self.pair.run(prefix)
        found = {}
        for side in ("receiver", "sender"):
            logs = [path.read_text() for path in (self.place / side).glob("log-*")]
            found[side] = max(int(count) for log in logs for count in re.findall(r"Collected : (\d+)", log)) / 1e6
        return found


def main():
    binary = pathlib.Path(sys.argv[1]).resolve()
    figures = {}
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="nearshare-cost-") as folder:
        place = pathlib.Path(folder)
        small, large = (Transfer(binary, place / "calls", size).calls() for size in (8 * MIB, 72 * MIB))
        growth = {name: (large[name] - small.get(name, 0)) / 64 for name in large}
        figures["read, write, send and receive"] = sum(growth[name] for name in MOVING & growth.keys())
        figures["all"] = sum(growth.values())
        problems = report(figures, MOST_CALLS, "system calls for each MiB")
        if "release" in binary.parts[-2:] and not shutil.which("valgrind"):
            print("cost: Valgrind is missing: instructions are not counted")
        elif "release" in binary.parts[-2:]:
            stripped = place / "nearshare"
            subprocess.run(["strip", "-o", stripped, binary], check=True)
            few, many = (Transfer(stripped, place / "counted", size).instructions() for size in (4 * MIB, 20 * MIB))
            growth = {side: (many[side] - few[side]) / 16 for side in few}
            problems += report(growth, MOST_INSTRUCTIONS, "million instructions for each MiB")
    sys.exit(1 if problems else 0)


def report(figures, most, unit):
    for name, figure in figures.items():
        print(f"cost: {name}: {figure:.2f} {unit}, at most {most[name]}" + (" — too many" if figure > most[name] else ""))
    return sum(figure > most[name] for name, figure in figures.items())


if __name__ == "__main__":
    main()
