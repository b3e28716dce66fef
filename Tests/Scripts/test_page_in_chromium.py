"""The page as a browser runs it: its cryptography against another implementation, and Chromium on another machine, for which
the page is no secure context."""

import contextlib
import ctypes
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest
import zipfile

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from harness import ROOT, TIMEOUT, MachinesInARow, Peer, Story, digest, has_namespaces
from page_browser import PageBrowser

PAGE = ROOT / "Sources/Protocols/NearshareWeb/page.html"
CHROMIUM = shutil.which("chromium")
# RFC 7748, section 5.2: private key, point and result; the second point has its unused bit set.
AGREEMENTS = [
    (
        "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
        "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
        "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
    ),
    (
        "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
        "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
        "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957",
    ),
    # Points of low order.
    ("a5" * 32, "00" * 32, "00" * 32),
    ("a5" * 32, "01" + "00" * 31, "00" * 32),
    ("a5" * 32, "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800", "00" * 32),
]
SIZES = [0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 255, 1000, 262144]


def script():
    return PAGE.read_text().split("<script>")[1].split("</script>")[0]


@unittest.skipUnless(shutil.which("node"), "needs node")
class PageScriptStory(unittest.TestCase):
    def test_the_cryptography_agrees_with_another_implementation(self):
        cases = []
        # Texts of ones make the limbs of Poly1305 as large as they get.
        for size in SIZES:
            for text in (os.urandom(size), b"\xff" * size):
                key, nonce = os.urandom(32), os.urandom(12)
                sealed = ChaCha20Poly1305(key).encrypt(nonce, text, None)
                cases.append({"key": key.hex(), "nonce": nonce.hex(), "text": text.hex(), "sealed": sealed.hex()})
        agreements = list(AGREEMENTS)
        for _ in range(20):
            secret, other = X25519PrivateKey.generate(), X25519PrivateKey.generate().public_key()
            shared = secret.exchange(other)
            agreements.append((secret.private_bytes_raw().hex(), other.public_bytes_raw().hex(), shared.hex()))
        secret, node = X25519PrivateKey.generate(), X25519PrivateKey.generate()
        point, node_key = secret.public_key().public_bytes_raw(), node.public_key().public_bytes_raw()
        key, salt = hashlib.sha256(b"nearshare page key" + node_key).digest()[:16], os.urandom(16)
        shared = node.exchange(X25519PublicKey.from_public_bytes(point))
        keys = HKDF(SHA256(), 80, key, b"nearshare page 2" + point + node_key + salt).derive(shared)
        hello = HKDF(SHA256(), 32, point, b"nearshare page 2 hello").derive(key)
        digits = f"{int.from_bytes(keys[72:], 'big') % 10**8:08}"
        program = (
            script()
            + """
            const { cases, agreements, key, salt, secret, node } = JSON.parse(require("fs").readFileSync(0));
            const bytes = hex => Uint8Array.from(Buffer.from(hex, "hex")), hex = bytes => Buffer.from(bytes).toString("hex");
            const wrong = cases.filter(c => {
              const sealed = bytes(c.sealed), text = crypt.open(bytes(c.key), bytes(c.nonce), sealed);
              const isSealed = hex(crypt.seal(bytes(c.key), bytes(c.nonce), bytes(c.text))) === c.sealed;
              sealed[sealed.length - 1] ^= 1;
              return !isSealed || !text || hex(text) !== c.text || crypt.open(bytes(c.key), bytes(c.nonce), sealed);
            });
            const agreed = agreements.map(([secret, point]) => hex(crypt.x25519(bytes(secret), bytes(point))));
            const session = deriveSession(bytes(key), bytes(secret), bytes(node), bytes(salt));
            const others = ["09" + "00".repeat(31), "00".repeat(32)];
            console.log(JSON.stringify({
              agreed, others: others.map(other => deriveSession(bytes(key), bytes(secret), bytes(other), bytes(salt))),
              point: hex(publicKey(bytes(secret))), hello: hex(helloKey(bytes(key), publicKey(bytes(secret)))),
              wrong: wrong.length, code: session.code, id: session.id, server: hex(session.serverKey),
              decoded: hex(decodeKey("AUDAOCAJBIFQYDIOB4IBCEQTCQ")), short: shortName("ä".repeat(200) + ".jpeg"),
            }));"""
        )
        data = json.dumps(
            {
                "cases": cases,
                "agreements": agreements,
                "key": key.hex(),
                "salt": salt.hex(),
                "secret": secret.private_bytes_raw().hex(),
                "node": node_key.hex(),
            }
        )
        done = subprocess.run(["node", "-e", program], input=data, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(
            {
                "agreed": [shared for _, _, shared in agreements],
                "others": [None, None],
                "point": point.hex(),
                "hello": hello.hex(),
                "wrong": 0,
                "code": f"{digits[:4]} {digits[4:]}",
                "id": keys[64:72].hex(),
                "server": keys[32:64].hex(),
                "decoded": bytes(range(5, 21)).hex(),
                "short": "ä" * 125 + ".jpeg",
            },
            json.loads(done.stdout),
        )


@contextlib.contextmanager
def inside(namespace):
    """Moves this thread, and the processes that it starts, into a network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net", "rb") as before, open(f"/run/netns/{namespace}", "rb") as after:
        if libc.setns(after.fileno(), 0) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        try:
            yield
        finally:
            libc.setns(before.fileno(), 0)


class ChromiumMachines:
    """Anna's machine, and another one with Chromium."""

    def setUp(self):
        from playwright.sync_api import sync_playwright

        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.machines = stack.enter_context(MachinesInARow())
        super().setUp()
        stack.enter_context(inside(self.machines.names[1]))
        playwright = stack.enter_context(sync_playwright())
        self.chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        stack.callback(self.chromium.close)

    def people(self):
        self.anna = Peer(self.place / "anna", self.machines.names[0])
        self.ben = Peer(self.place / "ben", self.machines.names[1])

    def open(self, url, ready="#choose:not([hidden])", **options):
        page = self.chromium.new_context(**options).new_page()
        page.set_default_timeout(TIMEOUT * 1000)
        page.goto(url)
        page.wait_for_selector(ready)
        return page

    def assertStatus(self, page, kind, words):
        # The last answers before a cut may still arrive, and change it for a moment.
        page.locator(f"#status.{kind}", has_text=words).wait_for()


@unittest.skipUnless(has_namespaces() and CHROMIUM, "needs network namespaces and Chromium")
class ChromiumStory(ChromiumMachines, Story):
    def page(self, accept="all"):
        anna = self.anna.receive("--qr", accept=accept)
        return anna, anna.wait_for("page")["url"]

    def test_files_and_texts_arrive(self):
        anna, url = self.page()
        page = self.open(url, locale="en", viewport={"width": 360, "height": 740})
        self.assertFalse(page.evaluate("isSecureContext"))
        self.assertEqual("Send to anna", page.inner_text("h1"))
        files = [self.file("photo 1.jpg", 3_000_000), self.file("empty.txt", 0), self.file("b.bin", 262_144)]
        page.set_input_files("#files", files)
        self.assertStatus(page, "good", "Done. 3 items are stored on anna.")
        self.assertEqual({path.name: path.read_bytes() for path in files}, self.anna.received())
        page.fill("#text", "grüße")
        page.click("#sendtext")
        self.assertEqual("grüße", anna.wait_for("delivered", lambda event: event["kind"] == "text")["text"])
        # Nothing is wider than the screen.
        self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 360)

    def test_a_page_whose_session_was_forgotten_begins_another_one(self):
        _, url = self.page()
        page = self.open(url, locale="en")
        code = page.inner_text("#code")
        for _ in range(16):
            other = PageBrowser(url)
            self.assertEqual(200, other.hello())
            other.close()
        page.fill("#text", "grüße")
        page.click("#sendtext")
        self.assertStatus(page, "good", "Done. 1 item is stored on anna.")
        self.assertNotEqual(code, page.inner_text("#code"))

    def test_a_page_does_not_send_names_that_are_too_long_together(self):
        _, url = self.page()
        page = self.open(url, locale="en")
        names = [f"{number:03}" + "n" * 240 + ".txt" for number in range(1000)]
        files = [{"name": name, "mimeType": "application/octet-stream", "buffer": b""} for name in names]
        page.set_input_files("#files", files)
        self.assertStatus(page, "bad", "The names of these files are too long together. Send fewer at once.")

    def test_a_german_browser_reads_german_and_is_declined(self):
        _, url = self.page(accept="none")
        page = self.open(url, locale="de-DE", color_scheme="dark")
        page.fill("#text", "hallo")
        page.click("#sendtext")
        self.assertStatus(page, "bad", "anna hat abgelehnt.")

    def test_a_transfer_survives_a_cut_of_the_network(self):
        _, url = self.page()
        page = self.open(url, locale="en")
        self.machines.slow("20mbit")
        file = self.file("long.bin", 12_000_000)
        page.set_input_files("#files", file)
        page.wait_for_selector("#bar:not([hidden])")
        page.context.set_offline(True)
        self.assertStatus(page, "bad", "Connection lost.")
        self.machines.cut()
        page.context.set_offline(False)
        self.machines.mend()
        self.assertStatus(page, "good", "Done.")
        self.assertEqual({"long.bin": file.read_bytes()}, self.anna.received())

    def test_a_cancel_on_the_page_ends_the_transfer(self):
        anna, url = self.page()
        page = self.open(url, locale="en")
        self.machines.slow("10mbit")
        page.set_input_files("#files", self.file("long.bin", 12_000_000))
        page.wait_for_selector("#bar:not([hidden])")
        page.click("#cancel")
        self.assertStatus(page, "bad", "Cancelled.")
        self.assertEqual("cancelled", anna.wait_for("finished")["outcome"])
        self.assertEqual({}, self.anna.received())

    def test_the_page_says_that_it_has_ended(self):
        anna, url = self.page()
        page = self.open(url, locale="en")
        anna.process.kill()
        anna.end()
        page.fill("#text", "x")
        page.click("#sendtext")
        self.assertStatus(page, "bad", "Connection lost.")
        # Another run has another key and path.
        self.page()
        page.get_by_text("This page has ended.").wait_for()

    def test_an_upload_goes_on_after_the_page_was_loaded_again(self):
        anna, url = self.page()
        page = self.open(url, locale="en")
        code = page.inner_text("#code")
        self.machines.slow("20mbit")
        file = self.file("long.bin", 20_000_000)
        page.set_input_files("#files", file)
        # Some of it has arrived.
        page.locator("#status", has_text=re.compile(r": [1-9]\d %")).wait_for()
        page.on("dialog", lambda dialog: dialog.accept())
        page.reload()
        page.get_by_text("This was interrupted.").wait_for()
        self.assertEqual(code, page.inner_text("#code"))
        page.set_input_files("#files", self.file("other.bin", 10))
        self.assertStatus(page, "bad", "These are other files.")
        page.set_input_files("#files", file)
        page.locator("#status", has_text=re.compile(r": [1-9]\d %")).wait_for()
        self.assertStatus(page, "good", "Done.")
        self.assertEqual({"long.bin": file.read_bytes()}, self.anna.received())
        self.assertEqual(1, sum(event["event"] == "invitation" for event in anna.events))


