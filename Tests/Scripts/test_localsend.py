"""LocalSend devices send to the real executable: a double of 1.18 with a certificate, and one of 1.17 without."""

import contextlib
import hashlib
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import urllib.parse

from cryptography.hazmat.primitives.asymmetric import rsa

from harness import Story, wait_until
from localsend_peer import GROUP, PORT, YEAR, Certificate, Fingerprint, LocalSendPeer, Receiver, Registry, group
from test_questions import Terminal


class LocalSendStory(Story):
    def setUp(self):
        super().setUp()
        self.certificate = Certificate(self.place)

    def receiver(self, *arguments, accept="all"):
        running = self.anna.receive("--localsend", *arguments, accept=accept)
        self.ready = running.wait_for("localsend")
        self.address = ("127.0.0.1", self.ready["port"])
        return running

    def sender(self, certificate=None, **options):
        peer = LocalSendPeer(self.address, certificate, self.ready["certificate"], **options)
        self.addCleanup(peer.close)
        return peer

    def modern(self, **options):
        return self.sender(self.certificate, **options)

    # Transfers

    def test_files_of_1_18_arrive_like_those_of_nearshare(self):
        anna = self.receiver()
        photo = self.random.randbytes(3_000_017)
        contents = {"photo.jpg": photo, "empty.txt": b"", "grüße.txt": b"hello"}
        self.assertEqual([200] * 4, self.modern().send(contents))
        invitation = anna.wait_for("invitation")
        self.assertEqual(
            ("Nice Orange", "new", "localsend", self.certificate.fingerprint),
            tuple(invitation[key] for key in ("name", "trust", "protocol", "certificate")),
        )
        for _ in contents:
            self.assertEqual("file", anna.wait_for("delivered")["kind"])
        self.assertEqual("completed", anna.wait_for("finished")["outcome"])
        self.assertEqual(contents, self.anna.received())
        history = json.loads(self.anna.run("history", "--json").stdout.splitlines()[0])
        self.assertEqual("Nice Orange", history["peer_name"], history)

    def test_files_of_1_17_arrive_with_a_length_and_without_a_certificate(self):
        anna = self.receiver()
        content = self.random.randbytes(300_000)
        self.assertEqual([200, 200], self.sender().send({"a.bin": content}, chunked=False))
        self.assertNotIn("certificate", anna.wait_for("invitation"))
        self.assertEqual({"a.bin": content}, self.anna.received())

    def test_a_folder_keeps_its_structure_in_any_order(self):
        self.receiver()
        contents = {"trip/a.txt": b"a", "trip/day one/b.txt": b"b", "trip/c.txt": b"c", "trip/day one/d.txt": b"d", "x": b"x"}
        files = [LocalSendPeer.file(name, name, content) for name, content in contents.items()]
        sender = self.modern()
        _, answer = sender.offer(files)
        for name in self.random.sample(list(contents), len(contents)):
            self.assertEqual(200, sender.upload(answer, name, contents[name]))
        self.assertEqual(contents, self.anna.received())

    def test_files_arrive_in_parallel_and_over_one_connection(self):
        anna = self.receiver()
        contents = {f"{i}.bin": self.random.randbytes(200_000 + i) for i in range(6)}
        sender = self.modern()
        _, answer = sender.offer([LocalSendPeer.file(name, name, content) for name, content in contents.items()])
        results = []

        def upload(names):
            connection = sender.connect()
            for name in names:
                results.append(sender.upload(answer, name, contents[name], connection=connection))

        names = list(contents)
        threads = [threading.Thread(target=upload, args=(names[i::2],)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual([200] * 6, results)
        self.assertEqual("completed", anna.wait_for("finished")["outcome"])
        self.assertEqual(contents, self.anna.received())

    def test_a_text_is_shown(self):
        anna = self.receiver()
        file = LocalSendPeer.file("t", "x.txt", b"", fileType="text/plain", preview="hello ✓")
        self.assertEqual((204, None), self.modern().offer([file]))
        self.assertEqual("hello ✓", anna.wait_for("delivered")["text"])

    def test_times_are_kept_and_once_ends(self):
        anna = self.receiver("--once")
        file = LocalSendPeer.file("a", "a.txt", b"a", metadata={"modified": "2020-05-17T12:00:00.5+02:00"})
        sender = self.modern()
        _, answer = sender.offer([file])
        self.assertEqual(200, sender.upload(answer, "a", b"a"))
        self.assertEqual(0, anna.end())
        self.assertEqual(1_589_709_600, int((self.anna.inbox / "a.txt").stat().st_mtime))

    def test_the_user_is_asked_and_declines_and_accepts(self):
        inbox = self.anna.inbox
        command = self.anna.command("receive", "--localsend", "--name", "anna", "--inbox", inbox)
        terminal = Terminal(self.anna, *command, columns=100, rows=24, variables={"LC_ALL": "C.UTF-8"})
        self.addCleanup(terminal.close)
        shown = terminal.wait_for(r"LocalSend devices see it on port (\d+), certificate ([0-9A-F ]{19})")
        self.address, self.ready = ("127.0.0.1", int(shown[1])), {"certificate": None}
        sender = self.modern()
        answers = []
        offer = [LocalSendPeer.file("a", "a.txt", b"a")]
        waiting = threading.Thread(target=lambda: answers.append(sender.offer(offer)))
        waiting.start()
        question = terminal.wait_for(r"[\s\S]*accept\?")[0]
        digits = self.certificate.fingerprint[:16].upper()
        self.assertIn(" ".join(digits[i : i + 4] for i in range(0, 16, 4)), question)
        self.assertIn("Nice Orange", question)
        self.assertIn("with LocalSend", question)
        terminal.press("n\r")
        waiting.join(30)
        self.assertEqual(403, answers.pop()[0])
        self.assertTrue(sender.seen.upper().startswith(shown[2].replace(" ", "")))
        offer = [LocalSendPeer.file("a", "second.txt", b"a")]
        waiting = threading.Thread(target=lambda: answers.append(sender.offer(offer)))
        waiting.start()
        terminal.wait_for(r"second\.txt[\s\S]*accept\?")
        terminal.press("y\r")
        waiting.join(30)
        status, answer = answers.pop()
        self.assertEqual(200, status)
        self.assertEqual(200, sender.upload(answer, "a", b"a"))
        self.assertEqual({"second.txt": b"a"}, self.anna.received())
        # A blocked device is not asked about again, nor is another certificate at its address (R11).
        waiting = threading.Thread(target=lambda: answers.append(sender.offer(offer)))
        waiting.start()
        terminal.wait_for(r"second\.txt[\s\S]*second\.txt[\s\S]*accept\?")
        terminal.press("b\r")
        waiting.join(30)
        self.assertEqual(403, answers.pop()[0])
        terminal.wait_for("until this command ends")
        self.assertEqual(403, sender.offer(offer)[0])
        terminal.press("\x03")
        self.assertEqual(130, terminal.end())

    def test_info_and_register_answer_both_generations(self):
        self.receiver()
        sender = self.modern()
        for path in ("v1/info", "v2/info"):
            status, info = sender.request(path, method="GET")
            self.assertEqual((200, "anna", "2.1"), (status, info["alias"], info["version"]))
            self.assertEqual(sender.seen, info["fingerprint"].lower())
        status, info = sender.request("v2/register", json.dumps(sender.device()).encode())
        self.assertEqual((200, "anna"), (status, info["alias"]))
        for path, method, status in [("v2/other", "POST", 404), ("v2/info", "POST", 405), ("v2/upload", "POST", 400)]:
            self.assertEqual(status, sender.request(path, method=method)[0])

    def test_announcements_are_sent_and_answered(self):
        registry = Registry(self.certificate)
        self.addCleanup(registry.close)
        with group() as link:
            self.receiver()
            while True:
                datagram, _ = link.recvfrom(4096)
                device = json.loads(datagram)
                if device["alias"] == "anna":
                    break
            self.assertEqual((True, "https", self.address[1]), (device["announce"], device["protocol"], device["port"]))
            self.assertEqual(self.ready["certificate"], device["fingerprint"].lower())
            own = LocalSendPeer(self.address, self.certificate).device()
            link.sendto(json.dumps({**own, "port": registry.port, "announce": True}).encode(), (GROUP, PORT))
            path, body, _ = registry.wait()
            self.assertEqual(("/api/localsend/v2/register", "anna"), (path, body["alias"]))
            self.assertEqual(self.ready["certificate"], body["fingerprint"].lower())

    def test_two_receivers_share_the_machine(self):
        self.receiver()
        ben = self.ben.start("receive", "--json", "--localsend", "--accept", "all", "--inbox", self.ben.inbox)
        port = ben.wait_for("localsend")["port"]
        self.assertNotEqual(self.address[1], port)
        self.address = ("127.0.0.1", port)
        self.ready = {"certificate": None}
        self.assertEqual([200, 200], self.modern().send({"a": b"a"}))
        self.assertEqual({"a": b"a"}, self.ben.received())

    def test_the_certificate_stays_and_is_private(self):
        anna = self.receiver()
        first = self.ready["certificate"]
        anna.process.kill()
        anna.process.wait()
        self.receiver()
        self.assertEqual(first, self.ready["certificate"])
        path = self.anna.home / "state/nearshare/localsend.pem"
        self.assertEqual(0o600, path.stat().st_mode & 0o777)
        os.chmod(path, 0o644)
        result = self.anna.run("receive", "--localsend", "--accept", "all")
        self.assertEqual(1, result.returncode)
        self.assertIn(b"can be read by others", result.stderr)

    def test_another_program_sends(self):
        self.receiver()
        content = self.random.randbytes(1_000_000)
        path = self.place / "x.bin"
        path.write_bytes(content)
        # The program checks certificates by fingerprint, not by the files that these variables would name.
        variables = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        command = [sys.executable, "-c", "from localsend_cli.main import main; main()", "send", "--json", "127.0.0.1", path]
        environment = {**variables, "HOME": str(self.place)}
        result = subprocess.run(command, env=environment, capture_output=True, timeout=60)
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertEqual({"x.bin": content}, self.anna.received())

    def test_a_device_that_was_met_is_known_by_its_certificate(self):
        anna = self.receiver()
        self.assertEqual([200, 200], self.modern().send({"a": b"a"}))
        self.assertEqual("new", anna.wait_for("invitation")["trust"])
        self.assertEqual([200, 200], self.modern().send({"b": b"b"}))
        self.assertEqual("seen", anna.wait_for("invitation")["trust"])
        sender = self.sender(Certificate(self.place))
        sender.offer([LocalSendPeer.file("c", "c", b"c")])
        self.assertEqual("changed", anna.wait_for("invitation")["trust"])
        # A block holds for all later runs.
        identifier = json.loads(self.anna.run("peers", "--json").stdout)["id"]
        self.assertEqual(0, self.anna.run("peers", "block", identifier).returncode)
        self.assertEqual([403], self.modern().send({"d": b"d"}))

    def test_the_sender_learns_that_the_receiver_has_cancelled(self):
        server = Receiver(self.certificate)
        self.addCleanup(server.close)
        anna = self.receiver()
        sender = self.modern()
        device = {**sender.device(), "port": server.port}
        sender.device = lambda: device
        _, answer = sender.offer([LocalSendPeer.file("a", "a", b"a")])
        anna.wait_for("accepted")
        anna.process.send_signal(signal.SIGINT)
        server.wait_for("v2/cancel")
        self.assertEqual([("POST", "v2/cancel", {"sessionId": answer["sessionId"]})], server.requests)
        anna.process.wait(30)

    # Refusals

    def test_F1_friends_alone_take_nothing_from_a_device(self):
        anna = self.receiver(accept="friends")
        sender = self.modern()
        self.assertEqual(403, sender.offer([LocalSendPeer.file("a", "a", b"a")])[0])
        self.assertEqual("declined", anna.wait_for("finished")["outcome"])

    def test_F1_a_friend_whose_certificate_nobody_compared_is_none(self):
        anna = self.receiver()
        self.assertEqual([200, 200], self.modern().send({"a": b"a"}))
        anna.wait_for("finished")
        anna.process.kill()
        anna.process.wait()
        identifier = json.loads(self.anna.run("peers", "--json").stdout)["id"]
        self.anna.run("friends", "add", identifier)
        self.receiver(accept="friends")
        self.assertEqual([403], self.modern().send({"b": b"b"}))

    def test_F2_the_pin_is_asked_for_and_three_wrong_ones_end_it(self):
        pin = self.place / "pin"
        pin.write_text("123456\n")
        self.receiver("--localsend-pin-file", pin)
        sender = self.modern()
        offer = [LocalSendPeer.file("a", "a", b"a")]
        for _ in range(5):
            self.assertEqual(401, sender.offer(offer)[0])
        for _ in range(2):
            self.assertEqual(401, sender.offer(offer, pin="0")[0])
        # A right PIN resets the count.
        self.assertEqual(200, sender.offer(offer, pin="123456")[0])
        for _ in range(3):
            self.assertEqual(401, sender.offer(offer, pin="0")[0])
        for guess in ("0", "123456"):
            self.assertEqual(429, sender.offer(offer, pin=guess)[0])
        other = self.modern(source="127.0.0.2")
        self.assertEqual(401, other.offer(offer)[0])

    def test_F3_tokens_sessions_addresses_and_certificates_of_others(self):
        self.receiver()
        sender = self.modern()
        _, answer = sender.offer([LocalSendPeer.file("a", "a", b"a"), LocalSendPeer.file("b", "b", b"b")])
        for changes in ({"token": "x"}, {"sessionId": "x"}, {"fileId": "b"}, {"fileId": "c"}):
            self.assertEqual(403, sender.upload(answer, "a", b"a", **changes))
        for thief in (
            self.modern(source="127.0.0.2"),
            self.sender(),
            self.sender(Certificate(self.place)),
        ):
            self.assertEqual(403, thief.upload(answer, "a", b"a"))
            self.assertEqual(403, thief.request("v2/cancel", sessionId=answer["sessionId"])[0])
        self.assertEqual(200, sender.upload(answer, "a", b"a"))
        self.assertEqual(403, sender.upload(answer, "a", b"a"))
        self.assertEqual(200, sender.upload(answer, "b", b"b"))
        self.assertEqual({"a": b"a", "b": b"b"}, self.anna.received())

    def test_F4_content_of_another_size_ends_its_file_alone(self):
        for content in (b"too long", b"2"):
            anna = self.receiver()
            sender = self.modern()
            _, answer = sender.offer([LocalSendPeer.file("a", "a", b"four")])
            try:
                self.assertEqual(500, sender.upload(answer, "a", content))
            except OSError:
                pass  # The connection ends with the file.
            self.assertEqual("interrupted", anna.wait_for("finished")["outcome"])
            self.assertEqual({}, self.anna.received())
            _, answer = sender.offer([LocalSendPeer.file(name, name, b"four") for name in "abc"])
            self.assertEqual(200, sender.upload(answer, "a", b"four"))
            with contextlib.suppress(OSError):
                self.assertEqual(500, sender.upload(answer, "b", content))
            self.assertEqual(200, sender.upload(answer, "c", b"four"))
            finished = anna.wait_for("finished")
            self.assertEqual("partial", finished["outcome"])
            self.assertEqual({"count": 1, "offered": 3, "listed": ["b"]}, finished["missing"])
            self.assertEqual({"a": b"four", "c": b"four"}, self.anna.received())
            shutil.rmtree(self.anna.inbox)
            anna.process.kill()
            anna.process.wait()

    def test_F4_a_broken_upload_ends_its_file_alone_and_can_be_repeated(self):
        anna = self.receiver("--once")
        sender = self.modern()
        files = [LocalSendPeer.file(name, name, bytes(100_000)) for name in ("a", "t/b", "t/c", "u/d", "e")]
        _, answer = sender.offer(files)
        for name in ("a", "t/b", "u/d"):
            self.break_upload(sender, answer, name)
        # A file that is sent again while others are awaited is complete.
        wait_until(lambda: sender.upload(answer, "t/b", bytes(100_000)) == 200, "the file to be expected again")
        self.assertEqual(200, sender.upload(answer, "t/c", bytes(100_000)))
        self.assertEqual(200, sender.upload(answer, "e", bytes(100_000)))
        finished = anna.wait_for("finished")
        self.assertEqual(("partial", 2, 5), (finished["outcome"], finished["missing"]["count"], finished["missing"]["offered"]))
        self.assertEqual(["a", "d"], finished["missing"]["listed"])
        self.assertEqual(6, anna.end())
        self.assertEqual({name: bytes(100_000) for name in ("e", "t/b", "t/c")}, self.anna.received())
        entries = [json.loads(line) for line in self.anna.run("history", "--json").stdout.splitlines()]
        self.assertEqual(1, sum(entry["outcome"] == "partial" for entry in entries), entries)

    def break_upload(self, sender, answer, name):
        """Sends half of a file, and cuts the connection."""
        connection = sender.connect()
        query = urllib.parse.urlencode({"sessionId": answer["sessionId"], "fileId": name, "token": answer["files"][name]})
        connection.putrequest("POST", f"/api/localsend/v2/upload?{query}")
        connection.putheader("Content-Length", "100000")
        connection.endheaders(bytes(50_000))
        connection.sock.close()

    def test_the_user_accepts_a_part(self):
        command = self.anna.command("receive", "--localsend", "--name", "anna", "--inbox", self.anna.inbox)
        terminal = Terminal(self.anna, *command, columns=100, rows=40, variables={"LC_ALL": "C.UTF-8"})
        self.addCleanup(terminal.close)
        port = int(terminal.wait_for(r"LocalSend devices see it on port (\d+)")[1])
        self.address, self.ready = ("127.0.0.1", port), {"certificate": None}
        sender = self.modern()
        names = ("trip/one.jpg", "notes.txt", "trip/two.jpg", "trip/day/three.jpg")
        files = [LocalSendPeer.file(name, name, name.encode()) for name in names]
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(sender.offer(files)))
        waiting.start()
        terminal.wait_for(r"\[p\]art")
        terminal.press("l\r")
        terminal.wait_for(r"1  \S*trip\S*/[\s\S]*trip/one[\s\S]*trip/two[\s\S]*trip/day[\s\S]*three[\s\S]*6  \S*notes")
        terminal.press("p two*,6\r")
        waiting.join(30)
        status, answer = answers.pop()
        self.assertEqual((200, {"trip/two.jpg", "notes.txt"}), (status, set(answer["files"])))
        terminal.wait_for("2 of 4 files")
        self.assertEqual(403, sender.upload(answer, "trip/one.jpg", b"trip/one.jpg"))
        for name in answer["files"]:
            self.assertEqual(200, sender.upload(answer, name, name.encode()))
        self.assertEqual({name: name.encode() for name in ("trip/two.jpg", "notes.txt")}, self.anna.received())
        terminal.wait_for("complete")
        # The answer to an interrupted offer holds for its repetition only.
        others = [LocalSendPeer.file(name, name, name.encode()) for name in ("a", "b", "c")]
        waiting = threading.Thread(target=lambda: answers.append(sender.offer(others)))
        waiting.start()
        terminal.wait_for(r"\[p\]art")
        terminal.press("p 2\r")
        waiting.join(30)
        self.assertEqual({"b"}, set(answers[0][1]["files"]))
        self.break_upload(sender, answers.pop()[1], "b")
        terminal.wait_for("was lost")
        status, answer = sender.offer(others)
        self.assertEqual((200, {"b"}), (status, set(answer["files"])))
        self.assertEqual(200, sender.upload(answer, "b", b"b"))
        terminal.wait_for("complete")

    def test_F5_a_wrong_checksum_is_sent_again(self):
        anna = self.receiver()
        sender = self.modern()
        digest = hashlib.sha256(b"good").hexdigest()
        _, answer = sender.offer([LocalSendPeer.file("a", "t/a", b"good", sha256=digest), LocalSendPeer.file("b", "b", b"b")])
        self.assertEqual(422, sender.upload(answer, "a", b"evil"))
        self.assertEqual(200, sender.upload(answer, "b", b"b"))
        self.assertEqual(200, sender.upload(answer, "a", b"good"))
        self.assertEqual("completed", anna.wait_for("finished")["outcome"])
        self.assertEqual({"t/a": b"good", "b": b"b"}, self.anna.received())
        _, answer = sender.offer([LocalSendPeer.file("a", "c", b"good", sha256=digest)])
        for _ in range(3):
            self.assertEqual(422, sender.upload(answer, "a", b"evil"))
        self.assertEqual("failed", anna.wait_for("finished")["outcome"])
        # The complete files of a transfer arrive although another one has failed.
        _, answer = sender.offer([LocalSendPeer.file("a", "d", b"good", sha256=digest), LocalSendPeer.file("b", "e", b"e")])
        for _ in range(3):
            self.assertEqual(422, sender.upload(answer, "a", b"evil"))
        self.assertEqual(403, sender.upload(answer, "a", b"good"))
        self.assertEqual(200, sender.upload(answer, "b", b"e"))
        finished = anna.wait_for("finished")
        self.assertEqual(("partial", ["d"]), (finished["outcome"], finished["missing"]["listed"]))

    def test_F6_the_sender_cancels_before_and_after_the_answer(self):
        anna = self.receiver()
        sender = self.modern()
        _, answer = sender.offer([LocalSendPeer.file("a", "a", b"a"), LocalSendPeer.file("b", "b", b"b")])
        self.assertEqual(200, sender.upload(answer, "a", b"a"))
        self.assertEqual(200, sender.request("v2/cancel", sessionId=answer["sessionId"])[0])
        self.assertEqual("cancelled", anna.wait_for("finished")["outcome"])
        self.assertEqual(403, sender.upload(answer, "b", b"b"))
        self.assertEqual({}, self.anna.received())

    def test_F7_a_sender_that_goes_away_withdraws_its_question(self):
        command = self.anna.command("receive", "--name", "anna", "--inbox", self.anna.inbox)
        # On a terminal, LocalSend is on by default.
        terminal = Terminal(self.anna, *command, columns=100, rows=24, variables={"LC_ALL": "C.UTF-8"})
        self.addCleanup(terminal.close)
        port = int(terminal.wait_for(r"LocalSend devices see it on port (\d+)")[1])
        self.address, self.ready = ("127.0.0.1", port), {"certificate": None}
        for withdraw in ("cancel", "close"):
            sender = self.modern()
            connection = sender.connect()
            body = json.dumps({"info": sender.device(), "files": {"a": LocalSendPeer.file("a", withdraw, b"a")}}).encode()
            connection.request("POST", "/api/localsend/v2/prepare-upload", body=body)
            terminal.wait_for(rf"{withdraw}[\s\S]*accept\?")
            if withdraw == "cancel":
                self.assertEqual(200, sender.request("v2/cancel")[0])
                self.assertEqual(403, connection.getresponse().status)
            else:
                connection.close()
            terminal.wait_for(r"Nice Orange cancelled")

    def test_F8_certificates_that_are_expired_or_signed_by_another(self):
        self.receiver()
        other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        for certificate in (
            Certificate(self.place, -2 * YEAR, -YEAR),
            Certificate(self.place, YEAR, 2 * YEAR),
            Certificate(self.place, signer=other),
        ):
            with self.assertRaises((ssl.SSLError, OSError)):
                self.sender(certificate).request("v2/info", method="GET")
        self.assertEqual(200, self.modern().request("v2/info", method="GET")[0])

    def test_N7_a_client_cannot_renegotiate(self):
        self.receiver()
        command = ["openssl", "s_client", "-connect", f"127.0.0.1:{self.address[1]}", "-tls1_2", "-cert", self.certificate.path]
        result = subprocess.run(command, input=b"R\n", capture_output=True, timeout=60)
        self.assertIn(b"RENEGOTIATING", result.stdout + result.stderr)
        self.assertIn(b"no renegotiation", result.stdout + result.stderr)
        self.assertEqual(200, self.modern().request("v2/info", method="GET")[0])

    def test_F9_old_versions_and_garbage(self):
        self.receiver()
        context = self.modern().context()
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
        with self.assertRaises((ssl.SSLError, OSError)):
            self.sender().connect(context)
        context = self.modern().context()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        self.assertEqual("TLSv1.2", self.sender().connect(context).sock.version())
        record = b"\x16\x03\x01\xff\xff" + bytes(70_000)
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", bytes(5000), self.random.randbytes(5000), record):
            with socket.create_connection(self.address) as link:
                link.settimeout(30)
                try:
                    link.sendall(garbage)
                    while link.recv(4096):
                        pass
                except OSError:
                    pass
        self.assertEqual(200, self.modern().request("v2/info", method="GET")[0])

    def test_F10_requests_that_are_too_large_too_deep_or_of_wrong_types(self):
        self.receiver()
        sender = self.modern()
        device = sender.device()
        file = LocalSendPeer.file("a", "a", b"a")
        bodies = [
            b"",
            b"{",
            b"[" * 100_000,
            json.dumps({"info": device}).encode(),
            json.dumps({"info": device, "files": {}}).encode(),
            json.dumps({"info": device, "files": [file]}).encode(),
            json.dumps({"info": {**device, "alias": 5}, "files": {"a": file}}).encode(),
            json.dumps({"info": device, "files": {"a": {**file, "size": -1}}}).encode(),
            json.dumps({"info": device, "files": {"a": {**file, "size": "1"}}}).encode(),
            json.dumps({"info": device, "files": {"a": {**file, "size": 2**63}}}).encode(),
            json.dumps({"info": device, "files": {"a": {**file, "fileName": "n" * 256}}}).encode(),
            json.dumps({"info": device, "files": {"a": {**file, "sha256": "x"}}}).encode(),
            json.dumps({"info": device, "files": {str(i): file for i in range(1001)}}).encode(),
            b'{"info":{},"info":{}}',
            b'{"a":"\xff"}',
        ]
        for body in bodies:
            self.assertEqual(400, sender.request("v2/prepare-upload", body)[0], body[:80])
        for path, size in (("v2/prepare-upload", (1 << 20) + 1), ("v2/register", 5000)):
            self.assertEqual(413, sender.request(path, b" " * size)[0])
        self.assertEqual(400, sender.request("v2/register", b"{}")[0])
        self.assertEqual(403, sender.request("v2/info", method="GET", headers={"Origin": "https://example.org"})[0])
        self.assertEqual([200, 200], sender.send({"a": b"a"}))

    def test_F11_names_stay_in_the_inbox(self):
        self.receiver()
        names = ["../x", "/etc/x", "..", ".bashrc", "a/../../y", "CON", "-rf", "\x1b[2J", "a\\..\\b", "t/../.ssh/keys"]
        self.assertEqual([200] * (len(names) + 1), self.modern().send({name: name.encode() for name in names}))
        self.assertEqual(sorted(name.encode() for name in names), sorted(self.anna.received().values()))
        outside = [path for path in self.place.rglob("*") if path.name in ("x", "y") and self.anna.inbox not in path.parents]
        self.assertEqual([], outside)

    def test_F12_another_device_is_not_taken_for_this_one(self):
        self.receiver()
        with self.assertRaises(Fingerprint):
            LocalSendPeer(self.address, self.certificate, "0" * 64).request("v2/info", method="GET")

    def test_F13_thousands_of_announcements_cause_few_answers(self):
        registry = Registry(self.certificate)
        self.addCleanup(registry.close)
        self.receiver()
        own = LocalSendPeer(self.address, self.certificate).device()
        datagram = json.dumps({**own, "port": registry.port, "announce": True}).encode()
        with group() as link:
            for _ in range(3000):
                link.sendto(datagram, (GROUP, PORT))
            for garbage in (b"", b"{}", b"[" * 4000, b"\xff" * 4096, b'{"alias":"x"}'):
                link.sendto(garbage, (GROUP, PORT))
        registry.wait()
        self.assertEqual(200, self.modern().request("v2/info", method="GET")[0])
        self.assertLessEqual(len(registry.registered), 3)

    def test_F14_sessions_of_one_address_are_few(self):
        self.receiver()
        sender = self.modern()
        offers = [[LocalSendPeer.file("a", f"{number}", b"a")] for number in range(6)]
        self.assertEqual([200] * 4 + [409] * 2, [sender.offer(offer)[0] for offer in offers])

    def test_F20_lookups_of_one_address_are_few(self):
        self.receiver()
        sender = self.modern()
        statuses = [sender.request("v2/info", method="GET")[0] for _ in range(40)]
        self.assertEqual([200] * 30 + [429] * 10, statuses)
        self.assertEqual(429, sender.request("v2/register", json.dumps(sender.device()).encode())[0])
        # Other hosts are not limited, nor are requests that are no lookups.
        self.assertEqual(200, self.modern(source="127.0.0.2").request("v2/info", method="GET")[0])
        self.assertEqual([200, 200], self.modern().send({"a": b"a"}))

    def test_F20_a_connection_without_a_place_is_told_so(self):
        self.receiver()
        sender = self.modern()
        held = []
        # Each waits for the answer to an offer, or sends a file, so that it keeps its slot.
        offers = [sender.offer([LocalSendPeer.file("a", f"{number}", bytes(1000))])[1] for number in range(4)]
        statuses = set()
        for _ in range(40):
            connection = sender.connect()
            held.append(connection)
            query = urllib.parse.urlencode({"sessionId": "x", "fileId": "a", "token": "x"})
            connection.putrequest("POST", f"/api/localsend/v2/prepare-upload?{query}")
            connection.putheader("Content-Length", "1000")
            try:
                connection.endheaders(b"{")
                connection.sock.settimeout(0.05)
                head = connection.sock.recv(100)
            except TimeoutError:
                continue
            except OSError:
                statuses.add("closed")
                continue
            statuses.add(head.split(b" ")[1].decode() if head else "closed")
            if "503" in statuses:
                break
        self.assertIn("503", statuses, offers)
        for connection in held:
            connection.close()
        wait_until(lambda: self.is_answered(sender), "a slot")

    @staticmethod
    def is_answered(sender):
        try:
            return sender.request("v2/info", method="GET")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def test_F9_slow_bodies_and_endless_heads(self):
        self.receiver()
        sender = self.modern()
        bombs = [
            b"GET /api/localsend/v2/info HTTP/1.1\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",
            b"GET /api/localsend/v2/info HTTP/1.1\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
            b"GET /api/localsend/v2/info?" + b"a=b&" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
            b"POST /api/localsend/v2/register HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
            b"POST /api/localsend/v2/register HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            + b"1;"
            + b"x" * 100_000,
        ]
        for bomb in bombs:
            connection = sender.connect()
            with contextlib.suppress(OSError):
                connection.sock.sendall(bomb)
                connection.sock.settimeout(30)
                head = connection.sock.recv(100)
                self.assertRegex(head, rb"HTTP/1.1 (400|413|414|431|501) ")
        # A body that comes a byte at a time holds its own connection alone.
        slow = sender.connect()
        slow.putrequest("POST", "/api/localsend/v2/register")
        slow.putheader("Content-Length", "4000")
        slow.endheaders(b"{")
        self.assertEqual([200, 200], self.modern().send({"a": b"a"}))
