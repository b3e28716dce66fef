"""The page in WebKitGTK, the nearest relative of the browser on iPhones that runs here."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import time
import unittest
import urllib.error
import urllib.request

from harness import TIMEOUT, MachinesInARow, Peer, Story, free_port, has_namespaces, wait_until
from test_page_in_chromium import inside

DRIVER = shutil.which("WebKitWebDriver")
BROWSER = "/usr/lib/x86_64-linux-gnu/webkit2gtk-4.1/MiniBrowser"
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class WebDriver:
    """A browser that is driven with the WebDriver protocol (W3C)."""

    def __init__(self, home, stack):
        home.mkdir()
        self.downloads = home / "Downloads"
        self.downloads.mkdir()
        (home / "user-dirs.dirs").write_text(f'XDG_DOWNLOAD_DIR="{self.downloads}"\n')
        read, write = os.pipe()
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        command = ["Xvfb", "-displayfd", str(write), "-screen", "0", "1280x1024x24", "-nolisten", "tcp"]
        self.own(stack, subprocess.Popen(command, pass_fds=[write], **quiet))
        os.close(write)
        with os.fdopen(read) as display:
            number = display.readline().strip()
        environment = os.environ | {
            "DISPLAY": f":{number}",
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home),
            "XDG_CACHE_HOME": str(home / "cache"),
            "XDG_DATA_HOME": str(home / "data"),
            "LANG": "C.UTF-8",
            "LIBGL_ALWAYS_SOFTWARE": "1",
            "GSETTINGS_BACKEND": "memory",
        }
        self.base = f"http://127.0.0.1:{free_port()}"
        self.own(stack, subprocess.Popen([DRIVER, f"--port={self.base.split(':')[2]}"], env=environment, **quiet))
        wait_until(self.answers, "the driver")
        options = {"binary": BROWSER, "args": ["--automation"]}
        wanted = {"capabilities": {"alwaysMatch": {"webkitgtk:browserOptions": options}}}
        self.base += "/session/" + self.request("POST", "/session", wanted)["sessionId"]
        stack.callback(self.request, "DELETE", "")

    @staticmethod
    def own(stack, process):
        stack.callback(process.wait)
        stack.callback(process.terminate)

    def answers(self):
        try:
            return self.request("GET", "/status")["ready"]
        except OSError:
            return False

    def request(self, method, path, body=None):
        data = None if body is None and method != "POST" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT * 2) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from None

    def open(self, url):
        self.request("POST", "/url", {"url": url})

    def element(self, selector):
        path = self.request("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]
        return f"/element/{path}"

    def text(self, selector):
        return self.request("GET", self.element(selector) + "/text")

    def click(self, selector):
        self.request("POST", self.element(selector) + "/click")

    def type(self, selector, text):
        self.request("POST", self.element(selector) + "/value", {"text": str(text)})

    def run(self, script):
        return self.request("POST", "/execute/sync", {"script": script, "args": []})

    def wait_for(self, words, selector="#status"):
        deadline = time.monotonic() + TIMEOUT
        while words not in (text := self.run(f"return (document.querySelector('{selector}') || {{}}).innerText || ''")):
            if time.monotonic() > deadline:
                raise AssertionError(f"no {words!r}: {text!r}")
            time.sleep(0.05)


@unittest.skipUnless(has_namespaces() and DRIVER and os.path.exists(BROWSER), "needs network namespaces and WebKitGTK")
class WebKitStory(Story):
    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.machines = stack.enter_context(MachinesInARow())
        super().setUp()
        stack.enter_context(inside(self.machines.names[1]))
        self.browser = WebDriver(self.place / "browser", stack)

    def people(self):
        self.anna = Peer(self.place / "anna", self.machines.names[0])
        self.ben = Peer(self.place / "ben", self.machines.names[1])

    def send(self, *arguments):
        anna = self.anna.start("send", "--qr", "--json", "--accept", "all", *arguments)
        self.browser.open(anna.wait_for("page")["url"])
        return anna

    def receive(self):
        anna = self.anna.receive("--qr")
        self.browser.open(anna.wait_for("page")["url"])
        self.browser.wait_for("Connected.")
        return anna

    def saved(self, path):
        """Waits until a file is saved whole."""
        saved = pathlib.Path(self.browser.downloads / path.name)
        wait_until(lambda: saved.exists() and saved.stat().st_size == path.stat().st_size, saved)
        return saved.read_bytes()

    def test_photos_and_texts_are_uploaded(self):
        anna = self.receive()
        self.assertFalse(self.browser.run("return isSecureContext"))
        photos = [self.file("photo 1.jpg", 3_000_000), self.file("b.bin", 262_144)]
        self.browser.type("#files", "\n".join(str(path) for path in photos))
        self.browser.wait_for("Done. 2 items are stored on anna.")
        self.assertEqual({path.name: path.read_bytes() for path in photos}, self.anna.received())
        self.browser.type("#text", "hello")
        self.browser.click("#sendtext")
        self.assertEqual("hello", anna.wait_for("delivered", lambda event: event["kind"] == "text")["text"])

    def test_an_upload_survives_a_cut_of_the_network(self):
        self.receive()
        self.machines.slow("20mbit")
        file = self.file("long.bin", 6_000_000)
        self.browser.type("#files", file)
        self.browser.wait_for("%")
        self.machines.cut()
        self.browser.wait_for("Connection lost.")
        self.machines.mend()
        self.browser.wait_for("Done.")
        self.assertEqual({"long.bin": file.read_bytes()}, self.anna.received())

    def test_photos_and_a_folder_are_downloaded(self):
        photos = [self.file("photo 1.jpg", 3_000_000), self.file("empty.txt", 0), self.file("short.txt", 10)]
        self.file("trip/a.txt", 1000)
        anna = self.send(*photos, self.place / "source/trip")
        self.browser.wait_for("Done. 4 items are saved.")
        for photo in photos:
            self.assertEqual(photo.read_bytes(), self.saved(photo))
        wait_until((self.browser.downloads / "trip.zip").exists, "the archive")
        self.assertEqual(0, anna.end())

    def test_a_text_is_shown_and_copied(self):
        anna = self.send("--text", "see you at 8")
        self.browser.wait_for("Done.")
        self.assertEqual("see you at 8", self.browser.run("return document.querySelector('textarea[readonly]').value"))
        self.browser.click("#items button")
        self.browser.wait_for("Copied", "#items button")
        self.assertEqual(0, anna.end())

    def test_a_large_file_is_downloaded_directly(self):
        file = self.file("large.bin", 1000)
        with open(file, "r+b") as content:
            content.truncate(200_000_001)
        anna = self.send(file)
        self.browser.wait_for("Choose how to get what is left.")
        self.browser.click("#items a.button")
        self.browser.wait_for("Done.")
        self.assertEqual(file.read_bytes(), self.saved(file))
        self.assertEqual(0, anna.end())

    def test_a_page_that_was_loaded_again_goes_on(self):
        file = self.file("long.bin", 3_000_000)
        anna = self.send(file, "--limit", "1MB")
        self.browser.wait_for("%")
        code = self.browser.text("#code")
        self.browser.request("POST", "/refresh")
        self.browser.wait_for("Done.")
        self.assertEqual(code, self.browser.text("#code"))
        self.assertEqual(file.read_bytes(), self.saved(file))
        self.assertEqual(0, anna.end())