@unittest.skipUnless(has_namespaces() and CHROMIUM, "needs network namespaces and Chromium")
class ChromiumDownloadStory(ChromiumMachines, Story):
    def page(self, *arguments):
        anna = self.anna.start("send", "--qr", "--json", "--accept", "all", *arguments)
        return anna, anna.wait_for("page")["url"]

    def test_photos_and_a_folder_are_saved(self):
        photos = [self.file("photo 1.jpg", 3_000_000), self.file("grüße.bin", 262_144), self.file("empty.txt", 0)]
        self.file("trip/a.txt", 1000)
        anna, url = self.page(*photos, self.place / "source/trip")
        saved = {}
        context = self.chromium.new_context(locale="en", viewport={"width": 360, "height": 740}, accept_downloads=True)
        page = context.new_page()
        page.set_default_timeout(TIMEOUT * 1000)
        page.on("download", lambda download: saved.__setitem__(download.suggested_filename, download))
        page.goto(url)
        self.assertStatus(page, "good", "Done. 4 items are saved.")
        self.assertTrue(page.inner_text("h1").startswith("From "))
        self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 360)
        for photo in photos:
            self.assertEqual(photo.read_bytes(), pathlib.Path(saved[photo.name].path()).read_bytes())
        with zipfile.ZipFile(saved["trip.zip"].path()) as archive:
            self.assertEqual((self.place / "source/trip/a.txt").read_bytes(), archive.read("trip/a.txt"))
        self.assertEqual(0, anna.end())

    def test_a_text_is_copied(self):
        anna, url = self.page("--text", "grüße <b>und</b> mehr")
        page = self.open(url, "textarea[readonly]", locale="de-DE", color_scheme="dark")
        self.assertEqual("grüße <b>und</b> mehr", page.input_value("textarea[readonly]"))
        page.get_by_text("Kopieren").click()
        page.get_by_text("Kopiert", exact=True).wait_for()
        self.assertEqual(0, anna.end())

    def test_a_download_survives_a_cut_of_the_network(self):
        file = self.file("long.bin", 6_000_000)
        anna, url = self.page(file)
        self.machines.slow("20mbit")
        page = self.open(url, "#bar:not([hidden])", locale="en")
        page.locator("#status", has_text=re.compile(r": [1-9]\d %")).wait_for()
        page.context.set_offline(True)
        self.assertStatus(page, "bad", "Connection lost.")
        self.machines.cut()
        self.machines.mend()
        with page.expect_download() as download:
            page.context.set_offline(False)
        self.assertStatus(page, "good", "Done.")
        self.assertEqual(file.read_bytes(), pathlib.Path(download.value.path()).read_bytes())
        self.assertEqual(0, anna.end())

    def test_a_page_that_was_loaded_again_goes_on(self):
        file = self.file("long.bin", 3_000_000)
        anna, url = self.page(file)
        self.machines.slow("20mbit")
        page = self.open(url, "#bar:not([hidden])", locale="en")
        code = page.inner_text("#code")
        page.on("dialog", lambda dialog: dialog.accept())
        with page.expect_download() as download:
            page.reload()
        self.assertStatus(page, "good", "Done.")
        self.assertEqual(code, page.inner_text("#code"))
        self.assertEqual(file.read_bytes(), pathlib.Path(download.value.path()).read_bytes())
        self.assertEqual(0, anna.end())
        self.assertEqual(1, sum(event["event"] == "inviting" for event in anna.events))

    def test_a_large_file_has_a_notice_and_a_direct_download(self):
        file = self.file("large.bin", 1000)
        with open(file, "r+b") as content:
            content.truncate(200_000_001)
        anna, url = self.page(file)
        page = self.open(url, "#items a.button", locale="en")
        page.get_by_text("can be read by others on this network").wait_for()
        with page.expect_download() as download:
            page.click("#items a.button")
        self.assertStatus(page, "good", "Done.")
        self.assertEqual(digest(file), digest(download.value.path()))
        self.assertEqual(0, anna.end())

    def test_a_large_file_is_received_encrypted_where_its_user_wants_that(self):
        file = self.file("large.bin", 1000)
        with open(file, "r+b") as content:
            content.truncate(200_000_001)
        anna, url = self.page(file)
        page = self.open(url, "#items a.button", locale="en")
        with page.expect_download() as download:
            page.get_by_text("Get it encrypted").click()
        self.assertStatus(page, "good", "Done.")
        self.assertEqual(digest(file), digest(download.value.path()))
        self.assertEqual(0, anna.end())

    def test_a_cancel_on_the_page_ends_the_transfer(self):
        anna, url = self.page(self.file("long.bin", 6_000_000))
        self.machines.slow("10mbit")
        page = self.open(url, "#bar:not([hidden])", locale="en")
        page.click("#cancel")
        self.assertStatus(page, "bad", "Cancelled.")
        self.assertEqual("cancelled", anna.wait_for("finished")["outcome"])
