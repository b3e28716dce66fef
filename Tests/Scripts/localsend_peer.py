"""A LocalSend device, written from the protocol's text (v2.1) and from what versions 1.17 and 1.18 check."""

import contextlib
import ctypes
import datetime
import hashlib
import http.client
import http.server
import json
import pathlib
import socket
import socketserver
import ssl
import struct
import threading
import urllib.parse

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

GROUP, PORT = "224.0.0.167", 53317
GROUP_6 = "ff12::fd3a:e420"
YEAR = datetime.timedelta(days=365)


class Certificate:
    """A certificate that its own key signs, in a file with the key."""

    def __init__(self, folder, begin=-YEAR, end=YEAR, signer=None):
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "LocalSend User")])
        now = datetime.datetime.now(datetime.UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + begin)
            .not_valid_after(now + end)
            .sign(signer or key, hashes.SHA256())
        )
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ) + certificate.public_bytes(serialization.Encoding.PEM)
        self.path = pathlib.Path(folder) / f"{certificate.serial_number:x}.pem"
        self.path.write_bytes(pem)
        self.fingerprint = hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()


class Fingerprint(Exception):
    """The other end is not the one that was found."""


class LocalSendPeer:
    """A sender. With a certificate it is 1.18, without one 1.17."""

    def __init__(self, address, certificate=None, pinned=None, alias="Nice Orange", source=None):
        (self.host, self.port), self.certificate, self.pinned, self.alias = address, certificate, pinned, alias
        self.source = source
        self.connections = []

    def context(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols(["http/1.1"])
        if self.certificate:
            context.load_cert_chain(self.certificate.path)
        return context

    def connect(self, context=None):
        """Connects, and compares the fingerprint before a request leaves."""
        link = socket.create_connection(
            (self.host, self.port), timeout=30, source_address=(self.source, 0) if self.source else None
        )
        stream = (context or self.context()).wrap_socket(link)
        seen = hashlib.sha256(stream.getpeercert(binary_form=True)).hexdigest()
        if self.pinned and seen != self.pinned.lower():
            stream.close()
            raise Fingerprint(seen)
        self.seen = seen
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        connection.sock = stream
        self.connections.append(connection)
        return connection

    def close(self):
        for connection in self.connections:
            connection.close()

    def request(self, path, body=b"", method="POST", headers=None, chunked=False, connection=None, **query):
        target = f"/api/localsend/{path}"
        if query:
            target += "?" + urllib.parse.urlencode(query)
        connection = connection or self.connect()
        if chunked:
            pieces = (body[i : i + 10_000] for i in range(0, len(body), 10_000))
            connection.request(method, target, body=pieces, headers=headers or {}, encode_chunked=True)
        else:
            connection.request(method, target, body=body, headers=headers or {})
        response = connection.getresponse()
        content = response.read()
        return response.status, json.loads(content) if content else None

    def device(self):
        return {
            "alias": self.alias,
            "version": "2.1",
            "deviceModel": "Test",
            "deviceType": "mobile",
            "fingerprint": (self.certificate.fingerprint if self.certificate else "0" * 64).upper(),
            "port": PORT,
            "protocol": "https",
            "download": False,
        }

    @staticmethod
    def file(identifier, name, content, **more):
        return {"id": identifier, "fileName": name, "size": len(content), "fileType": "application/octet-stream", **more}

    def offer(self, files, connection=None, **query):
        """Offers files, each a dictionary; waits for the answer."""
        body = json.dumps({"info": self.device(), "files": {file["id"]: file for file in files}}).encode()
        headers = {"Content-Type": "application/json"}
        return self.request("v2/prepare-upload", body, headers=headers, connection=connection, **query)

    def upload(self, answer, identifier, content, chunked=True, connection=None, **changes):
        query = {"sessionId": answer["sessionId"], "fileId": identifier, "token": answer["files"].get(identifier, "none")}
        query.update(changes)
        return self.request("v2/upload", content, chunked=chunked, connection=connection, **query)[0]

    def send(self, contents, chunked=True):
        """Sends files by name; returns the status of the offer and of each upload."""
        files = [self.file(f"f{i}", name, content) for i, (name, content) in enumerate(contents.items())]
        status, answer = self.offer(files)
        if status != 200:
            return [status]
        uploads = [self.upload(answer, f"f{i}", content, chunked) for i, content in enumerate(contents.values())]
        return [status, *uploads]


class Registry:
    """The server half of a device: it hears announcements and takes registrations."""

    def __init__(self, certificate):
        self.registered = []
        self.changed = threading.Condition()
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                shown = hashlib.sha256(self.connection.getpeercert(binary_form=True) or b"").hexdigest()
                with registry.changed:
                    registry.registered.append((self.path, body, shown))
                    registry.changed.notify_all()
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.path)
        self.server = http.server.ThreadingHTTPServer(("", 0), Handler)
        self.server.daemon_threads = True
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def wait(self, timeout=30):
        with self.changed:
            assert self.changed.wait_for(lambda: self.registered, timeout), "nobody has registered"
            return self.registered[0]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@contextlib.contextmanager
