"""A browser that has opened a page of nearshare, written from docs/PROTOCOL.md, section 15."""

import base64
import hashlib
import http.client
import os
import re
import struct

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

CHUNK = 256 * 1024
HELLO, MESSAGE, CONTENT, STATE, FETCH, SENT, NODE_KEY = range(1, 8)
IDLE, WAITING, RECEIVING, STORING, STORED, DECLINED, CANCELLED, FAILED, EXPIRED, SENDING, BUSY = range(11)


def nonce(kind, first, second):
    return struct.pack(">III", kind, first, second)


class PageBrowser:
    def __init__(self, url):
        scheme, host, port, path, key = re.fullmatch(r"(HTTP)://([^/]+):(\d+)/([A-Z2-7]{8})#([A-Z2-7]{26})", url).groups()
        self.host, self.port, self.path = host, int(port), f"/{path}"
        self.key = base64.b32decode(key + "======")
        self.secret = X25519PrivateKey.from_private_bytes(os.urandom(32))
        self.point = self.secret.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        # The session is unknown before a hello.
        self.id, self.browser = "0" * 16, ChaCha20Poly1305(bytes(32))
        self.last_message = 0
        self.connection = None

    def request(self, method, path, body=None, fields=None):
        """Returns the status and the body."""
        if self.connection is None:
            self.connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        fields = {"Host": f"{self.host}:{self.port}", "Accept": "*/*"} | (fields or {})
        try:
            self.connection.request(method, path, body, fields)
            answer = self.connection.getresponse()
            return answer.status, answer.read()
        except Exception:
            self.close()
            raise

    def close(self):
        if self.connection:
            self.connection.close()
            self.connection = None

    def send(self, kind, path, first, second, content=b"", prefix=b""):
        status, body = self.request("POST", path, prefix + self.browser.encrypt(nonce(kind, first, second), content, None))
        if status == 200:
            self.read(body)
        return status

    def read(self, record):
        state = self.server.decrypt(struct.pack(">I", STATE) + record[:8], record[8:], None)
        self.version, self.phase, self.offered, self.next, self.confirmed, self.gives = struct.unpack(">IBIIIB", state[:18])
        self.name = state[19 : 19 + state[18]].decode()

    def hello(self):
        hello = ChaCha20Poly1305(HKDF(SHA256(), 32, self.point, b"nearshare page 2 hello").derive(self.key))
        status, reply = self.request("POST", f"{self.path}/hello", self.point + hello.encrypt(nonce(HELLO, 0, 0), b"", None))
        if status == 200:
            self.derive(reply[:16], hello.decrypt(nonce(NODE_KEY, 0, 0), reply[16:64], None), self.point)
            self.read(reply[64:])
        return status

    def derive(self, salt, node, point):
        if hashlib.sha256(b"nearshare page key" + node).digest()[:16] != self.key:
            raise AssertionError("another node")
        shared = self.secret.exchange(X25519PublicKey.from_public_bytes(node))
        keys = HKDF(SHA256(), 80, self.key, b"nearshare page 2" + point + node + salt).derive(shared)
        self.node = node
        self.browser, self.server = ChaCha20Poly1305(keys[:32]), ChaCha20Poly1305(keys[32:64])
        self.id = keys[64:72].hex()
        digits = f"{int.from_bytes(keys[72:], 'big') % 10**8:08}"
        self.code = f"{digits[:4]} {digits[4:]}"

    def message(self, content):
        self.last_message += 1
        prefix = struct.pack(">I", self.last_message)
        return self.send(MESSAGE, f"{self.path}/{self.id}/m", 0, self.last_message, content, prefix)

    def offer(self, items):
        """Offers items: name, content, and whether it is a text."""
        encoded = b"".join(
            struct.pack(">BB", 2 if is_text else 0, len(name)) + name + b"\x00" + struct.pack(">QQ", len(content), 0)
            for name, content, is_text in items
        )
        return self.message(struct.pack(">BH", 1, len(items)) + encoded)

    def cancel(self):
        return self.message(b"\x02")

    def chunk(self, offer, index, content):
        return self.send(CONTENT, f"{self.path}/{self.id}/u/{offer}/{index}", offer, index, content)

    def sealed(self, offer, first, contents):
        """The body of a request with several chunks."""
        chunks = enumerate(contents, first)
        return b"".join(self.browser.encrypt(nonce(CONTENT, offer, index), content, None) for index, content in chunks)

    def chunks(self, offer, first, contents):
        status, body = self.request("POST", f"{self.path}/{self.id}/u/{offer}/{first}", self.sealed(offer, first, contents))
        if status == 200:
            self.read(body)
        return status

    def ask(self):
        return self.message(b"\x03")

    def received(self, item):
        return self.message(struct.pack(">BI", 4, item))

    def fetch(self, item, index):
        """Returns the status, the content of a chunk, and whether it is the last one."""
        sealed = self.browser.encrypt(nonce(FETCH, item, index), b"", None)
        status, body = self.request("POST", f"{self.path}/{self.id}/d/{item}/{index}", sealed)
        if status != 200:
            return status, None, None
        content = self.server.decrypt(struct.pack(">I", SENT) + body[:8], body[8:], None)
        if content[:8] != struct.pack(">II", item, index):
            raise AssertionError("another chunk")
        return status, content[9:], content[8] == 1

    def list(self):
        """Returns the items: kind, whether it was received, name, media type, size and path of a direct download."""
        status, bytes, _ = self.fetch(0, 0)
        if status != 200:
            raise AssertionError(f"status {status}")
        items, at = [], 2
        for _ in range(struct.unpack(">H", bytes[:2])[0]):
            fields = [bytes[at], bytes[at + 1] == 1]
            at += 2
            for _ in range(2):
                fields.append(bytes[at + 1 : at + 1 + bytes[at]].decode())
                at += 1 + bytes[at]
            fields.append(struct.unpack(">Q", bytes[at : at + 8])[0])
            at += 8
            fields.append(bytes[at + 1 : at + 1 + bytes[at]].decode())
            at += 1 + bytes[at]
            items.append(tuple(fields))
        return items

    def download(self, item):
        content, index, is_last = b"", 0, False
        while not is_last:
            status, chunk, is_last = self.fetch(item, index)
            if status != 200:
                raise AssertionError(f"status {status}")
            content += chunk
            index += 1
        return content

    def wait(self, *phases):
        """Waits until the offer is in one of the phases."""
        while self.phase not in phases:
            status, body = self.request("GET", f"{self.path}/{self.id}/s/{self.version}")
            if status != 200:
                raise AssertionError(f"status {status}")
            self.read(body)
        return self.phase

    def upload(self, items):
        """Offers items and sends their content. Returns the phase in which that ends."""
        if self.offer(items) != 200:
            raise AssertionError("the offer is refused")
        offer = self.last_message
        if self.wait(RECEIVING, STORING, STORED, DECLINED, FAILED) == RECEIVING:
            content = b"".join(content for _, content, _ in items)
            for index in range(0, -(-len(content) // CHUNK)):
                status = self.chunk(offer, index, content[index * CHUNK : (index + 1) * CHUNK])
                if status != 200:
                    raise AssertionError(f"status {status}")
        return self.wait(STORED, DECLINED, CANCELLED, FAILED)
