"""What an honest newcomer meets, and what the node uses, under each attack of flood_peer.py at full rate:
`NEARSHARE=… python3 measure_floods.py [ATTACK…]`.

Prints the bytes that the attack sent a second, the seconds until the newcomer is known, until her 20 lines and then her file of
100 KB have arrived, the node's highest resident memory (VmHWM), and its share of one processor in that time."""

import os
import pathlib
import sys
import time
import unittest

import test_floods
from flood_peer import ATTACKS

RATE = 10_000_000


def processor_time(process):
    """The time that all threads have used, in seconds."""
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Measurement(test_floods.FloodStory):
    rate = RATE

    def __init__(self, name):
        super().__init__("measure")
        self.name = name

    def attack(self, attack, node, newcomer):
        attacker = super().attack(attack, node, newcomer)
        self.process = node.process.pid
        self.start, self.used = time.monotonic(), processor_time(self.process)
        return attacker

    def measure(self):
        known, lines, file = self.flood(self.name, is_heard_behind=self.name != "impostor")
        share = (processor_time(self.process) - self.used) / (time.monotonic() - self.start)
        self.attacker.stdin.close()
        rate = int(self.attacker.stdout.read())
        megabytes, memory = rate / 1e6, test_floods.highest_memory(self.process)
        times = " ".join(f"{each:6.1f} s" for each in (known, lines, file))
        print(f"{self.name:16} {megabytes:5.1f} MB/s {times} {memory:6.0f} MiB {100 * share:4.0f} %", flush=True)


if __name__ == "__main__":
    suite = unittest.TestSuite(Measurement(each) for each in sys.argv[1:] or ATTACKS)
    sys.exit(not unittest.TextTestRunner(verbosity=0).run(suite).wasSuccessful())