def group():
    """A socket in the group of LocalSend, over loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        link.bind(("", PORT))
        local = socket.inet_aton("127.0.0.1")
        link.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, struct.pack("4s4s", socket.inet_aton(GROUP), local))
        link.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, local)
        link.settimeout(30)
        yield link


def in_namespace(name, function):
    """Calls a function in a network namespace; its sockets, and those of the threads that it starts, belong to that."""
    result = []

    def enter():
        with open(f"/run/netns/{name}") as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0x40000000) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        result.append(function())

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    return result[0]


def group_6(interface):
    """A socket in the group of IPv6, on one interface."""
    link = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        link.setsockopt(socket.SOL_SOCKET, option, 1)
    link.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    link.bind(("::", PORT))
    index = socket.if_nametoindex(interface)
    membership = socket.inet_pton(socket.AF_INET6, GROUP_6) + struct.pack("@I", index)
    link.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, membership)
    link.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
    link.settimeout(30)
    return link


class Receiver:
    """A device that receives. With the certificate of its sender it demands that one, as 1.18 does; without, it asks for none,
    as 1.17. `answer` maps a path to a function of the query and the body, which returns a status and an object, or None for the
    usual one."""

    def __init__(
        self, certificate, client=None, alias="Nice Orange", protocol="HTTP/1.1", answer=None, host="127.0.0.1", port=0
    ):
        self.certificate, self.alias, self.answer = certificate, alias, answer or {}
        self.files, self.offers, self.requests, self.shown, self.links = {}, [], [], [], 0
        self.pending = {}
        self.changed = threading.Condition()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = protocol

            def setup(self):
                super().setup()
                receiver.links += 1

            def do_GET(self):
                self.serve()

            def do_POST(self):
                self.serve()

            def serve(self):
                url = urllib.parse.urlsplit(self.path)
                query = dict(urllib.parse.parse_qsl(url.query))
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                name = url.path.removeprefix("/api/localsend/")
                with receiver.changed:
                    receiver.requests.append((self.command, name, query))
                    receiver.shown.append(self.connection.getpeercert(binary_form=True))
                    receiver.changed.notify_all()
                special = receiver.answer.get(name)
                found = special(query, body) if special else None
                if isinstance(found, bytes):
                    self.wfile.write(found)
                    self.close_connection = True
                    return
                status, content = found or receiver.respond(name, query, body)
                data = json.dumps(content).encode() if content is not None else b""
                self.send_response(status)
                if status != 204:
                    self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.path)
        context.set_alpn_protocols(["http/1.1"])
        if client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=client)

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 32
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

            def server_bind(self):
                # Without the name of the host, which takes seconds where there is no DNS.
                socketserver.TCPServer.server_bind(self)
                self.server_name, self.server_port = host, self.server_address[1]

            def finish_request(self, request, address):
                # The handshake has failed, or the sender has gone.
                with contextlib.suppress(OSError), context.wrap_socket(request, server_side=True) as stream:
                    super().finish_request(stream, address)

        self.server = Server((host, port), Handler)
        self.port = self.server.server_port
        self.address = f"127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def device(self, **more):
        return {
            "alias": self.alias,
            "version": "2.1",
            "deviceModel": "Test",
            "deviceType": "mobile",
            "fingerprint": self.certificate.fingerprint.upper(),
            "port": self.port,
            "protocol": "https",
            "download": False,
            **more,
        }

    def respond(self, name, query, body):
        """The answer of a receiver whose user accepts everything."""
        if name in ("v2/info", "v2/register"):
            return 200, self.device()
        if name == "v2/prepare-upload":
            offer = json.loads(body)
            with self.changed:
                self.offers.append(offer)
                self.pending = {identifier: file for identifier, file in offer["files"].items()}
            if any("preview" in file for file in offer["files"].values()):
                return 204, None
            return 200, self.accept(offer)
        if name == "v2/upload":
            with self.changed:
                file = self.pending.get(query["fileId"])
                if not file or query["sessionId"] != "the session" or query["token"] != f"token & {query['fileId']}":
                    return 403, {"message": "Invalid token"}
                if len(body) != file["size"]:
                    return 500, {"message": "size"}
                del self.pending[query["fileId"]]
                self.files[file["fileName"]] = body
                return 200, None
        return (200, None) if name == "v2/cancel" else (404, None)

    @staticmethod
    def accept(offer, wanted=None):
        names = [identifier for identifier, file in offer["files"].items() if wanted is None or file["fileName"] in wanted]
        return {"sessionId": "the session", "files": {name: f"token & {name}" for name in names}}

    def paths(self):
        return [name for _, name, _ in self.requests]

    def wait_for(self, path, timeout=30):
        with self.changed:
            assert self.changed.wait_for(lambda: path in self.paths(), timeout), f"no {path}"

    def announce(self, **more):
        """Answers announcements in the group by its own, until the socket is closed."""
        link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            link.setsockopt(socket.SOL_SOCKET, option, 1)
        link.bind(("", PORT))
        local = socket.inet_aton("127.0.0.1")
        link.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, struct.pack("4s4s", socket.inet_aton(GROUP), local))
        link.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, local)
        link.settimeout(0.2)

        def listen():
            while not self.is_closed:
                try:
                    datagram, _ = link.recvfrom(4096)
                except TimeoutError:
                    continue
                if json.loads(datagram or b"{}").get("deviceModel") == "nearshare":
                    link.sendto(json.dumps(self.device(announce=False, **more)).encode(), (GROUP, PORT))
            link.close()

        threading.Thread(target=listen, daemon=True).start()

    is_closed = False

    def close(self):
        self.is_closed = True
        self.server.shutdown()
        self.server.server_close()
