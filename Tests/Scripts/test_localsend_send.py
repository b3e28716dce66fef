"""The real executable sends to LocalSend devices: doubles of 1.18 with a client's certificate, and of 1.17 without."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
import wave

from harness import MachinesInARow, Peer, Story, has_namespaces, ip, wait_until
from localsend_peer import GROUP, GROUP_6, PORT, Certificate, LocalSendPeer, Receiver, group, group_6, in_namespace
from test_questions import Terminal


class SendStory(Story):
    def setUp(self):
        super().setUp()
        self.certificate = Certificate(self.place)
        # Unique: the tests of other processes announce devices in the same group.
        self.alias = f"Nice Orange {self.random.getrandbits(40):010x}"

    def own_certificate(self):
        """Makes anna's certificate, and returns it as PEM."""
        path = self.anna.home / "state/nearshare/localsend.pem"
        if not path.exists():
            self.anna.run("browse", "--timeout", "0.1", "--via", "lan")
        pem = path.read_text()
        return pem[pem.index("-----BEGIN CERTIFICATE") :]

    def device(self, modern=True, announces=True, claim=None, **options):
        client = self.own_certificate() if modern else None
        device = Receiver(self.certificate, client, alias=self.alias, **options)
        self.addCleanup(device.close)
        if announces:
            device.announce(**(claim or {}))
        return device

    def send(self, *arguments, **options):
        result = self.anna.run("send", "--json", "--via", "lan", "--to", self.alias, *arguments, **options)
        self.events = [json.loads(line) for line in result.stdout.splitlines()]
        return result

    def event(self, name):
        return next(event for event in self.events if event["event"] == name)

    # Finding

    def test_a_device_is_listed(self):
        self.device()
        found = None

        def is_listed():
            nonlocal found
            lines = self.anna.run("browse", "--json", "--via", "lan", "--timeout", "1").stdout.splitlines()
            found = [event for event in map(json.loads, lines) if event["name"] == self.alias]
            return found

        wait_until(is_listed, "the device")
        self.assertEqual(
            ("new", "localsend", self.certificate.fingerprint),
            tuple(found[0][key] for key in ("trust", "protocol", "certificate")),
        )
        text = self.anna.run("browse", "--via", "lan", "--timeout", "1").stdout.decode()
        self.assertRegex(text, rf'"?{self.alias}"? \(LocalSend\)')

    # Transfers

    def test_files_reach_1_18_and_1_17_and_old_http(self):
        path, other = self.file("photo.jpg", 3_000_017), self.file("empty.txt", 0)
        for options in ({}, {"modern": False}, {"protocol": "HTTP/1.0"}):
            device = self.device(**options)
            self.assertCode(0, self.send(path, other))
            self.assertEqual({"photo.jpg": path.read_bytes(), "empty.txt": b""}, device.files)
            self.assertEqual("completed", self.event("finished")["outcome"])
            inviting = self.event("inviting")
            self.assertEqual(("localsend", "lan"), (inviting["protocol"], inviting["via"]))
            self.assertEqual(self.certificate.fingerprint, inviting["certificate"])
            offer = device.offers[0]
            self.assertEqual([3_000_017, 0], [file["size"] for file in offer["files"].values()])
            self.assertRegex(offer["files"]["0"]["metadata"]["modified"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            self.assertEqual(("https", "nearshare"), (offer["info"]["protocol"], offer["info"]["deviceModel"]))
            device.close()
        history = [json.loads(line) for line in self.anna.run("history", "--json").stdout.splitlines()]
        self.assertEqual([self.alias] * 3, [entry["peer_name"] for entry in history])

    def test_a_folder_keeps_its_structure_over_a_few_connections(self):
        contents = {f"trip/day {i % 3}/{i}.txt": self.random.randbytes(i * 100) for i in range(40)}
        for name, content in contents.items():
            path = self.place / "source" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        (self.place / "source/trip/nothing").mkdir()
        device = self.device()
        result = self.send(self.place / "source/trip")
        self.assertCode(0, result)
        self.assertEqual(contents, device.files)
        # info, prepare-upload, and at most three for the files.
        self.assertLessEqual(device.links, 5)
        self.assertIn(b"empty folder is left out", result.stderr)

    def test_a_text_is_shown(self):
        device = self.device()
        self.assertCode(0, self.send("--text", 'hello \u2713 "quoted"\n'))
        file = device.offers[0]["files"]["0"]
        self.assertEqual(('hello \u2713 "quoted"\n', "text/plain"), (file["preview"], file["fileType"]))
        self.assertEqual("completed", self.event("finished")["outcome"])
        self.assertNotIn("v2/upload", device.paths())

    def test_a_part_is_accepted(self):
        device = self.device(answer={"v2/prepare-upload": lambda _, body: (200, self.part(device, body))})
        self.assertCode(0, self.send(self.file("a", 10), self.file("b", 20), self.file("c", 30)))
        self.assertEqual(["b"], list(device.files))
        self.assertEqual({"count": 1, "offered": 3, "size": 20}, self.event("part")["files"])

    @staticmethod
    def part(device, body):
        offer = json.loads(body)
        device.pending = offer["files"]
        return device.accept(offer, ["b"])

    def test_a_device_knows_the_text_of_the_path_only(self):
        device = self.device()
        self.assertCode(0, self.send(self.file("gr\u00fc\u00dfe & 50%.txt", 10)))
        self.assertEqual(["gr\u00fc\u00dfe & 50%.txt"], list(device.files))

    def test_standard_input_is_read_to_its_end_first(self):
        device = self.device()
        content = self.random.randbytes(1_000_003)
        result = self.send("-", "--as", "backup.tar", input=content)
        self.assertCode(0, result)
        self.assertEqual({"backup.tar": content}, device.files)
        file = device.offers[0]["files"]["0"]
        # It has passed through here, so that its checksum costs nothing.
        self.assertEqual((len(content), hashlib.sha256(content).hexdigest()), (file["size"], file["sha256"]))
        self.assertIn(b"reading standard input to its end first", result.stderr)
        left = [path for path in (self.anna.home / "state").rglob("*") if path.name.startswith(".stdin")]
        self.assertEqual([], left)

    def test_standard_input_that_never_ends_is_cancelled_and_offered_to_nobody(self):
        device = self.device()
        pipe, feed = os.pipe()
        self.addCleanup(os.close, feed)
        sending = self.anna.start("send", "--json", "--via", "lan", "--to", self.alias, "-", stdin=pipe)
        os.close(pipe)
        os.write(feed, b"x")
        wait_until(lambda: any("reading standard input" in line for line in list(sending.errors)), "the reading")
        sending.signal(signal.SIGINT)
        self.assertEqual(130, sending.process.wait(30))
        self.assertEqual([], device.offers)

    def test_several_receivers_of_both_kinds(self):
        device = self.device()
        ben = self.ben.receive(name="ben")
        result = self.anna.run("send", "--json", "--to", self.alias, "--to", ben.address, self.file("a", 1000))
        self.assertCode(0, result)
        self.assertEqual(["a"], list(device.files))
        self.assertEqual(["a"], list(self.ben.received()))

    # Answers

    def test_outcomes_are_those_of_other_sends(self):
        path = self.file("a", 10)
        message = {"message": "no \x1b[2J"}
        for status, code, outcome in [
            (403, 4, "declined"),
            (409, 4, "declined"),
            (429, 4, "declined"),
            (413, 7, "declined"),
            (204, 4, "declined"),
            (400, 1, "failed"),
            (500, 1, "failed"),
            (302, 1, "failed"),
        ]:
            answer = (status, message if status != 204 else None)
            device = self.device(answer={"v2/prepare-upload": lambda *_, answer=answer: answer})
            result = self.send(path)
            self.assertCode(code, result)
            self.assertEqual(outcome, self.event("finished")["outcome"], status)
            self.assertNotIn(b"\x1b", result.stderr)
            self.assertNotIn("v2/upload", device.paths())
            device.close()

    def test_a_pin_comes_from_a_file(self):
        def check(query, body):
            return None if query.get("pin") == "12 &4" else (401, {"message": "PIN required"})

        pin = self.place / "pin"
        device = self.device(answer={"v2/prepare-upload": check})
        path = self.file("a", 10)
        result = self.send(path)
        self.assertCode(4, result)
        self.assertIn("requires its PIN; nothing was sent. Give it with --pin-file", " ".join(result.stderr.decode().split()))
        pin.write_text("wrong\n")
        result = self.send("--pin-file", pin, path)
        self.assertCode(4, result)
        expected = f"does not accept the PIN; nothing was sent. The PIN in {pin} is wrong"
        self.assertIn(expected, " ".join(result.stderr.decode().split()))
        text = self.anna.run("history").stdout.decode()
        self.assertEqual(2, text.count("  declined (it requires its PIN)  a"), text)
        pins = [query.get("pin") for _, name, query in device.requests if name == "v2/prepare-upload"]
        self.assertEqual([None, None, "wrong"], pins)
        self.assertEqual({}, device.files)

    def test_no_answer_in_time(self):
        waiting = threading.Event()
        self.addCleanup(waiting.set)
        self.device(answer={"v2/prepare-upload": lambda *_: waiting.wait(30) and None})
        self.assertCode(9, self.send("--timeout", "0.5", self.file("a", 10)))
        self.assertEqual("expired", self.event("finished")["outcome"])

    # Cancelling

    def test_the_user_cancels_while_the_device_asks(self):
        waiting = threading.Event()
        self.addCleanup(waiting.set)
        device = self.device(answer={"v2/prepare-upload": lambda *_: waiting.wait(30) and None})
        sending = self.anna.start("send", "--json", "--via", "lan", "--to", self.alias, str(self.file("a", 10)))
        sending.wait_for("waiting")
        device.wait_for("v2/prepare-upload")
        sending.process.send_signal(signal.SIGINT)
        self.assertEqual("cancelled", sending.wait_for("finished")["outcome"])
        self.assertEqual(130, sending.process.wait(30))

    def test_the_user_cancels_between_files(self):
        waiting = threading.Event()
        self.addCleanup(waiting.set)
        device = self.device(answer={"v2/upload": lambda *_: waiting.wait(30) and None})
        sending = self.anna.start("send", "--json", "--via", "lan", "--to", self.alias, str(self.file("a", 10)))
        device.wait_for("v2/upload")
        sending.process.send_signal(signal.SIGINT)
        self.assertEqual("cancelled", sending.wait_for("finished")["outcome"])
        self.assertEqual(130, sending.process.wait(30))
        cancel = [query for _, name, query in device.requests if name == "v2/cancel"]
        self.assertEqual([{"sessionId": "the session"}], cancel)

    def test_F19_the_receiver_alone_cancels(self):
        path = self.file("a", 10)
        results = []

        def cancel(*_):
            port = device.offers[-1]["info"]["port"]
            for certificate, session in (
                (Certificate(self.place), "the session"),
                (self.certificate, "another"),
                (self.certificate, "the session"),
            ):
                results.append(sending.process.poll())
                peer = LocalSendPeer(("127.0.0.1", port), certificate)
                results.append(peer.request("v2/cancel", sessionId=session)[0])
                peer.close()

        device = self.device(answer={"v2/upload": cancel})
        sending = self.anna.start("send", "--json", "--via", "lan", "--to", self.alias, str(path))
        finished = sending.wait_for("finished")
        self.assertEqual("cancelled", finished["outcome"])
        self.assertEqual(4, sending.process.wait(30))
        self.assertEqual([None, 200] * 3, results)

    # Attacks

    def test_T9_a_name_that_mixes_alphabets_is_annotated(self):
        self.alias = f"\u0430nna {self.random.getrandbits(40):010x}"
        self.device()
        found = []

        def is_listed():
            lines = self.anna.run("browse", "--json", "--via", "lan", "--timeout", "1").stdout.splitlines()
            found[:] = [event for event in map(json.loads, lines) if event["name"] == self.alias]
            return found

        wait_until(is_listed, "the device")
        self.assertIs(True, found[0]["mixed_alphabets"])
        text = self.anna.run("browse", "--via", "lan", "--timeout", "1").stdout.decode()
        self.assertRegex(text, "  new, name mixes alphabets")
        terminal = self.terminal("send", "--via", "lan", self.file("a", 10))
        terminal.wait_for("new, name mixes alphabets")
        terminal.press("\x1b")
        terminal.end()
        # One that was met is known by its certificate.
        self.assertCode(0, self.send(self.file("a", 10)))
        text = self.anna.run("browse", "--via", "lan", "--timeout", "1").stdout.decode()
        self.assertRegex(text, r"  seen *\n")

    def test_F17_a_flood_of_devices_displaces_none(self):
        running = self.anna.start("browse", "--json", "--via", "lan", "--watch")
        with group() as link:
            while json.loads(link.recvfrom(4096)[0]).get("deviceModel") != "nearshare":
                pass
            device = Receiver(self.certificate, alias=self.alias)
            self.addCleanup(device.close)
            link.sendto(json.dumps(device.device(announce=False)).encode(), (GROUP, PORT))
            running.wait_for("found", lambda event: event["name"] == self.alias)
            for number in range(1000):
                claim = {"alias": f"{self.alias} {number}", "fingerprint": f"{number:064x}", "announce": False}
                link.sendto(json.dumps(device.device(**claim)).encode(), (GROUP, PORT))
            again = json.dumps(device.device(announce=False, alias=f"{self.alias} again")).encode()

            def is_updated():
                # The kernel drops what the flood leaves no room for.
                link.sendto(again, (GROUP, PORT))
                return any(event["event"] == "updated" for event in list(running.events))

            wait_until(is_updated, "the device that was known before")
        found = [event for event in running.events if event["event"] == "found" and event["name"].startswith(self.alias)]
        self.assertLessEqual(len(found), 8)

    def test_F16_another_certificate_than_the_announced_one_gets_nothing(self):
        device = self.device(modern=False, claim={"fingerprint": "AB" * 32})
        result = self.send(self.file("a", 10))
        self.assertCode(5, result)
        self.assertIn(b"nothing was sent", result.stderr)
        self.assertEqual([], device.requests)

    def test_F15_answers_without_end_or_sense(self):
        head = b"HTTP/1.1 200 OK\r\n"
        path = self.file("a", 10)
        for answer in (
            head + b"Content-Length: 100000000\r\n\r\n",
            head + b"\r\n" + b"x" * 20_000,
            head + b"Transfer-Encoding: chunked\r\n\r\nFFFFFFF\r\n" + b"x" * 20_000,
            head + b"X: " + b"x" * 20_000,
            b"HTTP/1.1 100 Continue\r\n\r\n" * 1000,
            b"garbage\r\n\r\n",
            head + b"Content-Length: 2\r\n\r\n{}",
            head + b"Content-Length: 1\r\n\r\n{",
        ):
            device = self.device(answer={"v2/prepare-upload": lambda *_, answer=answer: answer})
            self.assertCode(1, self.send(path))
            self.assertEqual("failed", self.event("finished")["outcome"])
            device.close()
        device = self.device(answer={"v2/prepare-upload": lambda *_: b""})
        self.assertCode(10, self.send(path))

    def test_F18_files_that_were_not_offered_are_not_sent(self):
        path = self.file("a", 10)
        for files in ({"1": "x"}, {"/etc/passwd": "x"}, {"0": "x", "00": "y"}, {"0": 5}, {"0": ""}, ["0"], {"-1": "x"}):
            answer = (200, {"sessionId": "s", "files": files})
            device = self.device(answer={"v2/prepare-upload": lambda *_, answer=answer: answer})
            self.assertCode(1, self.send(path))
            self.assertNotIn("v2/upload", device.paths())
            device.close()
        answer = (200, {"sessionId": "a b&token=x\r\nX: y", "files": {"0": "&\r\n"}})
        device = self.device(answer={"v2/prepare-upload": lambda *_: answer})
        self.assertCode(4, self.send(path))
        upload = next(query for _, name, query in device.requests if name == "v2/upload")
        self.assertEqual({"sessionId": "a b&token=x\r\nX: y", "fileId": "0", "token": "&\r\n"}, upload)

    def test_a_redirect_of_an_upload_is_not_followed(self):
        answer = b"HTTP/1.1 307 X\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n"
        device = self.device(answer={"v2/upload": lambda *_: answer})
        self.assertCode(1, self.send(self.file("a", 10)))
        self.assertEqual(1, device.paths().count("v2/upload"))

    def test_one_file_fails_and_the_others_arrive(self):
        device = self.device(
            answer={"v2/upload": lambda query, _: (500, {"message": "disk"}) if query["fileId"] == "1" else None}
        )
        result = self.send(*[self.file(name, 1000) for name in "abcd"])
        self.assertCode(6, result)
        self.assertEqual(["a", "c", "d"], sorted(device.files))
        finished = self.event("finished")
        self.assertIn("1 of 4 files was not stored: b", finished["detail"])
        self.assertEqual("partial", finished["outcome"])
        self.assertEqual({"count": 1, "offered": 4, "listed": ["b"]}, finished["missing"])
        history = [json.loads(line) for line in self.anna.run("history", "--json").stdout.splitlines()]
        self.assertEqual(["partial"], [entry["outcome"] for entry in history])
        # Where none is stored, it has failed.
        device.answer["v2/upload"] = lambda *_: (500, {"message": "disk"})
        self.assertCode(1, self.send(self.file("e", 10), self.file("f", 10)))
        self.assertEqual("failed", self.event("finished")["outcome"])

    def test_a_wrong_checksum_is_sent_again(self):
        count = 0

        def mismatch(*_):
            nonlocal count
            count += 1
            return (422, {"message": "Checksum mismatch"}) if count < 3 else None

        device = self.device(answer={"v2/upload": mismatch})
        self.assertCode(0, self.send(self.file("a", 100_000)))
        self.assertEqual((["a"], 3), (list(device.files), count))

    def test_F16_a_known_name_with_another_certificate_stops_the_send(self):
        device = self.device()
        path = self.file("a", 10)
        self.assertCode(0, self.send(path))
        device.close()
        peers = [json.loads(line) for line in self.anna.run("peers", "--json").stdout.splitlines()]
        self.assertEqual([(self.alias, "seen")], [(peer["name"], peer["trust"]) for peer in peers])
        self.certificate = Certificate(self.place)
        device = self.device()
        result = self.send(path)
        self.assertCode(5, result)
        self.assertEqual({}, device.files)
        # One that announces the name, and says another when it is asked.
        device.answer["v2/info"] = lambda *_: (200, device.device(alias="Somebody else"))
        self.assertCode(5, self.send(path))
        self.assertEqual({}, device.files)
        del device.answer["v2/info"]
        self.assertCode(0, self.anna.run("peers", "forget", peers[0]["id"]))
        self.assertCode(0, self.send(path))

    # Trust

    def terminal(self, *arguments):
        terminal = Terminal(self.anna, *self.anna.command(*arguments), columns=100, rows=24, variables={"LC_ALL": "C.UTF-8"})
        self.addCleanup(terminal.close)
        return terminal

    def test_the_user_compares_the_certificate(self):
        self.device()
        path = self.file("a", 10)
        self.assertCode(0, self.send(path))
        digits = self.certificate.fingerprint.upper()
        for answer, trust, code in (("y", "verified", 0), ("n", "seen", 5)):
            terminal = self.terminal("peers", "verify", self.alias)
            shown = terminal.wait_for(r"[\s\S]*are they the same\?")[0]
            self.assertIn(digits, "".join(line.replace(" ", "").strip() for line in shown.splitlines()))
            terminal.press(f"{answer}\r")
            self.assertEqual(code, terminal.end())
            peer = json.loads(self.anna.run("peers", "--json").stdout)
            self.assertEqual((trust, self.certificate.fingerprint), (peer["trust"], peer["certificate"]))

    def test_F16_verification_says_that_the_certificate_has_changed(self):
        device = self.device()
        self.anna.run("browse", "--json", "--via", "lan", "--timeout", "1")
        terminal = self.terminal("peers", "verify", self.alias)
        terminal.wait_for(r"remembered at the\s+first\s+transfer")
        self.assertEqual(2, terminal.end())
        self.assertCode(0, self.send(self.file("a", 10)))
        device.close()
        self.certificate = Certificate(self.place)
        self.device()
        terminal = self.terminal("peers", "verify", self.alias)
        terminal.wait_for(rf"looking for \S*{self.alias.split()[0]}[\s\S]*another\s+certificate\s+since\s+you\s+met")
        self.assertEqual(5, terminal.end())

    def test_F16_verification_looks_for_the_whole_name_that_the_device_claims(self):
        device, known = self.device(), self.alias
        self.assertCode(0, self.send(self.file("a", 10)))
        device.close()
        local = f"mum {self.random.getrandbits(40):010x}"
        # The device is away. Another one has a name that begins with its name, or the name that the user has given it.
        for text, alias in ((known, f"{known} 12"), (local, local)):
            if text == local:
                self.assertCode(0, self.anna.run("peers", "rename", known, local))
            self.certificate, self.alias = Certificate(self.place), alias
            other = self.device()
            terminal = self.terminal("peers", "verify", text)
            terminal.wait_for(r"are they the same\?")
            terminal.close()
            other.close()
        # The device itself, which the user has renamed, has another certificate.
        self.certificate, self.alias = Certificate(self.place), known
        self.device()
        terminal = self.terminal("peers", "verify", local)
        terminal.wait_for(r"another\s+certificate\s+since\s+you\s+met")
        self.assertEqual(5, terminal.end())

    # Messages and voice notes

    def test_messages_are_refused_with_what_can_be_sent(self):
        self.device()
        self.anna.run("browse", "--json", "--via", "lan", "--timeout", "1")
        for arguments, text in ((["message", "hi", "--to", self.alias], b""), (["chat", self.alias], b"hi\n")):
            result = self.anna.run(*arguments, input=text)
            self.assertCode(2, result)
            self.assertIn(b"has LocalSend, which takes files and texts", result.stderr)
            self.assertIn(b"nearshare send --text", result.stderr)
            self.assertEqual(b"", result.stdout)
        # One that is a friend is refused as well, and files still reach it while a node runs.
        self.assertCode(0, self.anna.run("send", "--text", "hello", "--via", "lan", "--to", self.alias))
        self.assertCode(0, self.anna.run("friends", "add", self.alias, "--unverified"))
        self.assertCode(2, self.anna.run("message", "hi", "--to", self.alias))
        node = self.anna.start("mesh", "run", "--json")
        node.wait_for("ready")
        self.assertCode(0, self.anna.run("send", "--text", "hello", "--to", self.alias))

    def test_a_voice_note_arrives_as_a_file(self):
        device = self.device()
        path = self.place / "memo.wav"
        with wave.open(str(path), "wb") as sound:
            sound.setparams((1, 2, 16_000, 0, "NONE", ""))
            sound.writeframes(self.random.randbytes(32_000))
        self.assertCode(0, self.anna.run("voice", "--input", path, "--to", self.alias, "--via", "lan"))
        ((name, content),) = device.files.items()
        self.assertRegex(name, r"\.(opus|ogg)$")
        self.assertEqual(b"OggS", content[:4])

    def test_a_pin_is_asked_for_on_the_terminal(self):
        device = self.device(
            answer={"v2/prepare-upload": lambda query, _: None if query.get("pin") == "123" else (401, {"message": "PIN"})}
        )
        terminal = self.terminal("send", "--via", "lan", "--to", self.alias, self.file("a", 10))
        terminal.wait_for(rf"PIN of \S*{self.alias.split()[0]}")
        terminal.press("9\r")
        terminal.wait_for("that PIN is wrong")
        terminal.press("123\r")
        self.assertEqual(0, terminal.end())
        self.assertEqual(["a"], list(device.files))

    def test_the_configuration_turns_it_off(self):
        device = self.device()
        folder = self.anna.home / "config/nearshare"
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text('protocols = ["nearshare"]\n')
        self.assertCode(3, self.send(self.file("a", 10)))
        self.assertEqual([], device.requests)
        for text in ('"localsend"', '["localsend"]', '["nearshare", "x"]', "[1]", "[]"):
            (folder / "config.toml").write_text(f"protocols = {text}\n")
            result = self.anna.run("browse", "--timeout", "0.1")
            self.assertCode(1, result)
            self.assertIn(b"protocols: expected", result.stderr)


class SendByAddressStory(Story):
    """Machines of their own: the port is that of LocalSend."""

    def setUp(self):
        if not has_namespaces():
            self.skipTest("needs root")
        self.machines = self.enterContext(MachinesInARow(2))
        super().setUp()

    def people(self):
        self.anna = Peer(self.place / "anna", self.machines.names[0])
        self.ben = Peer(self.place / "ben", self.machines.names[1])

    def test_a_nearshare_node_receives_with_localsend(self):
        self.ben.receive("--localsend", name="ben").wait_for("localsend")
        path = self.file("x.bin", 2_000_000)
        result = self.anna.run("send", "--json", "--to", "10.77.0.2:53317", path)
        self.assertCode(0, result)
        self.assertEqual({"x.bin": path.read_bytes()}, self.ben.received())

    def test_the_doctor_recognizes_the_own_node_on_the_port(self):
        node = self.ben.receive("--localsend", name="ben")
        node.wait_for("localsend")
        result = self.ben.run("doctor", "--json", "--adapter", "none", timeout=120)
        found = [event for event in map(json.loads, result.stdout.splitlines()) if event["subject"] == "localsend"]
        words = f"this machine's own node (process {node.process.pid}) serves LocalSend on port 53317, certificate "
        self.assertEqual([("ok", words)], [(event["severity"], event["text"][: len(words)]) for event in found])

    def test_another_program_receives(self):
        place = self.place / "there"
        place.mkdir()
        variables = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        program = "from localsend_cli.main import main; main()"
        words = [sys.executable, "-c", program, "receive", "--json", "--output", "."]
        command = ["ip", "netns", "exec", self.machines.names[1], *words]
        environment = {**variables, "HOME": str(self.place), "PYTHONUNBUFFERED": "1"}
        log = self.enterContext((self.place / "log").open("w+"))
        process = subprocess.Popen(
            command, env=environment, cwd=place, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        path = self.file("x.bin", 2_000_000)

        def is_sent():
            self.assertIsNone(process.poll(), (self.place / "log").read_text())
            self.result = self.anna.run("send", "--json", "--to", "10.77.0.2:53317", path)
            return self.result.returncode != 3

        wait_until(is_sent, "the program to listen", timeout=90)
        self.assertCode(0, self.result)
        self.assertEqual(path.read_bytes(), (place / "x.bin").read_bytes())

    # Without announcements

    def silent_device(self):
        certificate = Certificate(self.place)
        device = in_namespace(
            self.machines.names[1], lambda: Receiver(certificate, alias="Quiet Pear", host="0.0.0.0", port=PORT)
        )
        self.addCleanup(device.close)
        return device

    def found(self, *arguments):
        lines = self.anna.run("browse", "--json", "--via", "lan", *arguments).stdout.splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == "found"]

    def test_a_scan_finds_a_device_that_hears_no_announcements(self):
        device = self.silent_device()
        self.assertEqual([], self.found("--timeout", "1"))
        # Nobody has asked for it.
        self.assertEqual(0, device.links)
        begun = time.monotonic()
        found = self.found("--scan")
        self.assertEqual(["Quiet Pear"], [event["name"] for event in found])
        self.assertEqual(device.certificate.fingerprint, found[0]["certificate"])
        self.assertEqual(["10.77.0.2:53317"], found[0]["addresses"])
        self.assertEqual([("POST", "v2/register", {})], device.requests)
        self.assertLess(time.monotonic() - begun, 45)
        result = self.anna.run("doctor", "--scan", "--json", "--adapter", "none", timeout=120)
        texts = [event["text"] for event in map(json.loads, result.stdout.splitlines()) if event["subject"] == "localsend"]
        self.assertIn("1 of 253 addresses of these networks has LocalSend", texts)

    def test_F21_a_scan_asks_a_bounded_part_of_a_large_network(self):
        for machine, address in enumerate(("10.77.3.1/16", "10.77.3.2/16")):
            self.machines.renumber(machine, address)
        device = self.silent_device()
        # Another host of the network, but not of the part around this machine.
        ip("-n", self.machines.names[1], "addr", "add", "10.77.9.9/16", "dev", self.machines.cables[0][1])
        begun = time.monotonic()
        self.assertEqual([["10.77.3.2:53317"]], [event["addresses"] for event in self.found("--scan")])
        self.assertLess(time.monotonic() - begun, 45)
        self.assertEqual(1, device.links)

    def test_F21_a_device_that_claims_another_certificate_is_not_found_by_a_scan(self):
        device = self.silent_device()
        device.answer["v2/register"] = lambda *_: (200, device.device(fingerprint="AB" * 32))
        self.assertEqual([], self.found("--scan"))


class IPv6Story(Story):
    """Two machines on a cable with link-local addresses of IPv6 alone."""

    def setUp(self):
        if not has_namespaces():
            self.skipTest("needs root")
        self.machines = self.enterContext(MachinesInARow(2))
        for name, end in zip(self.machines.names, self.machines.cables[0], strict=True):
            ip("-n", name, "addr", "flush", "dev", end, "scope", "global")
        super().setUp()
        self.certificate = Certificate(self.place)
        wait_until(lambda: not any(map(self.is_tentative, self.machines.names)), "the addresses")

    def people(self):
        self.anna = Peer(self.place / "anna", self.machines.names[0])
        self.ben = Peer(self.place / "ben", self.machines.names[1])

    @staticmethod
    def is_tentative(name):
        command = ["ip", "-n", name, "-6", "addr", "show", "scope", "link"]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return "tentative" in shown or "fe80" not in shown

    def there(self, function):
        return in_namespace(self.machines.names[1], function)

    def test_a_receiver_is_in_the_group_of_ipv6_and_answers(self):
        device = self.there(lambda: Receiver(self.certificate, host="::"))
        self.addCleanup(device.close)
        link = self.there(lambda: group_6(self.machines.cables[0][1]))
        self.addCleanup(link.close)
        anna = self.anna.start(
            "receive", "--json", "--localsend", "--name", "anna", "--accept", "all", "--inbox", self.anna.inbox
        )
        ready = anna.wait_for("localsend")
        datagram, source = link.recvfrom(4096)
        announced = json.loads(datagram)
        self.assertEqual(
            ("anna", True, ready["port"], ready["certificate"]),
            (announced["alias"], announced["announce"], announced["port"], announced["fingerprint"].lower()),
        )
        self.assertTrue(source[0].startswith("fe80::"), source)
        link.sendto(json.dumps(device.device(announce=True)).encode(), (GROUP_6, PORT))
        device.wait_for("v2/register")
        # The sender's connection is of IPv6 as well.
        address = source[0].split("%")[0] + "%" + self.machines.cables[0][1]

        def send():
            peer = LocalSendPeer((address, ready["port"]), self.certificate, ready["certificate"])
            try:
                return peer.send({"a.txt": b"over IPv6"})
            finally:
                peer.close()

        self.assertEqual([200, 200], self.there(send))
        self.assertEqual({"a.txt": b"over IPv6"}, self.anna.received())

    def test_a_device_in_the_group_of_ipv6_is_found_and_sent_to(self):
        device = self.there(lambda: Receiver(self.certificate, host="::", alias="Six Plums"))
        self.addCleanup(device.close)
        link = self.there(lambda: group_6(self.machines.cables[0][1]))
        stopping = threading.Event()

        def answer():
            link.settimeout(0.2)
            while not stopping.is_set():
                try:
                    datagram, _ = link.recvfrom(4096)
                except TimeoutError:
                    continue
                if json.loads(datagram).get("deviceModel") == "nearshare":
                    link.sendto(json.dumps(device.device(announce=False)).encode(), (GROUP_6, PORT))
            link.close()

        thread = threading.Thread(target=answer)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(stopping.set)
        path = self.file("x.bin", 300_000)
        result = self.anna.run("send", "--json", "--via", "lan", "--to", "Six Plums", path)
        self.assertCode(0, result)
        self.assertEqual({"x.bin": path.read_bytes()}, device.files)
        inviting = next(event for event in map(json.loads, result.stdout.splitlines()) if event["event"] == "inviting")
        self.assertTrue(inviting["address"].startswith("[fe80::"), inviting)


PROGRAM = os.environ.get("NEARSHARE_LOCALSEND_PROGRAM")


@unittest.skipUnless(PROGRAM, "needs Python 3.12")
class AnotherProgramStory(Story):
    """The package `localsend` of PyPI, version 0.1.2, on a machine of its own."""

    people = SendByAddressStory.people

    def setUp(self):
        if not has_namespaces():
            self.skipTest("needs root")
        self.machines = self.enterContext(MachinesInARow(2))
        # It hears no announcements without one.
        ip("-n", self.machines.names[1], "route", "add", "default", "via", "10.77.0.1", "dev", self.machines.cables[0][1])
        super().setUp()
        self.there = self.place / "there"
        for name in ("run", "Downloads", "config", "state"):
            (self.there / name).mkdir(parents=True)

    def program(self, *arguments):
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.there),
            "XDG_RUNTIME_DIR": str(self.there / "run"),
            "XDG_CONFIG_HOME": str(self.there / "config"),
            "XDG_STATE_HOME": str(self.there / "state"),
            "XDG_DOWNLOAD_DIR": str(self.there / "Downloads"),
            "PYTHONUNBUFFERED": "1",
        }
        log = self.enterContext((self.place / "log").open("w+"))
        command = ["ip", "netns", "exec", self.machines.names[1], PROGRAM, *arguments]
        process = subprocess.Popen(
            command, env=environment, cwd=self.there, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_it_is_found_and_receives(self):
        process = self.program("receive")
        path = self.file("x.bin", 2_000_000)
        names = []

        def is_found():
            self.assertIsNone(process.poll(), (self.place / "log").read_text())
            lines = self.anna.run("browse", "--json", "--via", "lan", "--timeout", "2").stdout.splitlines()
            names[:] = [event["name"] for event in map(json.loads, lines) if event.get("protocol") == "localsend"]
            return names

        wait_until(is_found, "the program to be found", timeout=90)
        result = self.anna.run("send", "--json", "--via", "lan", "--to", names[0], path)
        self.assertCode(0, result)
        (received,) = [found for found in self.there.rglob("x.bin")]
        self.assertEqual(path.read_bytes(), received.read_bytes())

    def test_it_finds_this_machine_and_sends(self):
        anna = self.anna.start(
            "receive", "--json", "--localsend", "--name", "anna", "--accept", "all", "--inbox", self.anna.inbox
        )
        anna.wait_for("localsend")
        path = self.file("y.bin", 2_000_000)
        self.program("send", path)
        invitation = anna.wait_for("invitation", timeout=90)
        self.assertEqual("localsend", invitation["protocol"])
        self.assertEqual("completed", anna.wait_for("finished")["outcome"])
        self.assertEqual({"y.bin": path.read_bytes()}, self.anna.received())
