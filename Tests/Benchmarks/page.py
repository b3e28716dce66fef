#!/usr/bin/env python3
"""Times 1 GB through the page for browsers: Chromium on another machine, a network namespace at the other end of a cable,
beside nginx and `python3 -m http.server`. Prints medians of rounds in turn, the phases of the upload, and the largest memory of
nearshare. Needs root, Chromium and nginx.

page.py [--nearshare BINARY] [--runs N] [--size BYTES] [--profile] [--against BINARY]

--profile says in which functions of the page an upload spends its time, and the processor time of each process. --against times
uploads alone, to each of two nodes in turn.
"""

import argparse
import contextlib
import functools
import itertools
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

# A bit over the limit from which the page asks which way is wanted; it keeps what it decrypts in memory.
SEALED_SIZE = 210_000_000
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "Tests/Scripts"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nearshare", default=str(ROOT / ".build/fixed/release/nearshare"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--size", type=int, default=10**9)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--against")
    arguments = parser.parse_args()
    os.environ["NEARSHARE"] = arguments.nearshare
    with contextlib.ExitStack() as stack:
        place = pathlib.Path(tempfile.mkdtemp(prefix="nearshare-page-", dir="/dev/shm"))
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        os.environ["TMPDIR"] = tempfile.tempdir = str(place)
        bench = PageBench(place, arguments.size, stack)
        if arguments.profile:
            return bench.profile_upload()
        ways = {
            "plain_download": bench.plain_download,
            "nginx": bench.nginx,
            "http_server": bench.http_server,
            "sealed_download": bench.sealed_download,
            "upload": bench.upload,
        }
        if arguments.against:
            ways = {
                f"upload to {node}": functools.partial(bench.upload, node) for node in (arguments.nearshare, arguments.against)
            }
        rounds = {}
        for _ in range(arguments.runs):
            for name, way in ways.items():
                size, took = way()
                print(f"({name}: {took:.2f} s)", file=sys.stderr, flush=True)
                rounds.setdefault(name, []).append((took, size))
    times = {name: statistics.median(took for took, _ in each) for name, each in rounds.items()}
    for name, took in times.items():
        least, most = min(rounds[name])[0], max(rounds[name])[0]
        print(f"| {name} | {took:.2f} s | {rounds[name][0][1] / took / 1e6:.0f} MB/s | {least:.2f} to {most:.2f} s |")
    if "nginx" in times:
        print(f"plain download: {times['nginx'] / times['plain_download']:.2f} of nginx")
    for phase, each in bench.phases.items():
        print(f"upload, {phase}: {statistics.median(each):.2f} s")
    print(f"largest memory of nearshare: {bench.memory / 1024:.0f} MiB")


# Records when the words of the status change: they name the phases of an upload.
PHASES = """{
    const status = document.getElementById("status"), phases = window.uploadPhases = [];
    new MutationObserver(() => {
        const word = status.textContent.split(/[ :]/)[0];
        if (!phases.length || phases.at(-1)[0] !== word) phases.push([word, performance.now()]);
    }).observe(status, { childList: true });
}"""
IS_DONE = 'document.getElementById("status").className === "good"'
WORDS = {"Waiting": "until it is accepted", "Sending": "sending", "Nearly": "storing the rest"}
NGINX = """
user root;
pid {place}/nginx.pid;
error_log stderr error;
events {{}}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    default_type application/octet-stream;
    server {{
        listen 8000;
        root {place};
        autoindex on;
    }}
}}
"""


