#!/usr/bin/python3
"""Benchmarks of Bluetooth in the virtual machine. Results are printed, not checked. Run by Tests/Radio/bench."""

import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import radio_harness
from radio_harness import ADDRESSES, Probe, RadioPeer, bring, network, rest

ROUNDS = 3
CHANNEL_BYTES = 2_000_000
FRAME_BYTES = 100_000
# Seconds between two fragments.
PACE = 0.020


def plain(count):
    """Connect time and throughput of two small C programs."""
    program = os.environ["RADIO_PLAIN"]
    with subprocess.Popen([program, "serve", ADDRESSES[0], "0x90"], stdout=subprocess.PIPE, text=True) as server:
        server.stdout.readline()
        shown = subprocess.run(
            [program, "send", ADDRESSES[1], ADDRESSES[0], "0x90", str(count)],
            capture_output=True,
            text=True,
            check=True,
        )
    seconds, rate = shown.stdout.split()
    return float(seconds), float(rate)


def channel(there, here, host, number):
    here.tell("send", host, number, CHANNEL_BYTES)
    connected = int(here.wait_for("connected")[0]) / 1000
    total, milliseconds = here.wait_for("sent")
    assert int(total) == CHANNEL_BYTES
    return connected, CHANNEL_BYTES / (int(milliseconds) / 1000)


def sent(sender, receiver, path, way):
    """Seconds from the acceptance, or the first frame, to the end, as the sender reports them."""
    running = sender.start("send", path, "--to", "anna", "--via", way, "--json")
    # Frames are sent without asking the receiver first.
    first = "progress" if way == "mesh" else "accepted"
    running.wait_for(first, timeout=radio_harness.TIMEOUT)
    begun = time.monotonic()
    running.wait_for("finished", timeout=radio_harness.TIMEOUT)
    taken = time.monotonic() - begun
    assert running.end() == 0, running.story()
    receiver.wait_for("delivered")
    fragments = [event["fragments"] for event in running.events if event.get("fragments")]
    return taken, fragments[-1] if fragments else None


def main():
    place = pathlib.Path(tempfile.mkdtemp())
    os.chmod(place, 0o755)
    network(False)
    bring("nearshare", pathlib.Path("/run/nearshare"))
    radio_harness.harness.BINARY = pathlib.Path("/run/nearshare")
    print("| | figure | wanted |\n|---|---|---|")

    there = Probe("hci0")
    there.wait_for("ready")
    there.tell("advertise", "anna")
    there.wait_for("advertised")
    found = []
    for _ in range(ROUNDS):
        here = Probe("hci1")
        here.wait_for("ready")
        here.tell("browse")
        host, number, _, milliseconds = here.wait_for("seen")
        found.append(int(milliseconds) / 1000)
        if len(found) < ROUNDS:
            here.stop()
            rest()
    print(f"| found, connected, and its name read | {statistics.median(found):.2f} s | 2 s |")
    rates, connects, plains = [], [], []
    for _ in range(ROUNDS):
        seconds, rate = channel(there, here, host, number)
        connects.append(seconds)
        rates.append(rate)
        plains.append(plain(CHANNEL_BYTES)[1])
    print(f"| channel connected | {statistics.median(connects):.2f} s | 1 s |")
    ratio = statistics.median(rates) / statistics.median(plains)
    print(
        f"| 2 MB over a stream link : plain C sockets | {statistics.median(rates) / 1e6:.2f} : "
        f"{statistics.median(plains) / 1e6:.2f} MB/s = {ratio:.2f} | |",
        flush=True,
    )
    here.stop()
    there.stop()
    rest()

    anna, ben = RadioPeer(place / "anna", "hci0"), RadioPeer(place / "ben", "hci1")
    receiver = anna.receive()
    files = {}
    for name, size in (("large.bin", CHANNEL_BYTES), ("small.bin", FRAME_BYTES)):
        files[name] = place / name
        files[name].write_bytes(os.urandom(size))
    times = [sent(ben, receiver, files["large.bin"], "bluetooth")[0] for _ in range(ROUNDS)]
    rate = CHANNEL_BYTES / statistics.median(times)
    ratio = rate / statistics.median(plains)
    print(
        f"| a file of 2 MB with nearshare : plain C sockets | {rate / 1e6:.2f} MB/s = {ratio:.2f} | 0.7 |",
        flush=True,
    )
    taken, fragments = sent(ben, receiver, files["small.bin"], "mesh")
    print(
        f"| a private file of 100 kB in {fragments} frames : what 20 ms between two allow | {taken:.2f} s = "
        f"{taken / (PACE * fragments):.2f} | 1.1 |",
        flush=True,
    )
    anna.stop_all()
    ben.stop_all()
    shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
