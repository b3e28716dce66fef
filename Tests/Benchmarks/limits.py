"""The limits of a machine for one large file: plain socat, and the least code that moves a file in nearshare's records
(reference.c). Receiver and sender are children of this process, so that the figures are those of both ends."""

import json
import os
import pathlib
import resource
import shutil
import socket
import statistics
import subprocess
import time

BLOCK = 256 << 10
# The interquartile range of a rival's times, as a share of its median, above which a run is not comparable.
VARIATION = 0.15


def wait_until_quiet(load=0.3, seconds=300):
    """Waits for a low load average. Returns the load, and says where the time was not enough."""
    deadline = time.monotonic() + seconds
    while os.getloadavg()[0] >= load and time.monotonic() < deadline:
        time.sleep(1)
    now = os.getloadavg()[0]
    return f"load {now:.2f}" + ("" if now < load else f", **not quiet** after {seconds} s")


def touch_memory(place, size):
    """Lets the kernel have free memory that was in use just now. A virtual machine gives free memory back to its host within
    two seconds, and the next program that uses it waits for the host: a copy then takes three times as long."""
    path = place / "memory"
    with open(path, "wb") as file:
        for _ in range(size // len(ZEROS) + 64):
            file.write(ZEROS)
    path.unlink()


ZEROS = bytes(1 << 20)


def variation(figures):
    """The interquartile range of the times as a share of their median."""
    walls = [wall for wall, _ in figures]
    if len(walls) < 2:
        return 0.0
    first, _, third = statistics.quantiles(walls, n=4, method="inclusive")
    return (third - first) / statistics.median(walls)


def remark(results):
    """A line for a run in which a rival varied too much; empty for others."""
    loud = {name: variation(figures) for name, figures in results.items() if not name.startswith("nearshare")}
    names = [f"{name} by {share:.0%}" for name, share in loud.items() if share > VARIATION]
    return f"**not comparable**: the middle half of the rounds varies ({', '.join(names)})\n" if names else ""


def port(receiver):
    """The port of `nearshare receive --json`."""
    return next(event["port"] for event in map(json.loads, receiver.stdout) if event["event"] == "ready")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def wait_for_port(port):
    deadline = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


class Pair:
    """A receiver that ends with its one transfer, and a sender."""

    def __init__(self, receiver, sender, environments=(None, None)):
        self.receiver, self.sender, self.environments = receiver, sender, environments

    def run(self, prefix=lambda side: []):
        """Seconds on the clock and of the processors, and context switches."""
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        receiver = subprocess.Popen(
            [*prefix("receiver"), *map(str, self.receiver)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=self.environments[0],
        )
        subprocess.run([*prefix("sender"), *map(str, self.sender(receiver))], check=True, env=self.environments[1])
        receiver.communicate()
        if receiver.returncode != 0:
            raise subprocess.CalledProcessError(receiver.returncode, self.receiver)
        wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
        used = [getattr(after, name) - getattr(before, name) for name in ("ru_utime", "ru_stime", "ru_nvcsw", "ru_nivcsw")]
        return wall, sum(used[:2]), sum(used[2:])

    def count_calls(self, place):
        """System calls of both ends."""
        files = {side: place / f"calls-{side}" for side in ("receiver", "sender")}
        self.run(lambda side: ["strace", "-f", "-c", "-o", str(files[side])])
        totals = [line.split() for file in files.values() for line in file.read_text().splitlines() if line.endswith(" total")]
        return sum(int(fields[3]) for fields in totals)


def pairs(place, source, target, port):
    """The limits that can be measured here, by their names; and what is left out."""
    found = {}
    if shutil.which("socat"):
        found["socat, plain"] = Pair(
            ["socat", "-u", f"-b{BLOCK}", f"TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr", f"CREATE:{target}"],
            lambda _: ["socat", "-u", f"-b{BLOCK}", f"OPEN:{source}", f"TCP:127.0.0.1:{port},retry=400,interval=0.005"],
        )
    else:
        print("(socat is not installed: left out)")
    return found | reference_pairs(place, source, target, "")


def reference_pairs(place, source, target, kind, addresses=()):
    """The C reference without and with a cipher, by their names. The kind is "-tree" for a folder, whose files are smaller than
    a record, and empty for a file. Addresses: of the receiver, where it is not on the loopback."""
    program = place / "reference"
    code = pathlib.Path(__file__).with_name("reference.c")
    if subprocess.run(["cc", "-O2", "-o", program, code, "-lcrypto"], stderr=subprocess.DEVNULL).returncode != 0:
        print("(the C reference needs a C compiler and libssl-dev: left out)")
        return {}
    return {
        name: Pair(
            [program, "receive" + kind, target, cipher, BLOCK, *addresses],
            lambda receiver, cipher=cipher: [
                *[program, "send" + kind, source, cipher, BLOCK, receiver.stdout.readline().strip()],
                *addresses,
            ],
        )
        for name, cipher in (("C reference, plain", "plain"), ("C reference, AES-256-GCM of OpenSSL", "aes"))
    }


def costs(place, pairs, size):
    """A table of context switches and system calls for each GiB."""
    if not shutil.which("strace"):
        return "(strace is not installed: context switches and system calls are left out)\n"
    lines = ["| for each GiB, both ends | context switches | system calls |", "|---|---|---|"]
    for name, pair in pairs.items():
        touch_memory(place, size)
        switches = pair.run()[2]
        calls = pair.count_calls(place)
        lines.append(f"| {name} | {switches * 2**30 // size:,} | {calls * 2**30 // size:,} |")
    return "\n".join(lines) + "\n"
