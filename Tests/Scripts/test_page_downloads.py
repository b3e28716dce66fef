"""The page that gives content to browsers, as a browser of another implementation uses it."""

import contextlib
import http.client
import io
import os
import signal
import socket
import struct
import subprocess
import threading
import unittest
import zipfile

from harness import Story, has_namespaces, wait_until
from page_browser import CANCELLED, CHUNK, DECLINED, EXPIRED, FAILED, SENDING, STORED, PageBrowser
from test_questions import Terminal


class DownloadStory(Story):
    def page(self, *arguments, accept="all", stdin=subprocess.DEVNULL):
        running = self.anna.start("send", "--qr", "--json", "--accept", accept, *arguments, stdin=stdin)
        return running, running.wait_for("page")["url"]

    def browser(self, url):
        browser = PageBrowser(url)
        self.addCleanup(browser.close)
        self.assertEqual(200, browser.hello())
        self.assertEqual(1, browser.gives)
        return browser

    def accepted(self, url):
        browser = self.browser(url)
        self.assertEqual(200, browser.ask())
        self.assertEqual(SENDING, browser.wait(SENDING))
        return browser

    def large(self, size=201_000_000):
        """A file that is too large for the memory of a page."""
        path = self.file("large.bin", CHUNK)
        with open(path, "r+b") as file:
            file.seek(size - CHUNK)
            file.write(self.random.randbytes(CHUNK))
        return path

    def test_files_are_received_and_the_command_ends(self):
        photo, empty = self.file("photo 1.jpg", 3 * CHUNK + 17), self.file("empty.txt", 0)
        anna, url = self.page(photo, empty)
        browser = self.accepted(url)
        self.assertEqual([("photo 1.jpg", 3 * CHUNK + 17), ("empty.txt", 0)], [item[2:5:2] for item in browser.list()])
        self.assertEqual(photo.read_bytes(), browser.download(1))
        self.assertEqual(200, browser.received(1))
        self.assertEqual([True, False], [item[1] for item in browser.list()])
        self.assertEqual(b"", browser.download(2))
        self.assertEqual(200, browser.received(2))
        self.assertEqual(STORED, browser.phase)
        inviting = anna.wait_for("inviting")
        self.assertEqual(("web", "new", "127.0.0.1"), (inviting["protocol"], inviting["trust"], inviting["address"]))
        self.assertEqual(browser.code.replace(" ", ""), anna.wait_for("short_code")["code"].replace(" ", ""))
        self.assertEqual("completed", anna.wait_for("finished")["outcome"])
        self.assertEqual(0, anna.end())
        history = self.anna.run("history", "--json").stdout.decode()
        self.assertIn("a browser at 127.0.0.1", history)

    @unittest.skipUnless(has_namespaces(), "hiding a library needs root")
    def test_without_the_library_the_address_is_shown_and_links_are_left_out_without_advice(self):
        self.file("trip/a.txt", 10)
        os.symlink("a.txt", self.place / "source/trip/link")
        self.anna.hide("libqrencode.so.4")
        anna = self.anna.start("send", "--qr", "--accept", "all", self.place / "source/trip")
        wait_until(lambda: any("HTTP://" in line for line in list(anna.errors)), "the address")
        text = "".join(anna.errors)
        self.assertIn("the QR code is not shown: libqrencode is not available", text)
        self.assertIn("open this address with a phone on the same network: HTTP://", text)
        self.assertNotIn("scan the code", text)
        self.assertIn("link: a symbolic link\n", text)
        url = text[text.index("HTTP://") :].split()[0]
        browser = self.accepted(url)
        browser.download(1)
        self.assertEqual(200, browser.received(1))
        self.assertEqual(0, anna.end())

    def test_a_text_is_received(self):
        anna, url = self.page("--text", "see you at 8 ✓")
        browser = self.accepted(url)
        [(kind, _, name, *_)] = browser.list()
        self.assertEqual((2, "message.txt"), (kind, name))
        self.assertEqual("see you at 8 ✓", browser.download(1).decode())
        self.assertEqual(200, browser.received(1))
        self.assertEqual(0, anna.end())

    def test_standard_input_is_received_by_one_browser(self):
        content = self.random.randbytes(2 * CHUNK)
        anna, url = self.page("-", "--as", "notes.txt", stdin=subprocess.PIPE)
        browser = self.accepted(url)
        writing = threading.Thread(target=lambda: (anna.process.stdin.buffer.write(content), anna.process.stdin.close()))
        writing.start()
        self.assertEqual([("notes.txt", 2**64 - 1)], [item[2:5:2] for item in browser.list()])
        self.assertEqual(content, browser.download(1))
        writing.join()
        other = self.browser(url)
        self.assertEqual(200, other.ask())
        self.assertEqual(DECLINED, other.wait(DECLINED))
        self.assertEqual(200, browser.received(1))
        self.assertEqual(0, anna.end())

    def test_a_folder_is_an_archive(self):
        contents = {"a.txt": b"a" * 1000, "sub/grüße.bin": self.random.randbytes(CHUNK), "sub/empty": b""}
        for name, content in contents.items():
            self.file(f"trip/{name}", 0).write_bytes(content)
        os.utime(self.place / "source/trip/a.txt", (1_700_000_000, 1_700_000_000))
        os.symlink("a.txt", self.place / "source/trip/link")
        anna, url = self.page(self.place / "source/trip")
        browser = self.accepted(url)
        [(_, _, name, type, size, _)] = browser.list()
        self.assertEqual(("trip.zip", "application/zip"), (name, type))
        archive = browser.download(1)
        self.assertEqual(size, len(archive))
        self.assertNotIn("without encryption", "".join(anna.errors))
        with zipfile.ZipFile(io.BytesIO(archive)) as files:
            self.assertIsNone(files.testzip())
            found = {info.filename: files.read(info) for info in files.infolist() if not info.is_dir()}
            self.assertEqual((2023, 11, 14, 22, 13, 20), files.getinfo("trip/a.txt").date_time)
        self.assertEqual({f"trip/{name}": content for name, content in contents.items()}, found)
        self.assertEqual(200, browser.received(1))
        self.assertEqual(0, anna.end())

    def test_an_archive_of_more_than_4_GiB_is_whole(self):
        # ZIP64 by another implementation: a size, and the place of a second file, beyond 32 bits.
        size, last = (1 << 32) + 12345, self.random.randbytes(1000)
        with open(self.file("trip/large.bin", 5000), "r+b") as file:
            file.truncate(size - len(last))
            file.seek(0, os.SEEK_END)
            file.write(last)
        # Files are archived in the order of their names.
        self.file("trip/next.txt", 3000)
        anna, url = self.page(self.place / "source/trip")
        browser = self.accepted(url)
        [(*_, total, direct)] = browser.list()
        answer = http.client.HTTPConnection(browser.host, browser.port, timeout=60)
        self.addCleanup(answer.close)
        answer.request("GET", f"{browser.path}/f/{direct}", headers={"Host": f"{browser.host}:{browser.port}"})
        body = answer.getresponse()
        self.assertEqual((200, str(total)), (body.status, body.getheader("Content-Length")))
        path, zeros = self.place / "trip.zip", bytes(1 << 20)
        with open(path, "wb") as archive:
            while block := body.read(1 << 20):
                # A hole takes no place on the disk.
                archive.seek(len(block), os.SEEK_CUR) if block == zeros else archive.write(block)
        self.assertEqual(total, path.stat().st_size)
        with zipfile.ZipFile(path) as archive:
            self.assertEqual([size, 3000], [info.file_size for info in archive.infolist() if not info.is_dir()])
            self.assertGreater(archive.getinfo("trip/next.txt").header_offset, 1 << 32)
            self.assertIsNone(archive.testzip())
            self.assertEqual((self.place / "source/trip/next.txt").read_bytes(), archive.read("trip/next.txt"))
            with archive.open("trip/large.bin") as large:
                large.seek(size - len(last))
                self.assertEqual(last, large.read())
        answer.close()
        self.assertEqual("completed", anna.wait_for("finished")["outcome"])

    def test_many_files_are_one_archive(self):
        files = [self.file(f"{number}.txt", number) for number in range(101)]
        _, url = self.page(*files)
        browser = self.accepted(url)
        self.assertEqual(["nearshare.zip"], [item[2] for item in browser.list()])
        with zipfile.ZipFile(io.BytesIO(browser.download(1))) as archive:
            self.assertEqual({path.name: path.read_bytes() for path in files}, {n: archive.read(n) for n in archive.namelist()})

    def test_two_browsers_receive_at_once_and_keep_goes_on(self):
        path = self.file("a.bin", 2 * CHUNK)
        anna, url = self.page("--keep", path)
        first, second = self.accepted(url), self.accepted(url)
        for browser in (first, second):
            self.assertEqual(path.read_bytes(), browser.download(1))
            self.assertEqual(200, browser.received(1))
            self.assertEqual("completed", anna.wait_for("finished")["outcome"])
        # The same browser again.
        self.assertEqual(200, first.ask())
        self.assertEqual(SENDING, first.wait(SENDING))
        anna.signal(signal.SIGINT)
        self.assertEqual(130, anna.end())

    def test_the_user_compares_the_code_once(self):
        path = self.file("a.bin", 100)
        command = self.anna.command("send", "--qr", "--keep", path)
        terminal = Terminal(self.anna, *command, columns=80, rows=24, variables={"LC_ALL": "C.UTF-8"})
        self.addCleanup(terminal.close)
        url = terminal.wait_for(r"█[\s\S]*?(HTTP://[0-9.:]+/[A-Z2-7]{8}#[A-Z2-7]{26})")[1]
        browser = self.browser(url)
        self.assertEqual(200, browser.ask())
        terminal.wait_for(rf"{browser.code}[\s\S]*send it\?")
        self.assertEqual(409, browser.fetch(1, 0)[0])
        terminal.press("y\r")
        self.assertEqual(SENDING, browser.wait(SENDING))
        self.assertEqual(path.read_bytes(), browser.download(1))
        self.assertEqual(200, browser.received(1))
        # Accepted once, it is not asked about again.
        self.assertEqual(200, browser.ask())
        self.assertEqual(SENDING, browser.wait(SENDING))
        other = self.browser(url)
        self.assertEqual(200, other.ask())
        terminal.wait_for(rf"{other.code}[\s\S]*send it\?")
        terminal.press("n\r")
        self.assertEqual(DECLINED, other.wait(DECLINED))
        terminal.press("\x03")
        self.assertEqual(130, terminal.end())

    def test_A8_a_cancel_of_either_side_ends_the_transfer(self):
        anna, url = self.page("--keep", self.file("a.bin", 2 * CHUNK))
        browser = self.accepted(url)
        self.assertEqual(200, browser.fetch(1, 0)[0])
        self.assertEqual(200, browser.cancel())
        self.assertEqual("cancelled", anna.wait_for("finished")["outcome"])
        self.assertEqual(409, browser.fetch(1, 1)[0])
        self.assertEqual(200, browser.ask())
        self.assertEqual(SENDING, browser.wait(SENDING))
        # The browser hears of the end while it waits for a change.
        anna.signal(signal.SIGINT)
        self.assertEqual(CANCELLED, browser.wait(CANCELLED, EXPIRED))
        self.assertEqual(130, anna.end())

    def test_A10_a_file_that_has_changed_ends_the_transfer(self):
        path = self.file("a.bin", 2 * CHUNK)
        anna, url = self.page(path)
        browser = self.accepted(url)
        self.assertEqual(200, browser.fetch(1, 0)[0])
        path.write_bytes(b"short")
        self.assertEqual(409, browser.fetch(1, 1)[0])
        self.assertEqual("failed", anna.wait_for("finished")["outcome"])
        self.assertEqual(FAILED, browser.wait(FAILED))
        anna.signal(signal.SIGINT)

    def test_a_large_file_is_received_directly_in_parts(self):
        path = self.large()
        content = path.read_bytes()
        anna, url = self.page(path)
        browser = self.accepted(url)
        direct = f"{browser.path}/f/{browser.list()[0][5]}"
        status, head = browser.request("GET", direct, fields={"Range": f"bytes=0-{CHUNK - 1}"})
        self.assertEqual((206, content[:CHUNK]), (status, head))
        browser.close()
        self.assertEqual((206, content[-5:]), browser.request("GET", direct, fields={"Range": "bytes=-5"}))
        browser.close()
        self.assertFalse(browser.list()[0][1])
        self.assertEqual((206, content[CHUNK:]), browser.request("GET", direct, fields={"Range": f"bytes={CHUNK}-"}))
        browser.close()
        self.assertEqual("completed", anna.wait_for("finished")["outcome"])
        self.assertEqual(0, anna.end())
        # Once for all parts.
        self.assertEqual(1, "".join(anna.errors).count("downloaded without encryption; others on this network can read it"))

    def test_a_client_that_ends_its_side_early_has_not_received_what_it_has_not_read(self):
        path = self.large()
        content = path.read_bytes()
        anna, url = self.page(path)
        browser = self.accepted(url)
        direct = f"{browser.path}/f/{browser.list()[0][5]}"
        first = len(content) - 60_000
        self.assertEqual((206, content[:first]), browser.request("GET", direct, fields={"Range": f"bytes=0-{first - 1}"}))
        browser.close()
        with socket.socket() as link:
            # Too small for the rest, which stays in the buffer of the sender.
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            link.connect((browser.host, browser.port))
            fields = f"Host: {browser.host}:{browser.port}\r\nRange: bytes={first}-"
            link.sendall(f"GET {direct} HTTP/1.1\r\n{fields}\r\n\r\n".encode())
            link.shutdown(socket.SHUT_WR)
            # The answer has begun.
            self.assertEqual(b"H", link.recv(1, socket.MSG_PEEK))
            self.assertFalse(browser.list()[0][1])
            self.assertEqual((206, content[first:]), browser.request("GET", direct, fields={"Range": f"bytes={first}-"}))
            browser.close()
        self.assertEqual("completed", anna.wait_for("finished")["outcome"])
        self.assertEqual(0, anna.end())

    def test_N13_a_direct_path_serves_one_download_of_its_own_browser(self):
        path = self.large()
        anna, url = self.page("--keep", path)
        browser = self.accepted(url)
        direct = f"{browser.path}/f/{browser.list()[0][5]}"
        other = self.accepted(url)
        self.assertNotEqual(direct, f"{other.path}/f/{other.list()[0][5]}")
        # From another address of this machine.
        with socket.create_connection((browser.host, browser.port), source_address=("127.0.0.2", 0)) as link:
            link.sendall(f"GET {direct} HTTP/1.1\r\nHost: {browser.host}:{browser.port}\r\n\r\n".encode())
            self.assertTrue(link.recv(100).startswith(b"HTTP/1.1 403 "))
        self.assertEqual(410, browser.request("GET", f"{browser.path}/f/{'A' * 26}")[0])
        self.assertEqual(path.read_bytes(), browser.request("GET", direct)[1])
        browser.close()
        self.assertEqual("completed", anna.wait_for("finished")["outcome"])
        self.assertEqual((410, b""), browser.request("GET", direct))

    def test_N14_a_range_of_many_parts_and_one_that_does_not_exist_are_refused(self):
        path = self.large()
        _, url = self.page(path)
        browser = self.accepted(url)
        direct = f"{browser.path}/f/{browser.list()[0][5]}"
        for ranges in ("bytes=0-1,2-3", "bytes=" + ",".join(["0-"] * 100), f"bytes={path.stat().st_size}-", "bytes=-0"):
            self.assertEqual((416, b""), browser.request("GET", direct, fields={"Range": ranges}), ranges)
        # Another version is sent from its start.
        status, content = browser.request("GET", direct, fields={"Range": "bytes=5-", "If-Range": '"other"'})
        self.assertEqual((200, path.stat().st_size), (status, len(content)))

    def test_N19_content_that_was_not_fetched_was_not_received(self):
        content = self.file("a.bin", 2 * CHUNK)
        anna, url = self.page(content)
        browser = self.accepted(url)
        self.assertEqual(409, browser.received(1))
        self.assertEqual(200, browser.fetch(1, 1)[0])
        self.assertEqual(409, browser.received(1))
        self.assertEqual(content.read_bytes(), browser.download(1))
        self.assertEqual(200, browser.received(1))
        self.assertEqual("completed", anna.wait_for("finished")["outcome"])
        self.assertEqual(0, anna.end())

    def test_A1_nothing_is_sent_without_the_users_answer(self):
        result = self.anna.run("send", "--qr", "--json", self.file("a.bin", 10))
        self.assertCode(2, result)
        _, url = self.page("--keep", self.file("b.bin", 10))
        browser = self.browser(url)
        self.assertEqual(409, browser.fetch(0, 0)[0])
        self.assertEqual(409, browser.fetch(1, 0)[0])
        self.assertEqual(409, browser.received(1))
        self.assertEqual(409, browser.offer([(b"x", b"x", False)]))
        self.assertEqual(200, browser.ask())
        browser.wait(SENDING)
        # A record of another browser, and chunks that do not exist.
        other = self.browser(url)
        sealed = other.browser.encrypt(struct.pack(">III", 5, 1, 0), b"", None)
        self.assertEqual(403, browser.request("POST", f"{browser.path}/{browser.id}/d/1/0", sealed)[0])
        for item, index in ((2, 0), (1, 1), (0, 1), (2**32 - 1, 0), (1, 2**32 - 1)):
            self.assertEqual(409, browser.fetch(item, index)[0], (item, index))
        self.assertEqual(10, len(browser.download(1)))

    def test_R3_a_thousand_connections_leave_a_download_running(self):
        path = self.file("a.bin", 8 * CHUNK)
        _, url = self.page(path)
        browser = self.accepted(url)
        content = b""
        for index in range(8):
            for _ in range(125):
                address = (browser.host, browser.port)
                with contextlib.suppress(OSError), socket.create_connection(address, source_address=("127.0.0.9", 0)) as link:
                    link.sendall(b"GET /AAAAAAAA HTTP/1.1\r\nHost: x\r\n")
            # Idle connections give way to others; a page repeats what was lost.
            browser.close()
            status, chunk, _ = browser.fetch(1, index)
            self.assertEqual(200, status)
            content += chunk
        self.assertEqual(path.read_bytes(), content)

    def test_K13_a_guessed_key_begins_no_session(self):
        _, url = self.page(self.file("a.bin", 10))
        address, _ = url.split("#")
        for _ in range(20):
            browser = PageBrowser(f"{address}#{'A' * 26}")
            self.addCleanup(browser.close)
            self.assertEqual(403, browser.hello())
            self.assertEqual(410, browser.ask())
        self.accepted(url)
