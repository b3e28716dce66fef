"""Chromium over the Chrome DevTools Protocol alone. Drivers that watch the network, as playwright does, have each request's
body copied to themselves as text: uploads then take three times as long."""

import json
import os
import shutil
import subprocess
import tempfile
import time


class Chromium:
    def __init__(self, place):
        self.profile = tempfile.mkdtemp(prefix="chromium-", dir=place)
        self.downloads = os.path.join(self.profile, "downloads")
        # Chromium reads commands from descriptor 3 and writes to 4.
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()
        options = ["--headless", "--no-sandbox", "--remote-debugging-pipe", "--no-first-run", f"--user-data-dir={self.profile}"]
        program = ["sh", "-c", f'exec "$@" 3<&{commands} 4>&{answers}', "sh", shutil.which("chromium"), *options, "about:blank"]
        self.process = subprocess.Popen(
            program,
            pass_fds=(commands, answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self.count, self.bytes, self.events = 0, b"", []
        behaviour = {"behavior": "allow", "downloadPath": self.downloads, "eventsEnabled": True}
        self.call("Browser.setDownloadBehavior", behaviour)

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self):
        while b"\0" not in self.bytes:
            got = os.read(self.answers, 1 << 20)
            if not got:
                raise AssertionError("Chromium has ended")
            self.bytes += got
        message, self.bytes = self.bytes.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, parameters=None, session=None):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters or {}} | ({"sessionId": session} if session else {})
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != self.count:
            self.events.append(answer)
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        return answer["result"]

    def wait_for_event(self, method, test):
        while True:
            while self.events:
                event = self.events.pop(0)
                if event.get("method") == method and test(event["params"]):
                    return event["params"]
            self.events.append(self.receive())

    def open(self, url):
        return Page(self, url)


class Page:
    def __init__(self, chromium, url):
        self.chromium = chromium
        self.target = chromium.call("Target.createTarget", {"url": url})["targetId"]
        self.session = chromium.call("Target.attachToTarget", {"targetId": self.target, "flatten": True})["sessionId"]

    def close(self):
        self.chromium.call("Target.closeTarget", {"targetId": self.target})

    def call(self, method, parameters=None):
        return self.chromium.call(method, parameters, self.session)

    def run(self, script):
        result = self.call("Runtime.evaluate", {"expression": script, "returnByValue": True, "userGesture": True})
        if "exceptionDetails" in result:
            raise AssertionError(result["exceptionDetails"])
        return result["result"].get("value")

    def wait_for(self, script, timeout=600):
        end = time.monotonic() + timeout
        while not self.run(f"Boolean({script})"):
            if time.monotonic() > end:
                raise AssertionError(f"waited {timeout} s for {script}\n{self.run('document.body.innerText')}")
            time.sleep(0.01)

    def choose(self, selector, path):
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", {"nodeId": root, "selector": selector})["nodeId"]
        self.call("DOM.setFileInputFiles", {"files": [str(path)], "nodeId": node})

    def click(self, script):
        """Clicks an element that a script finds, and waits for the download that follows. Returns its path."""
        self.run(f"{script}.click()")
        begun = self.chromium.wait_for_event("Browser.downloadWillBegin", lambda _: True)

        def has_ended(event):
            return event["guid"] == begun["guid"] and event["state"] != "inProgress"

        if self.chromium.wait_for_event("Browser.downloadProgress", has_ended)["state"] != "completed":
            raise AssertionError("the download was cancelled")
        return os.path.join(self.chromium.downloads, begun["suggestedFilename"])
