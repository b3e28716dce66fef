"""The page for browsers, as a browser of another implementation uses it."""

import os
import signal
import socket
import struct

from cryptography.exceptions import InvalidTag

from harness import Story, wait_until
from page_browser import BUSY, CHUNK, DECLINED, RECEIVING, STORED, PageBrowser
from test_questions import Terminal


class PageStory(Story):
    def page(self, *arguments, accept="all"):
        running = self.anna.receive("--qr", *arguments, accept=accept)
        return running, running.wait_for("page")["url"]

    def browser(self, url):
        browser = PageBrowser(url)
        self.addCleanup(browser.close)
        self.assertEqual(200, browser.hello())
        return browser

    def test_files_arrive_with_their_names_and_several_times(self):
        anna, url = self.page()
        browser = self.browser(url)
        self.assertEqual("anna", browser.name)
        photo, note = self.random.randbytes(3 * CHUNK + 17), b"hello"
        items = [(b"photo.jpg", photo, False), (b"empty.txt", b"", False), ("grüße.txt".encode(), note, False)]
        self.assertEqual(STORED, browser.upload(items))
        self.assertEqual({"photo.jpg": photo, "empty.txt": b"", "grüße.txt": note}, self.anna.received())
        invitation = anna.wait_for("invitation")
        self.assertEqual(f"a browser at 127.0.0.1 ({browser.code[:4]})", invitation["name"])
        self.assertEqual(("new", "web"), (invitation["trust"], invitation["protocol"]))
        for _ in range(3):
            self.assertEqual("file", anna.wait_for("delivered")["kind"])
        self.assertEqual("completed", anna.wait_for("finished")["outcome"])
        self.assertEqual(STORED, browser.upload([(b"second.txt", b"2", False)]))

    def test_several_chunks_in_a_request_count_one_by_one(self):
        _, url = self.page()
        browser = self.browser(url)
        content = self.random.randbytes(5 * CHUNK + 17)
        chunks = [content[start : start + CHUNK] for start in range(0, len(content), CHUNK)]
        self.assertEqual(200, browser.offer([(b"photo.jpg", content, False)]))
        offer = browser.last_message
        self.assertEqual(RECEIVING, browser.wait(RECEIVING))
        # The network breaks in the third chunk of four.
        body = browser.sealed(offer, 0, chunks[:4])
        head = f"POST {browser.path}/{browser.id}/u/{offer}/0 HTTP/1.1\r\nHost: {browser.host}:{browser.port}\r\n"
        with socket.create_connection((browser.host, browser.port), timeout=10) as link:
            link.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[: 5 * CHUNK // 2])
        wait_until(lambda: browser.hello() == 200 and browser.next == 2, "two chunks")
        # More than four, and a body that is not divided as the content is.
        self.assertEqual(413, browser.chunks(offer, 1, chunks[1:]))
        browser.close()
        self.assertEqual(403, browser.chunks(offer, 3, [*chunks[3:], b"x"]))
        self.assertEqual(200, browser.chunks(offer, 2, chunks[2:]))
        self.assertEqual(STORED, browser.wait(STORED))
        self.assertEqual({"photo.jpg": content}, self.anna.received())

    def test_a_text_is_shown(self):
        anna, url = self.page()
        self.assertEqual(STORED, self.browser(url).upload([(b"message.txt", "hello ✓".encode(), True)]))
        self.assertEqual("hello ✓", anna.wait_for("delivered")["text"])

    def test_once_ends_after_the_browser_knows(self):
        anna, url = self.page("--once")
        self.assertEqual(STORED, self.browser(url).upload([(b"a.txt", b"a", False)]))
        self.assertEqual(0, anna.end())

    def test_a_request_that_waits_for_a_change_is_told_that_the_node_ends(self):
        anna, url = self.page()
        browser = self.browser(url)
        with socket.create_connection((browser.host, browser.port), timeout=10) as link:
            host = f"Host: {browser.host}:{browser.port}\r\n\r\n"
            state = f"{browser.path}/{browser.id}/s/{browser.version}"
            # The answer to the first request says that the second one is being read.
            link.sendall(f"GET {browser.path} HTTP/1.1\r\n{host}GET {state} HTTP/1.1\r\n{host}".encode())
            answers = link.makefile("rb")
            self.assertEqual(b"HTTP/1.1 200", answers.readline()[:12])
            anna.signal(signal.SIGTERM)
            self.assertIn(b"HTTP/1.1 410", answers.read())
        anna.end()

    def test_the_user_sees_the_code_of_the_browser_and_declines(self):
        command = self.anna.command("receive", "--qr", "--name", "anna", "--inbox", self.anna.inbox)
        terminal = Terminal(self.anna, *command, columns=80, rows=24, variables={"LC_ALL": "C.UTF-8"})
        self.addCleanup(terminal.close)
        url = terminal.wait_for(r"█[\s\S]*?(HTTP://[0-9.:]+/[A-Z2-7]{8}#[A-Z2-7]{26})")[1]
        browser = self.browser(url)
        self.assertEqual(200, browser.offer([(b"a.txt", b"a", False)]))
        question = terminal.wait_for(r"[\s\S]*accept\?")[0]
        self.assertIn(browser.code, question)
        self.assertIn("a browser at 127.0.0.1", question)
        terminal.press("n\r")
        self.assertEqual(DECLINED, browser.wait(DECLINED))
        self.assertEqual(200, browser.offer([(b"b.txt", b"b", False)]))
        terminal.wait_for(r"b\.txt[\s\S]*accept\?")
        terminal.press("y\r")
        self.assertEqual(RECEIVING, browser.wait(RECEIVING))
        self.assertEqual(200, browser.chunk(browser.last_message, 0, b"b"))
        self.assertEqual(STORED, browser.wait(STORED))
        # Accepted once, it is not asked about again.
        self.assertEqual(STORED, browser.upload([(b"c.txt", b"c", False)]))
        self.assertEqual({"b.txt": b"b", "c.txt": b"c"}, self.anna.received())
        terminal.press("\x03")
        self.assertEqual(130, terminal.end())

    def test_A5_friends_and_none_take_nothing_from_a_browser(self):
        for accept in ("friends", "none"):
            anna, url = self.page(accept=accept)
            self.assertEqual(DECLINED, self.browser(url).upload([(b"a.txt", b"a", False)]))
            self.assertEqual("declined", anna.wait_for("finished")["outcome"])
            anna.process.kill()
        self.assertEqual({}, self.anna.received())

    def test_A8_a_cancel_of_the_browser_ends_the_transfer_and_leaves_nothing(self):
        anna, url = self.page()
        browser = self.browser(url)
        content = self.random.randbytes(2 * CHUNK)
        self.assertEqual(200, browser.offer([(b"a.bin", content, False)]))
        browser.wait(RECEIVING)
        self.assertEqual(200, browser.chunk(1, 0, content[:CHUNK]))
        self.assertEqual(200, browser.cancel())
        self.assertEqual("cancelled", anna.wait_for("finished")["outcome"])
        self.assertEqual({}, self.anna.received())
        self.assertEqual(409, browser.chunk(1, 1, content[CHUNK:]))
        self.assertEqual(STORED, browser.upload([(b"b.txt", b"b", False)]))

    def test_a_transfer_goes_on_after_the_connection_was_lost(self):
        _, url = self.page()
        browser = self.browser(url)
        content = self.random.randbytes(3 * CHUNK)
        self.assertEqual(200, browser.offer([(b"a.bin", content, False)]))
        browser.wait(RECEIVING)
        self.assertEqual(200, browser.chunk(1, 0, content[:CHUNK]))
        # Half of a chunk, and the end of the connection.
        half = browser.browser.encrypt(struct.pack(">III", 3, 1, 1), content[CHUNK : 2 * CHUNK], None)[:1000]
        with socket.create_connection((browser.host, browser.port)) as link:
            head = f"POST {browser.path}/{browser.id}/u/1/1 HTTP/1.1\r\nHost: {browser.host}:{browser.port}\r\n"
            link.sendall(f"{head}Content-Length: {CHUNK + 16}\r\n\r\n".encode() + half)
        browser.close()
        self.assertEqual(200, browser.chunk(1, 2, content[2 * CHUNK :]))
        self.assertEqual(1, browser.next)
        self.assertEqual(200, browser.chunk(1, 1, content[CHUNK : 2 * CHUNK]))
        self.assertEqual(STORED, browser.wait(STORED))
        self.assertEqual({"a.bin": content}, self.anna.received())

    def test_P1_names_of_a_browser_stay_in_the_inbox(self):
        _, url = self.page()
        browser = self.browser(url)
        names = [b"../x", b"/etc/x", b"..", b".bashrc", b"a\x00b", b"\xff\xfe", b"CON", b"-rf", b"", b"a/../../x", b"\x1b[2J"]
        self.assertEqual(STORED, browser.upload([(name, name + b" ", False) for name in names]))
        received = self.anna.received()
        self.assertEqual(len(names), len(received), received.keys())
        for name in received:
            self.assertNotIn("/", name)
            self.assertFalse(name.startswith((".", "-")), name)
            self.assertNotIn("\x1b", name)
        self.assertFalse((self.place / "anna/x").exists())

    def test_N9_N10_other_hosts_and_origins_get_nothing(self):
        _, url = self.page()
        browser = self.browser(url)
        self.assertEqual(200, browser.request("GET", browser.path)[0])
        status, body = browser.request("GET", browser.path, fields={"Host": f"evil.example:{browser.port}"})
        self.assertEqual((421, b""), (status, body))
        browser.close()
        self.assertEqual(403, browser.request("GET", browser.path, fields={"Origin": "http://evil.example"})[0])

    def test_N11_another_browser_with_the_address_has_neither_the_keys_nor_the_code(self):
        _, url = self.page(accept="all")
        replies = []

        class Overheard(PageBrowser):
            def request(self, *arguments):
                status, body = super().request(*arguments)
                replies.append(body)
                return status, body

        browser = Overheard(url)
        self.addCleanup(browser.close)
        self.assertEqual(200, browser.hello())
        self.assertEqual(200, browser.offer([(b"a.txt", b"abcd", False)]))
        browser.wait(RECEIVING)
        for point, salt in [(browser.point, replies[0][:16]), (None, replies[0][:16]), (browser.point, None)]:
            other = self.browser(url)
            self.assertNotEqual(browser.code, other.code)
            own, own_salt = other.point, os.urandom(16)
            other.derive(salt or own_salt, other.node, point or own)
            self.assertNotEqual((browser.code, browser.id), (other.code, other.id))
            for record in (replies[0][64:], replies[1]):
                with self.assertRaises(InvalidTag):
                    other.read(record)
            other.id = browser.id
            self.assertEqual(403, other.chunk(1, 0, b"evil"))
            self.assertEqual(403, other.cancel())
        self.assertEqual(200, browser.chunk(1, 0, b"abcd"))
        self.assertEqual(STORED, browser.wait(STORED))
        self.assertEqual({"a.txt": b"abcd"}, self.anna.received())

    def test_R9_hellos_are_limited_and_an_open_page_goes_on(self):
        _, url = self.page()
        browser = self.browser(url)
        self.assertEqual(200, browser.offer([(b"a.txt", b"abcd", False)]))
        self.assertEqual(RECEIVING, browser.wait(RECEIVING))
        statuses = []
        for _ in range(40):
            other = PageBrowser(url)
            self.addCleanup(other.close)
            statuses.append(other.hello())
            other.close()
        self.assertEqual([200] * 29 + [429] * 11, statuses)
        self.assertEqual(200, browser.chunk(1, 0, b"abcd"))
        self.assertEqual(STORED, browser.wait(STORED))

    def test_R11_a_browser_whose_question_is_not_asked_is_told_so(self):
        command = self.anna.command("receive", "--qr", "--name", "anna", "--inbox", self.anna.inbox)
        terminal = Terminal(self.anna, *command, columns=80, rows=24, variables={"LC_ALL": "C.UTF-8"})
        self.addCleanup(terminal.close)
        url = terminal.wait_for(r"█[\s\S]*?(HTTP://[0-9.:]+/[A-Z2-7]{8}#[A-Z2-7]{26})")[1]
        browsers = [self.browser(url) for _ in range(6)]
        for browser in browsers:
            self.assertEqual(200, browser.offer([(b"a.txt", b"a", False)]))
        self.assertEqual(BUSY, browsers[5].wait(BUSY, DECLINED))
        for browser in browsers[:2]:
            terminal.wait_for(rf"a browser at 127.0.0.1 \({browser.code[:4]}\)")

    def test_R3_many_silent_connections_leave_the_page_open(self):
        _, url = self.page()
        browser = self.browser(url)
        links = [socket.create_connection((browser.host, browser.port)) for _ in range(200)]
        for link in links:
            self.addCleanup(link.close)
            try:
                link.sendall(b"GET / HTTP/1.1\r\nX: " + b"a" * 100)
            except OSError:
                continue
        for link in links:
            link.close()
        browser.close()
        content = os.urandom(CHUNK + 1)
        self.assertEqual(STORED, browser.upload([(b"a.bin", content, False)]))
