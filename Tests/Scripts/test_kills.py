"""A receiver that is killed with SIGKILL again and again, in every phase of a receive, also while its user is asked.
`make kills COUNT=1000` sets the number of kills, `NEARSHARE_SEED` the story; it prints how often each phase was hit."""

import json
import os
import shutil
import sys
import time
import unittest

from harness import Story, free_port
from test_questions import Terminal

# The phases of a receive, by what is on the disk.
PHASES = ["nothing", "begun", "content", "checkpoint", "finished", "named"]
KILLS = int(os.environ.get("KILLS", "20"))


class KilledReceiverStory(Story):
    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.phases = {}
        self.resumed = 0
        self.transfers = 0
        self.repeated = 0

    def offer(self, number):
        """Returns a folder and a file with new content: path in the inbox by content, and the paths to send."""
        source = self.place / f"source-{number}"
        files = {}
        for index in range(self.random.randint(20, 120)):
            path = source / "trip" / f"{index % 5}" / f"{index}.bin"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.random.randbytes(self.random.randint(0, 20_000)))
        large = source / "large.bin"
        large.write_bytes(self.random.randbytes(self.random.randint(100_000, 6_000_000)))
        for path in source.rglob("*"):
            if path.is_file():
                files[str(path.relative_to(source))] = path.read_bytes()
        return source, files

    def named(self):
        """The items in the inbox."""
        return [item for item in self.anna.inbox.iterdir() if item.name != ".nearshare"] if self.anna.inbox.exists() else []

    def staged(self, suffix):
        spool = self.anna.home / "state" / "nearshare" / "spool"
        try:
            return next(spool.glob(f"t-*/{suffix}"), None) is not None
        except OSError:
            # Race: the receiver removes what it has delivered.
            return False

    def phase(self):
        """The phase of a receive, by what is on the disk after a kill."""
        if self.named():
            return "named"
        for name, suffix in (("finished", "finished"), ("checkpoint", "journal"), ("content", "items/*/*"), ("begun", "lock")):
            if self.staged(suffix):
                return name
        return "nothing"

    def moment(self, receiver, sender):
        """Waits until the moment of the kill: a random time, or a phase and then a few milliseconds."""
        wanted = self.random.choice(["any", "any", *PHASES[1:]])
        end = time.monotonic() + (self.random.uniform(0, 0.5) if wanted == "any" else 3.0)
        while wanted == "any" or PHASES.index(self.phase()) < PHASES.index(wanted):
            if time.monotonic() > end or receiver.process.poll() is not None or sender.process.poll() is not None:
                return
            time.sleep(0.001)
        time.sleep(self.random.choice([0, self.random.uniform(0, 0.02)]))

    def check_inbox(self, files, when):
        """Whatever has a final name is what was sent. A folder has all of its files: its name is given to it as a whole."""
        for item in self.named():
            stem = item.name.split(".")[0].split(" (")[0]
            expected = {path: content for path, content in files.items() if path.split("/")[0].split(".")[0] == stem}
            self.assertTrue(expected, f"{when}: {item.name} was not sent")
            found = [item] if item.is_file() else [path for path in item.rglob("*") if path.is_file()]
            self.assertEqual(len(expected), len(found), f"{when}: {item.name} is not complete")
            for path in found:
                name = next(iter(expected)) if item.is_file() else f"{stem}/{path.relative_to(item)}"
                self.assertEqual(expected.get(name), path.read_bytes(), f"{when}: {path.name} has other content")

    def options(self, accept):
        place = ("--inbox", self.anna.inbox, "--port", self.port, "--adapter", "none")
        return ("receive", "--name", "anna", "--accept", accept, *place)

    def receiver(self):
        return self.anna.start(*self.options("all"), "--json")

    def sender(self, source):
        limit = self.random.choice([None, "1M", "3M"])
        rate = ["--limit", limit] if limit else []
        return self.ben.start(
            "send", "--json", "--retry", "0", *rate, source / "trip", source / "large.bin", "--to", f"127.0.0.1:{self.port}"
        )

    def forget(self, running, peer):
        """Frees the pipes of a process that has ended."""
        running.end()
        for stream in (running.process.stdout, running.process.stderr):
            stream.close()
        peer.started.remove(running)

    def count(self, phase):
        self.phases[phase] = self.phases.get(phase, 0) + 1
        if sum(self.phases.values()) % 100 == 0:
            print(self.phases, file=sys.stderr, flush=True)

    def kill_during_question(self, source, files):
        """Kills a receiver whose user is asked and has not answered."""
        # What had arrived before the last kill is named at the start.
        isExpectingNames = self.staged("finished")
        named = sorted(self.named())
        receiver = Terminal(self.anna, *self.anna.command(*self.options("ask")))
        try:
            receiver.wait_for(r"on port \d+")
            sender = self.sender(source)
            receiver.wait_for(r"\[y\]es")
            time.sleep(self.random.choice([0, self.random.uniform(0, 0.02)]))
        finally:
            receiver.close()
        self.count("asked")
        self.assertNotEqual(0, sender.end(90), f"seed {self.seed}: stored without an answer")
        self.forget(sender, self.ben)
        if not isExpectingNames:
            self.assertEqual(named, sorted(self.named()), f"seed {self.seed}: named without an answer")
        self.check_inbox(files, f"seed {self.seed}, after {sum(self.phases.values())} kills")
        return False

    def attempt(self, source, files, isKilled):
        """Returns whether the sender has reported success."""
        if isKilled and self.random.random() < 0.1:
            return self.kill_during_question(source, files)
        receiver = self.receiver()
        receiver.wait_for("ready")
        sender = self.sender(source)
        if isKilled:
            self.moment(receiver, sender)
            phase = self.phase()
            receiver.process.kill()
            self.count(phase)
        code = sender.end(90)
        if not isKilled:
            receiver.signal(15)
        self.resumed += any(event["event"] == "resumed" for event in sender.events)
        self.forget(receiver, self.anna)
        self.forget(sender, self.ben)
        self.check_inbox(files, f"seed {self.seed}, after {sum(self.phases.values())} kills")
        return code == 0

    def test_P13_a_receiver_killed_at_any_moment_never_names_wrong_bytes_and_always_resumes(self):
        begun = time.monotonic()
        while sum(self.phases.values()) < KILLS:
            source, files = self.offer(self.transfers)
            kills = self.random.randint(1, 8)
            isDone = False
            for _ in range(kills):
                if isDone or sum(self.phases.values()) >= KILLS:
                    break
                isDone = self.attempt(source, files, isKilled=True)
            # Named before the kill, but the sender was not told: it is sent again, under another name.
            self.repeated += not isDone and bool(self.named())
            for _ in range(3):
                isDone = isDone or self.attempt(source, files, isKilled=False)
            self.assertTrue(isDone, f"seed {self.seed}: the transfer does not end\n{self.anna.started}")
            found = {item.name.split(" (")[0].split(".")[0] for item in self.named()}
            self.assertEqual({"trip", "large"}, found, f"seed {self.seed}")
            shutil.rmtree(self.anna.inbox)
            shutil.rmtree(source)
            self.transfers += 1
        # Nothing is left behind in the spool.
        left = list((self.anna.home / "state" / "nearshare" / "spool").glob("t-*"))
        self.assertEqual([], left, f"seed {self.seed}")
        if KILLS >= 100:
            # A few kills may all have missed the content.
            self.assertGreater(self.resumed, 0, f"seed {self.seed}: nothing was resumed")
        summary = {
            "kills": sum(self.phases.values()),
            "phases": dict(sorted(self.phases.items())),
            "transfers": self.transfers,
            "resumed": self.resumed,
            "sent again": self.repeated,
            "seconds": round(time.monotonic() - begun),
            "seed": self.seed,
        }
        print(json.dumps(summary), file=sys.stderr)


if __name__ == "__main__":
    unittest.main()