class PageBench:
    def __init__(self, place, size, stack):
        import harness
        from chromium import Chromium
        from harness import MachinesInARow, Peer
        from test_page_in_chromium import inside

        self.memory = 0
        self.phases = {}
        self.harness = harness
        self.place = place
        self.film = self.random_file("film.bin", size)
        self.photos = self.random_file("photos.bin", SEALED_SIZE)
        self.machines = stack.enter_context(MachinesInARow())
        self.anna = Peer(place / "anna", self.machines.names[0])
        stack.callback(self.anna.stop_all)
        stack.enter_context(inside(self.machines.names[1]))
        self.chromium = Chromium(place)
        stack.callback(self.chromium.close)

    def random_file(self, name, size):
        with open(self.place / name, "wb") as file:
            for start in range(0, size, 1 << 20):
                file.write(os.urandom(min(1 << 20, size - start)))
        return self.place / name

    @contextlib.contextmanager
    def page(self, url, is_ready):
        page = self.chromium.open(url)
        page.wait_for(is_ready)
        yield page
        page.close()

    def measure(self, running):
        status = pathlib.Path(f"/proc/{running.process.pid}/status").read_text()
        self.memory = max(self.memory, int(status.split("VmHWM:")[1].split()[0]))
        running.process.kill()
        running.process.wait()

    def download(self, path, found):
        """Downloads a file by clicking what a script finds."""
        anna = self.anna.start("send", "--qr", "--json", "--keep", "--accept", "all", path)
        with self.page(anna.wait_for("page")["url"], found) as page:
            begun = time.monotonic()
            saved = page.click(found)
            page.wait_for(IS_DONE)
            took = time.monotonic() - begun
        self.compare(saved, path)
        self.measure(anna)
        return path.stat().st_size, took

    def compare(self, saved, path):
        subprocess.run(["cmp", saved, path], check=True)
        os.unlink(saved)

    def plain_download(self):
        return self.download(self.film, 'document.querySelector("#items a.button")')

    def sealed_download(self):
        return self.download(
            self.photos, '[...document.querySelectorAll("button")].find(b => b.textContent === "Get it encrypted")'
        )

    def upload(self, node=None):
        self.harness.BINARY = pathlib.Path(node or os.environ["NEARSHARE"])
        took, phases = self.upload_measured()
        for (word, begun), (_, ended) in itertools.pairwise(phases):
            if word in WORDS:
                self.phases.setdefault(WORDS[word], []).append((ended - begun) / 1000)
        return self.film.stat().st_size, took

    def upload_measured(self, during=lambda *_: contextlib.nullcontext()):
        """Uploads the film. Returns the time, and the beginnings of the phases."""
        anna = self.anna.receive("--qr")
        with self.page(anna.wait_for("page")["url"], '!(document.querySelector("#choose") || { hidden: true }).hidden') as page:
            page.run(PHASES)
            with during(page, anna):
                begun = time.monotonic()
                page.choose("#files", self.film)
                page.wait_for(IS_DONE)
                took = time.monotonic() - begun
            phases = page.run("uploadPhases")
        self.measure(anna)
        subprocess.run(["cmp", self.anna.inbox / self.film.name, self.film], check=True)
        shutil.rmtree(self.anna.inbox)
        return took, phases

    def profile_upload(self):
        took, _ = self.upload_measured(during=self.profiled)
        print(f"upload, with the profiler: {took:.2f} s")

    @contextlib.contextmanager
    def profiled(self, page, anna):
        page.call("Profiler.enable")
        page.call("Profiler.setSamplingInterval", {"interval": 1000})
        before = processor_times(anna.process.pid)
        page.call("Profiler.start")
        yield
        profile = page.call("Profiler.stop")["profile"]
        after = processor_times(anna.process.pid)
        names = {node["id"]: node["callFrame"] for node in profile["nodes"]}
        times = {}
        for sample, delta in zip(profile["samples"], profile["timeDeltas"], strict=True):
            frame = names[sample]
            key = f"{frame['functionName'] or 'anonymous'}:{frame['lineNumber'] + 1}"
            times[key] = times.get(key, 0) + delta / 1e6
        for key, seconds in sorted(times.items(), key=lambda item: -item[1])[:16]:
            print(f"{seconds:8.2f} s  {key}")
        for key in after:
            print(f"{after[key] - before.get(key, 0):8.2f} s  processor time of {key}")

    def nginx(self):
        configuration = self.place / "nginx.conf"
        configuration.write_text(NGINX.format(place=self.place))
        command = [
            "ip",
            "netns",
            "exec",
            self.machines.names[0],
            "nginx",
            "-p",
            self.place,
            "-c",
            configuration,
            "-g",
            "daemon off;",
        ]
        return self.server(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def http_server(self):
        command = ["ip", "netns", "exec", self.machines.names[0], sys.executable, "-u", "-m", "http.server", "8000"]
        return self.server(
            subprocess.Popen([*command, "--directory", self.place], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        )

    def server(self, process):
        """Downloads the film from another server."""
        try:
            wait_for_port("10.77.0.1", 8000)
            found = f'[...document.links].find(link => link.textContent === "{self.film.name}")'
            with self.page("http://10.77.0.1:8000/", found) as page:
                begun = time.monotonic()
                saved = page.click(found)
                took = time.monotonic() - begun
            self.compare(saved, self.film)
            return self.film.stat().st_size, took
        finally:
            process.terminate()
            process.wait()


def wait_for_port(host, port):
    end = time.monotonic() + 10
    while True:
        try:
            socket.create_connection((host, port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def processor_times(nearshare):
    """The processor time of nearshare, and of each kind of Chromium's processes, in seconds."""
    times = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            # Those of Chromium's processes are divided by spaces.
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").split() or [b""]
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(folder.name) == nearshare:
            kind = "nearshare"
        elif b"chromium" in words[0]:
            kinds = [word for word in words if word.startswith((b"--type=", b"--utility-sub-type="))]
            kind = "chromium " + " ".join(word.decode().split("=")[1] for word in kinds)
        else:
            continue
        times[kind] = times.get(kind, 0) + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return times


if __name__ == "__main__":
    main()
