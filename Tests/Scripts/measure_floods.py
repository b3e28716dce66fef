"""Memory and processor time of a node under each attack of flood_peer.py: `NEARSHARE=… python3 measure_floods.py [ATTACK…]`.

Prints the highest resident memory of the node (VmHWM), and its share of one processor, over SECONDS of each attack; "none" is a
node that nobody attacks."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

from flood_peer import ATTACKS
from harness import Peer

SECONDS = 5


def memory(process):
    """The highest resident memory so far, in MiB."""
    status = pathlib.Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def processor_time(process):
    """The time that all threads have used, in seconds."""
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(attack):
    with tempfile.TemporaryDirectory() as place:
        peer = Peer(pathlib.Path(place) / "anna")
        running = peer.receive("--interface", "lo")
        node = running.process.pid
        attacker = None
        if attack != "none":
            script = pathlib.Path(__file__).with_name("flood_peer.py")
            arguments = [sys.executable, script, attack, str(running.ready["port"]), running.ready["id"], "carol"]
            attacker = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            attacker.stdout.readline()
        start, used = time.monotonic(), processor_time(node)
        time.sleep(SECONDS)
        share = (processor_time(node) - used) / (time.monotonic() - start)
        print(f"{attack:10} {memory(node):6.0f} MiB {100 * share:4.0f} %", flush=True)
        if attacker:
            attacker.stdin.close()
            attacker.wait(10)
            attacker.stdout.close()
        peer.stop_all()


if __name__ == "__main__":
    for attack in sys.argv[1:] or ["none", *ATTACKS]:
        measure(attack)
