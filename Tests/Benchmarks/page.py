#!/usr/bin/env python3
"""Times 1 GB through the page for browsers: Chromium on another machine, a network namespace at the other end of a cable,
beside `python3 -m http.server`. Prints medians, and the largest memory of nearshare. Needs root, Chromium and playwright.

page.py [--nearshare BINARY] [--runs N] [--size BYTES]
"""

import argparse
import contextlib
import os
import pathlib
import shutil
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
    arguments = parser.parse_args()
    os.environ["NEARSHARE"] = arguments.nearshare
    with contextlib.ExitStack() as stack:
        place = pathlib.Path(tempfile.mkdtemp(prefix="nearshare-page-", dir="/dev/shm"))
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        os.environ["TMPDIR"] = tempfile.tempdir = str(place)
        bench = PageBench(place, arguments.size, stack)
        rounds = {}
        for _ in range(arguments.runs):
            for way in (bench.plain_download, bench.sealed_download, bench.upload, bench.http_server):
                size, took = way()
                print(f"({way.__name__}: {took:.2f} s)", file=sys.stderr, flush=True)
                rounds.setdefault(way.__name__, []).append((took, size))
    for name, each in rounds.items():
        took, size = statistics.median_low(each)
        print(f"| {name} | {took:.2f} s | {size / took / 1e6:.0f} MB/s |")
    print(f"largest memory of nearshare: {bench.memory / 1024:.0f} MiB")


class PageBench:
    def __init__(self, place, size, stack):
        from playwright.sync_api import sync_playwright

        from harness import MachinesInARow, Peer
        from test_page_in_chromium import CHROMIUM, inside

        self.memory = 0
        self.place = place
        self.film = self.random_file("film.bin", size)
        self.photos = self.random_file("photos.bin", SEALED_SIZE)
        self.machines = stack.enter_context(MachinesInARow())
        self.anna = Peer(place / "anna", self.machines.names[0])
        stack.callback(self.anna.stop_all)
        stack.enter_context(inside(self.machines.names[1]))
        playwright = stack.enter_context(sync_playwright())
        self.chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        stack.callback(self.chromium.close)

    def random_file(self, name, size):
        with open(self.place / name, "wb") as file:
            for start in range(0, size, 1 << 20):
                file.write(os.urandom(min(1 << 20, size - start)))
        return self.place / name

    @contextlib.contextmanager
    def page(self, url):
        context = self.chromium.new_context(locale="en")
        page = context.new_page()
        page.set_default_timeout(600_000)
        page.goto(url)
        yield page
        context.close()

    def measure(self, running):
        status = pathlib.Path(f"/proc/{running.process.pid}/status").read_text()
        self.memory = max(self.memory, int(status.split("VmHWM:")[1].split()[0]))
        running.process.kill()
        running.process.wait()

    def download(self, path, selector):
        anna = self.anna.start("send", "--qr", "--json", "--keep", "--accept", "all", path)
        with self.page(anna.wait_for("page")["url"]) as page:
            page.wait_for_selector(selector)
            begun = time.monotonic()
            with page.expect_download() as download:
                page.click(selector)
            page.locator("#status.good").wait_for()
            saved = download.value.path()
            took = time.monotonic() - begun
            subprocess.run(["cmp", saved, path], check=True)
        self.measure(anna)
        return path.stat().st_size, took

    def plain_download(self):
        return self.download(self.film, "#items a.button")

    def sealed_download(self):
        return self.download(self.photos, "text=Get it encrypted")

    def upload(self):
        anna = self.anna.receive("--qr")
        with self.page(anna.wait_for("page")["url"]) as page:
            page.wait_for_selector("#choose:not([hidden])")
            begun = time.monotonic()
            page.set_input_files("#files", self.film)
            page.locator("#status.good").wait_for()
            took = time.monotonic() - begun
        self.measure(anna)
        subprocess.run(["cmp", self.anna.inbox / self.film.name, self.film], check=True)
        shutil.rmtree(self.anna.inbox)
        return self.film.stat().st_size, took

    def http_server(self):
        command = ["ip", "netns", "exec", self.machines.names[0], sys.executable, "-u", "-m", "http.server", "8000"]
        server = subprocess.Popen(
            [*command, "--directory", self.place], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            server.stdout.readline()
            with self.page("http://10.77.0.1:8000/") as page:
                begun = time.monotonic()
                with page.expect_download() as download:
                    page.click(f"text={self.film.name}")
                saved = download.value.path()
                took = time.monotonic() - begun
                subprocess.run(["cmp", saved, self.film], check=True)
            return self.film.stat().st_size, took
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()
