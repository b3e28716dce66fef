#!/usr/bin/env python3
"""What grows and what should not: one source to eight receivers, nearly a million files, a resume, an idle node, and starts.

Everything goes over loopback and through memory (tmpfs); the many files take about 10 GiB of it."""

import argparse
import contextlib
import json
import pathlib
import resource
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

import bench
import limits

RECEIVER_COUNT = 8


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--nearshare", type=pathlib.Path, default=pathlib.Path(".build/fixed/release/nearshare"))
    options.add_argument("--wait", type=int, default=300, help="limit on the seconds to wait for a quiet machine")
    options.add_argument("--only", choices=["start", "idle", "receivers", "files", "resume"], help="one of the measurements")
    options.add_argument(
        "--files", type=int, default=998_000, help="number of empty files; with their folders at most a million"
    )
    options.add_argument("--size", type=int, default=8 << 30, help="bytes of the file that is resumed")
    arguments = options.parse_args()
    binary = arguments.nearshare.resolve()
    print(limits.wait_until_quiet(seconds=arguments.wait), flush=True)
    measurements = {
        "start": start,
        "idle": idle,
        "receivers": receivers,
        "files": lambda *common: files(*common, arguments.files),
        "resume": lambda *common: resume(*common, arguments.size),
    }
    for name, measure in measurements.items():
        if arguments.only in (None, name):
            # A folder for each, so that no measurement has the memory of another one.
            with (
                tempfile.TemporaryDirectory(dir="/dev/shm", prefix="nearshare-scale-") as place,
                contextlib.ExitStack() as stack,
            ):
                print(f"{name}: {measure(binary, pathlib.Path(place), stack)}", flush=True)


def start(binary, place, stack):
    walls = [bench.run([binary, "--version"])[0] for _ in range(101)]
    return f"{statistics.median(walls) * 1000:.1f} ms, {min(walls) * 1000:.1f} at best"


def idle(binary, place, stack):
    node = receiver(binary, place, "idle", stack)
    # What it does when it starts is not counted.
    time.sleep(20)
    before, begun, used = switches(node.process.pid), time.monotonic(), node.cpu()
    time.sleep(60)
    seconds = time.monotonic() - begun
    woken = switches(node.process.pid) - before
    return f"{woken / seconds:.2f} wake-ups a second, {(node.cpu() - used) * 1000:.0f} ms of CPU in {seconds:.0f} s"


def receivers(binary, place, stack):
    source = random_file(place / "256 MiB", 256 << 20)
    sender = bench.peer_environment(place / "sender")
    every = [receiver(binary, place, str(number), stack) for number in range(RECEIVER_COUNT)]
    texts = []
    for chosen in (every[:1], every[:1], every):
        for node in chosen:
            clear(node.inbox)
        limits.touch_memory(place, len(chosen) * (256 << 20))
        before = [node.cpu() for node in chosen]
        addresses = [word for node in chosen for word in ("--to", node.address)]
        wall, cpu = bench.run([binary, "send", "--quiet", source, *addresses], env=sender)
        spent = sum(node.cpu() for node in chosen) - sum(before)
        texts.append(
            f"{len(chosen)}: {wall:.2f} s, CPU for each: sender {cpu / len(chosen):.3f} s, receiver {spent / len(chosen):.3f} s"
        )
    # The first one fills caches.
    return "; ".join(texts[1:])


def files(binary, place, stack, count):
    tree = place / "tree"
    for number in range(count):
        if number % 1000 == 0:
            folder = tree / f"{number // 1000:04}"
            folder.mkdir(parents=True)
        (folder / f"{number % 1000:03}").touch()
    sender = bench.peer_environment(place / "sender")
    node = receiver(binary, place, "receiver", stack)
    wall, cpu = bench.run([binary, "send", "--quiet", tree, "--to", node.address], env=sender)
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    received = sum(1 for path in node.inbox.rglob("*") if path.is_file())
    memory = f"memory: sender {largest} MiB, receiver {node.peak_memory()} MiB"
    return f"{received} of {count} in {wall:.1f} s, CPU {cpu + node.cpu():.1f} s, {memory}"


def resume(binary, place, stack, size):
    source = random_file(place / "large", size)
    sender = bench.peer_environment(place / "sender")
    node = receiver(binary, place, "receiver", stack)
    first = subprocess.Popen(
        [binary, "send", "--json", source, "--to", node.address], env=sender, stdout=subprocess.PIPE, text=True
    )
    for event in map(json.loads, first.stdout):
        if event["event"] == "progress" and event["done"] >= size * 0.9:
            first.send_signal(signal.SIGINT)
            break
    first.communicate()
    begun, resumed = time.perf_counter(), None
    second = subprocess.Popen(
        [binary, "send", "--json", source, "--to", node.address], env=sender, stdout=subprocess.PIPE, text=True
    )
    for event in map(json.loads, second.stdout):
        if event["event"] == "resumed":
            resumed = (time.perf_counter() - begun, event["offset"] / size)
    second.wait()
    if second.returncode != 0 or resumed is None:
        raise SystemExit(f"the second send ended with {second.returncode}, resumed: {resumed}")
    return (
        f"{size / 2**30:.0f} GiB, at {resumed[1]:.1%} content flows after {resumed[0]:.2f} s, all is there after "
        f"{time.perf_counter() - begun:.2f} s"
    )


def receiver(binary, place, name, stack):
    inbox = place / f"inbox of {name}"
    inbox.mkdir()
    node = bench.Receiver(binary, place / f"home of {name}", inbox, stack)
    node.inbox = inbox
    return node


def switches(process):
    """Voluntary context switches of all threads: each is the end of a wait."""
    tasks = pathlib.Path(f"/proc/{process}/task").iterdir()
    lines = [line for task in tasks for line in (task / "status").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


def random_file(path, size):
    with open("/dev/urandom", "rb") as noise, open(path, "wb") as file:
        for _ in range(size >> 20):
            file.write(noise.read(1 << 20))
    return path


def clear(folder):
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


if __name__ == "__main__":
    main()
