"""An independent peer of bitchat's mesh, written from the bitchat specification alone; it shares no code with nearshare.

Links are TCP connections that carry the frames of bitchat_wire. Calls may come from any thread; what arrives, and
what becomes of what was sent, is told in `events`: dictionaries with the name of the event under "event". Peer ids
are hexadecimal everywhere outside of packets.
"""

import collections
import dataclasses
import heapq
import itertools
import math
import queue
import random
import secrets
import socket
import threading
import time
import uuid

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

import bitchat_wire as wire
from bitchat_noise import FIRST_LENGTH, SECOND_LENGTH, THIRD_LENGTH, Handshake, NoiseError
from bitchat_wire import Malformed, Packet

CAPABILITIES = wire.PRIVATE_MEDIA | wire.PRIVATE_MEDIA_RECEIPTS
ANDROID_CAPABILITIES = wire.PRIVATE_MEDIA

# Limits on state that untrusted peers can create.
MAX_LINKS, MAX_PEERS, MAX_EVENTS, MAX_STORED = 16, 256, 10_000, 200
MAX_SEEN, SEEN_SECONDS, MAX_SEEN_FRAGMENTS = 1_000, 300, 20_000
MAX_EARLY = 8
LINK_QUEUE, READ_SIZE = 1_024, 65_536
MAX_PLAINTEXT, MAX_FILE_PLAINTEXT = 65_535, 1_179_708
MAX_TEXT = 60_000

# Times in seconds, of the bitchat specification, sections 3, 4, 6.2, 8.2, 9.3 and 10.
CLOCK_WINDOW, MESSAGE_AGE = 120, 6 * 3600
INITIATOR_TIMEOUT, RESPONDER_TIMEOUT, STATE_TIMEOUT = 10, 20, 5
HANDSHAKES_A_MINUTE = 10
DELIVERY_TIMEOUT = 30
PACE = 0.020
SYNC_ANSWERS, SYNC_SECONDS = 8, 30
ANNOUNCE_ALONE, ANNOUNCE_CONNECTED, ANNOUNCE_SPREAD, ANNOUNCE_GAP = 4, 15, 4, 0.15
PREAMBLE_TIMEOUT = 10


class Timer(threading.Thread):
    """Runs actions at given times, one after the other."""

    def __init__(self):
        super().__init__(daemon=True)
        self.changed = threading.Condition()
        self.due, self.cancelled, self.order, self.closed = [], set(), itertools.count(), False

    def after(self, seconds, action):
        """Returns a number by which the action can be cancelled."""
        with self.changed:
            number = next(self.order)
            heapq.heappush(self.due, (time.monotonic() + seconds, number, action))
            self.changed.notify()
            return number

    def cancel(self, number):
        with self.changed:
            if any(number == each[1] for each in self.due):
                self.cancelled.add(number)

    def close(self):
        with self.changed:
            self.closed = True
            self.changed.notify()

    def run(self):
        while True:
            with self.changed:
                while not self.closed and not (self.due and self.due[0][0] <= time.monotonic()):
                    self.changed.wait(self.due[0][0] - time.monotonic() if self.due else None)
                if self.closed:
                    return
                _, number, action = heapq.heappop(self.due)
                if number in self.cancelled:
                    self.cancelled.remove(number)
                    continue
            action()


class Link:
    """One connection: a thread that reads frames from it, and one that writes them."""

    def __init__(self, peer, connection, preamble):
        self.peer, self.connection, self.preamble = peer, connection, preamble
        self.neighbour = None
        self.sync_requested = -math.inf
        self.outgoing = queue.Queue(LINK_QUEUE)
        self.threads = [threading.Thread(target=self._read, daemon=True), threading.Thread(target=self._write, daemon=True)]

    def start(self):
        # The reading one waits for the writing one at its end, so that one is there first.
        for thread in reversed(self.threads):
            thread.start()

    def send(self, frame):
        """Enqueues bytes; a link that does not take them as fast as they come is ended, as nothing may be reordered."""
        try:
            self.outgoing.put_nowait(frame)
        except queue.Full:
            self.end()

    def end(self):
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def close(self, timeout=2):
        """Writes what is enqueued, then ends the connection."""
        self._stop_writing()
        reading, writing = self.threads
        writing.join(timeout)
        self.end()
        reading.join(timeout)

    def _stop_writing(self):
        try:
            self.outgoing.put_nowait(None)
        except queue.Full:
            self.end()

    def _write(self):
        try:
            self.connection.sendall(self.preamble)
            while (frame := self.outgoing.get()) is not None:
                self.connection.sendall(frame)
        except OSError:
            self.end()

    def _expect_preamble(self):
        received = b""
        self.connection.settimeout(PREAMBLE_TIMEOUT)
        while len(received) < len(self.preamble):
            more = self.connection.recv(len(self.preamble) - len(received))
            if not more:
                return False
            received += more
        self.connection.settimeout(None)
        return received == self.preamble

    def _read(self):
        try:
            if not self._expect_preamble():
                self.peer._tell("preamble-refused")
                return
            self.peer._link_opened(self)
            framer = wire.StreamFramer()
            while chunk := self.connection.recv(READ_SIZE):
                frames, _, dropped = framer.feed(chunk)
                for frame in frames:
                    self.peer._frame_received(frame, self)
                if dropped:
                    self.peer._tell("stream-reset")
        except OSError:
            pass
        finally:
            self.peer._link_closed(self)
            self.end()
            self._stop_writing()
            self.threads[1].join()
            self.connection.close()


@dataclasses.dataclass
class Transfer:
    """An outgoing file; `id` is the transfer id of the bitchat specification, section 7.1."""

    id: str
    cancelled: threading.Event
    sent: int = 0
    total: int = 0


@dataclasses.dataclass
class Job:
    """What an outbox sends next: a payload for one peer, or a packet for all."""

    payload: bytes | None = None
    packet: Packet | None = None
    links: list | None = None
    transfer: Transfer | None = None
    max_fragments: int | None = None
    chunk: int = wire.CHUNK


class Remote:
    """The known state of another peer."""

    def __init__(self, identifier):
        self.id = identifier
        self.nickname = self.noise_key = self.signing_key = None
        self.is_present = self.key_is_proven = False
        self.capabilities = None
        self.initiator = self.responder = None
        self.began = 0
        self.handshakes = collections.deque(maxlen=HANDSHAKES_A_MINUTE)
        self.session = self.proven = None
        self.failures, self.early = 0, []
        self.acknowledged = collections.OrderedDict()
        self.sync_answers = collections.deque(maxlen=SYNC_ANSWERS)
        self.challenge = None
        self.outbox = None

    def forget_old_handshake(self):
        """Gives up a handshake that is not continued; the session before it, if any, is used again."""
        age = time.monotonic() - self.began
        if self.initiator and age > INITIATOR_TIMEOUT:
            self.initiator = None
        if self.responder and age > RESPONDER_TIMEOUT:
            self.responder, self.early = None, []

    @property
    def may_send(self):
        """While a new handshake is answered, the old session is for receiving only (bitchat specification, section
        8.2)."""
        self.forget_old_handshake()
        return self.session is not None and self.responder is None


class Outbox(threading.Thread):
    """Sends jobs in the order they came, each after the one before it is completely sent: a payload is encrypted when
    its turn comes, so counters are sent in order, also between files and messages (bitchat specification, section
    8.3). Without a remote it sends packets for everyone."""

    def __init__(self, peer, remote=None):
        super().__init__(daemon=True)
        self.peer, self.remote, self.jobs = peer, remote, collections.deque()
        self.start()

    def run(self):
        while True:
            with self.peer._changed:
                self.peer._changed.wait_for(lambda: self.jobs or self.peer.is_closed)
                if self.peer.is_closed:
                    return
                job = self.jobs.popleft()
            try:
                outcome = self._send(job)
            except Malformed as error:
                outcome = "failed", str(error)
            if job.transfer:
                with self.peer._changed:
                    self.peer._transfers.pop(job.transfer.id, None)
                self.peer._tell(
                    "file-" + outcome[0],
                    transfer=job.transfer.id,
                    sent=job.transfer.sent,
                    total=job.transfer.total,
                    **({"reason": outcome[1]} if outcome[1] else {}),
                )
            elif outcome[0] != "sent":
                self.peer._tell("undelivered", to=self.remote.id.hex() if self.remote else None, reason=outcome[1])

    def _send(self, job):
        if job.transfer and job.transfer.cancelled.is_set():
            return "cancelled", None
        if self.remote is None:
            return self._send_paced(job, job.packet, job.links, None)
        if not self._wait_for_session(job):
            return (
                ("cancelled", None) if job.transfer and job.transfer.cancelled.is_set() else ("failed", "no session was made")
            )
        if job.transfer and not self._wait_for_proof():
            return "failed", "the peer did not prove in this session that it takes private files"
        with self.peer._changed:
            if not self.remote.may_send:
                return "failed", "the session ended"
            session = self.remote.session
            packet = self.peer._seal(self.remote, job.payload)
            if not job.transfer:
                self.peer._send_frame(wire.link_frame(packet), self.peer._links_to(self.remote.id))
                return "sent", None
        return self._send_paced(job, packet, None, session)

    def _wait_for_session(self, job):
        deadline = time.monotonic() + DELIVERY_TIMEOUT
        with self.peer._changed:
            while not self.remote.may_send:
                left = deadline - time.monotonic()
                if left <= 0 or self.peer.is_closed or job.transfer and job.transfer.cancelled.is_set():
                    return False
                if not self.remote.initiator and not self.remote.responder:
                    self.peer._start_handshake(self.remote)
                self.peer._changed.wait(min(left, 0.5))
        return True

    def _wait_for_proof(self):
        with self.peer._changed:
            self.peer._changed.wait_for(lambda: self.remote.proven is not None or self.peer.is_closed, STATE_TIMEOUT)
            return bool((self.remote.proven or 0) & wire.PRIVATE_MEDIA)

    def _send_paced(self, job, packet, links, session):
        """Sends a packet, in fragments if it is a file or too large (bitchat specification, section 6.2)."""
        frame = wire.encode(packet, packet.type in wire.PADDED_TYPES, deflated=packet.deflated)
        if packet.type != wire.FILE_TRANSFER and len(frame) <= wire.FRAME_SIZE:
            self.peer._send_frame(frame, links or self.peer._links_to(packet.recipient))
            return "sent", None
        limit = job.max_fragments
        if limit is None:
            # A peer that proved exactly Android's capabilities takes no more, whatever it says.
            to_android = self.remote and self.remote.proven == ANDROID_CAPABILITIES
            limit = wire.ANDROID_MAX_FRAGMENTS if to_android else wire.MAX_FRAGMENTS
        pieces = wire.cut(packet, frame, secrets.token_bytes(8), chunk=job.chunk, limit=limit)
        stop = job.transfer.cancelled if job.transfer else threading.Event()
        if job.transfer:
            job.transfer.total = len(pieces)
            self.peer._tell("file-started", transfer=job.transfer.id, total=len(pieces))
        for number, piece in enumerate(pieces):
            if number and stop.wait(PACE):
                return "cancelled", None
            with self.peer._changed:
                if self.peer.is_closed or session and self.remote.session is not session:
                    return "failed", "the session ended"
                self.peer._send_frame(wire.encode(piece), links or self.peer._links_to(packet.recipient))
            if job.transfer:
                job.transfer.sent += 1
        return "sent", None


class BitchatPeer:
    """A node of the mesh: keys, links, sessions.

    With a `seed` the keys are always the same. `relays` is whether packets for others go on, `capabilities` what is
    announced and proved, `signs_noise` whether Noise packets are signed, as Android does and iOS does not. Without
    `states`, as older apps, it proves no capabilities in its sessions; `fragment_limit` is what it states there as the
    number of fragments that it reassembles. Without `acknowledges`, a test sends the receipts. `clock_error` is how far
    the clock of its packets is ahead, in seconds.
    """

    def __init__(
        self,
        nickname,
        seed=None,
        relays=True,
        capabilities=CAPABILITIES,
        signs_noise=True,
        states=True,
        fragment_limit=None,
        acknowledges=True,
        clock_error=0,
    ):
        self.clock_error = clock_error
        self.states, self.fragment_limit, self.acknowledges = states, fragment_limit, acknowledges
        self.nickname, self.relays, self.capabilities, self.signs_noise = nickname, relays, capabilities, signs_noise
        root = secrets.token_bytes(32) if seed is None else wire.sha256(repr(seed).encode())
        self.static = X25519PrivateKey.from_private_bytes(wire.sha256(b"noise", root))
        self.signing = Ed25519PrivateKey.from_private_bytes(wire.sha256(b"signing", root))
        self.noise_key, self.signing_key = wire.public_bytes(self.static), wire.public_bytes(self.signing)
        self.own_id = wire.peer_id(self.noise_key)
        self.events, self._taken = [], set()
        self.is_closed = False
        self._changed = threading.Condition(threading.RLock())
        self._links, self._remotes, self._transfers = [], {}, {}
        self._starting = set()
        self._listeners = []
        self._assembler = wire.Assembler()
        self._seen, self._seen_fragments = collections.OrderedDict(), collections.OrderedDict()
        self._stored = collections.OrderedDict()
        self._clock, self._announced = 0, -math.inf
        self._outbox = None
        self._random = random.Random(root)
        self._timer = Timer()
        self._timer.start()
        self._timer.after(ANNOUNCE_ALONE, self._announce_regularly)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def id(self):
        return self.own_id.hex()

    # Links.

    def listen(self, host="127.0.0.1", port=0, preamble=b""):
        """Accepts links; returns the address. Both ends send `preamble` first, and end the link if it is another."""
        listener = socket.create_server((host, port))
        self._listeners.append(listener)
        threading.Thread(target=self._accept, args=(listener, preamble), daemon=True).start()
        return listener.getsockname()[:2]

    def _accept(self, listener, preamble):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self.attach(connection, preamble)

    def connect(self, host, port, preamble=b"", timeout=10):
        connection = socket.create_connection((host, port), timeout)
        connection.settimeout(None)
        return self.attach(connection, preamble)

    def attach(self, connection, preamble=b""):
        """Makes a link of a connected stream socket."""
        if connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = Link(self, connection, preamble)
        with self._changed:
            if self.is_closed or len(self._links) + len(self._starting) >= MAX_LINKS:
                connection.close()
                return None
            self._starting.add(link)
            link.start()
            return link

    def _link_opened(self, link):
        with self._changed:
            self._starting.discard(link)
            self._links.append(link)
            self._send_announce([link])
            self._changed.notify_all()

    def _link_closed(self, link):
        with self._changed:
            self._starting.discard(link)
            if link in self._links:
                self._links.remove(link)
                self._tell("link-closed", peer=link.neighbour.hex() if link.neighbour else None)

    @property
    def links(self):
        with self._changed:
            return list(self._links)

    def _links_to(self, recipient):
        """The link to a neighbour, else all."""
        with self._changed:
            direct = [link for link in self._links if recipient is not None and link.neighbour == recipient]
            return direct[:1] or list(self._links)

    @staticmethod
    def _send_frame(frame, links):
        for link in links:
            link.send(frame)

    def send_frame(self, frame):
        """Sends any bytes on every link, for tests of untrusted input."""
        self._send_frame(frame, self.links)

    def close(self, leave=True):
        """Says goodbye, writes what is enqueued and ends the links."""
        with self._changed:
            if self.is_closed:
                return
            if leave:
                self.leave()
            self.is_closed = True
            links = self._links + list(self._starting)
            for transfer in self._transfers.values():
                transfer.cancelled.set()
            self._changed.notify_all()
        self._timer.close()
        for listener in self._listeners:
            # Closing alone does not wake a thread that accepts.
            try:
                listener.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            listener.close()
        for link in links:
            link.close()

    # Events.

    def _tell(self, name, /, **details):
        with self._changed:
            if len(self.events) < MAX_EVENTS:
                self.events.append({"event": name, **details})
            self._changed.notify_all()

    def wait_for(self, name, test=lambda event: True, timeout=30):
        """The first event of that name for which the test holds and that no call returned before."""

        def find():
            for number, event in enumerate(self.events):
                if event["event"] == name and number not in self._taken and test(event):
                    return number, event
            return None

        with self._changed:
            found = self._changed.wait_for(find, timeout)
            if not found:
                raise AssertionError(f"{self.nickname}: no event {name!r} within {timeout} s\n{self.story()}")
            self._taken.add(found[0])
            return found[1]

    def story(self):
        """The last events, with long content cut."""
        return "\n".join(
            str(
                {
                    key: value[:16].hex() + "..." if isinstance(value, bytes) and len(value) > 16 else value
                    for key, value in event.items()
                }
            )
            for event in self.events[-30:]
        )

    def wait_for_peer(self, nickname, timeout=30):
        """The id of a peer of that name whose announce was accepted and that has not left."""

        def find():
            return next(
                (remote.id.hex() for remote in self._remotes.values() if remote.is_present and remote.nickname == nickname),
                None,
            )

        with self._changed:
            found = self._changed.wait_for(find, timeout)
        if not found:
            raise AssertionError(f"{self.nickname}: no peer {nickname!r} within {timeout} s\n{self.story()}")
        return found

    def wait_for_file(self, timeout=30):
        return self.wait_for("file", timeout=timeout)

    def wait_for_message(self, timeout=30):
        return self.wait_for("message", timeout=timeout)

    def wait_for_receipt(self, message_id, kind="delivered", timeout=30):
        return self.wait_for(kind, lambda event: event["message_id"] == message_id, timeout)

    # Actions of the user.

    def send_public_message(self, content):
        if len(content) > MAX_TEXT:
            raise Malformed(f"more than {MAX_TEXT} characters")
        return self._send_public(wire.MESSAGE, content.encode())

    def send_public_file(self, name, content, mime=wire.OCTETS):
        """Returns the transfer id (bitchat specification, section 7.2)."""
        if not content:
            raise Malformed("an empty file is refused by iOS")
        encoded = wire.File(content, name, mime).encode()
        transfer = self._new_transfer(encoded)
        self._send_public(wire.FILE_TRANSFER, encoded, version=2, transfer=transfer)
        return transfer.id

    def _send_public(self, kind, payload, version=1, transfer=None):
        with self._changed:
            packet = self._packet(kind, payload, version=version)
            self._store(packet)
            self._enqueue_public(Job(packet=packet, transfer=transfer))
            return packet

    def send_private_message(self, peer_id, content, message_id=None):
        """Returns the message's id, by which `wait_for_receipt` knows it (bitchat specification, section 9.1)."""
        message_id = message_id or str(uuid.uuid4()).upper()
        body = wire.encode_private_message(message_id, content)
        self._enqueue(peer_id, Job(bytes([wire.PRIVATE_MESSAGE]) + body))
        return message_id

    def send_receipt(self, peer_id, message_id):
        self._enqueue(peer_id, Job(bytes([wire.DELIVERED]) + message_id.encode()))

    def send_read_receipt(self, peer_id, message_id):
        self._enqueue(peer_id, Job(bytes([wire.READ]) + message_id.encode()))

    def send_payload(self, peer_id, payload):
        """Any Noise payload."""
        self._enqueue(peer_id, Job(payload))

    def send_private_file(self, peer_id, name, mime, content, max_fragments=None, chunk=wire.CHUNK):
        """Returns the transfer id; `file-sent`, `file-cancelled` or `file-failed` tells the end. Android takes at most
        256 fragments, iOS 10 000: without `max_fragments` the proven capabilities decide. A `chunk` larger than a radio's
        suits links that bear it."""
        if not content:
            raise Malformed("an empty file is refused by iOS")
        encoded = wire.File(content, name, mime).encode()
        transfer = self._new_transfer(encoded)
        self._enqueue(
            peer_id, Job(bytes([wire.PRIVATE_FILE]) + encoded, transfer=transfer, max_fragments=max_fragments, chunk=chunk)
        )
        return transfer.id

    def _new_transfer(self, encoded):
        transfer = Transfer(wire.transfer_id(encoded), threading.Event())
        with self._changed:
            self._transfers[transfer.id] = transfer
        return transfer

    def cancel_file(self, transfer):
        """Stops sending: bitchat has no word for it, the receiver's fragments expire."""
        with self._changed:
            if transfer in self._transfers:
                self._transfers[transfer].cancelled.set()
                self._changed.notify_all()

    def handshake(self, peer_id):
        """Starts a new handshake, also if there is a session."""
        with self._changed:
            self._start_handshake(self._remotes[bytes.fromhex(peer_id)])

    def verify(self, peer_id):
        """Challenges a peer to show its signing key; `verified` tells the outcome (bitchat specification, section
        9.4)."""
        with self._changed:
            remote = self._remotes[bytes.fromhex(peer_id)]
            remote.challenge = secrets.token_bytes(wire.NONCE_LENGTH)
            body = wire.encode_verification(remote.noise_key, remote.challenge)
        self._enqueue(peer_id, Job(bytes([wire.VERIFY_CHALLENGE]) + body))

    def request_sync(self, peer_id, types=wire.SYNC_ANNOUNCE | wire.SYNC_MESSAGE):
        """Asks a neighbour for what we lack (bitchat specification, section 10). The filter is sharper than that of a phone,
        where each item hides one packet in 128 by chance until the next request."""
        neighbour = bytes.fromhex(peer_id)
        with self._changed:
            ids = [key for key, packet in reversed(self._stored.items()) if wire.SYNC_BITS[packet.type] & types]
            request = wire.SyncRequest(wire.SyncFilter.of(ids, rate=2**-20), types)
            packet = self._packet(wire.REQUEST_SYNC, request.encode(), neighbour, ttl=0)
            for link in self._links:
                if link.neighbour == neighbour:
                    link.sync_requested = time.monotonic()
                    link.send(wire.encode(packet))

    def announce(self, links=None):
        with self._changed:
            self._send_announce(links)

    def leave(self):
        with self._changed:
            self._send_frame(wire.encode(self._packet(wire.LEAVE, b"")), self._links)

    # Sending.

    def _timestamp(self):
        """Milliseconds, strictly increasing: Android's duplicate key lacks the type (bitchat specification, section
        5.4)."""
        self._clock = max(int((time.time() + self.clock_error) * 1000), self._clock + 1)
        return self._clock

    def _packet(self, kind, payload, recipient=None, version=1, ttl=wire.MAX_TTL, signed=True):
        packet = Packet(kind, self.own_id, self._timestamp(), payload, ttl, version, recipient)
        return wire.sign(packet, self.signing) if signed else packet

    def _enqueue(self, peer_id, job):
        with self._changed:
            remote = self._remotes.get(bytes.fromhex(peer_id))
            if remote is None:
                raise AssertionError(f"{self.nickname} knows no peer {peer_id}")
            if remote.outbox is None:
                remote.outbox = Outbox(self, remote)
            remote.outbox.jobs.append(job)
            self._changed.notify_all()

    def _enqueue_public(self, job):
        if self._outbox is None:
            self._outbox = Outbox(self)
        self._outbox.jobs.append(job)
        self._changed.notify_all()

    def _seal(self, remote, payload):
        """A packet of type 0x11; the caller sends it before anything else is sealed. A file's is of version 2."""
        version = 2 if payload[0] == wire.PRIVATE_FILE else 1
        sealed = remote.session.seal(payload)
        return self._packet(wire.NOISE_ENCRYPTED, sealed, remote.id, version, signed=self.signs_noise)

    def _send_announce(self, links=None):
        neighbours = {link.neighbour: None for link in self._links if link.neighbour}
        payload = wire.Announce(self.nickname, self.noise_key, self.signing_key, list(neighbours), self.capabilities).encode()
        packet = self._packet(wire.ANNOUNCE, payload)
        self._store(packet)
        self._announced = time.monotonic()
        self._send_frame(wire.encode(packet), self._links if links is None else links)

    def _announce_regularly(self):
        with self._changed:
            if self.is_closed:
                return
            self._send_announce()
            alone = not any(link.neighbour for link in self._links)
        pause = ANNOUNCE_ALONE if alone else ANNOUNCE_CONNECTED + self._random.uniform(-ANNOUNCE_SPREAD, ANNOUNCE_SPREAD)
        self._timer.after(pause, self._announce_regularly)

    # Receiving.

    def _remote(self, identifier):
        """The entry of a peer; one that never announced itself gives way when there are too many."""
        if identifier not in self._remotes:
            if len(self._remotes) >= MAX_PEERS:
                spare = next((key for key, each in self._remotes.items() if not each.is_present and not each.outbox), None)
                if spare is None:
                    return None
                del self._remotes[spare]
            self._remotes[identifier] = Remote(identifier)
        return self._remotes[identifier]

    def _frame_received(self, frame, link):
        try:
            packet = wire.decode(frame)
        except Malformed as error:
            self._tell("malformed", reason=str(error))
            return
        with self._changed:
            if not self.is_closed:
                self._receive(packet, frame, link)

    def _receive(self, packet, frame, link):
        """One packet from a link, or without a frame one put together from fragments."""
        if packet.sender == self.own_id or not self._is_timely(packet, link):
            return
        is_duplicate = self._is_duplicate(packet)
        # A copy on a longer way may have been faster than the announce that tells who is at the end of this link; and
        # a fragment may be of a frame that is sent once more.
        names_link = packet.type == wire.ANNOUNCE and packet.ttl == wire.MAX_TTL and not link.neighbour
        if is_duplicate and not names_link and packet.type != wire.FRAGMENT:
            return
        try:
            if packet.recipient == self.own_id or not packet.is_directed:
                self._handle(packet, link)
        except Malformed as error:
            self._tell("malformed", type=packet.type, reason=str(error))
        if frame is not None and not is_duplicate and self.relays and packet.recipient != self.own_id:
            self._relay(packet, frame, link)

    def _is_timely(self, packet, link):
        """The checks of iOS (bitchat specification, section 3)."""
        age = time.time() - packet.timestamp / 1000
        if not packet.is_rsr:
            return abs(age) <= CLOCK_WINDOW
        if time.monotonic() - link.sync_requested > SYNC_SECONDS:
            return False
        return age <= (MESSAGE_AGE if packet.type == wire.MESSAGE else wire.ANNOUNCE_AGE / 1000)

    def _is_duplicate(self, packet):
        """By the key of iOS (bitchat specification, section 5.4). Fragments, of which there are many, are remembered
        apart, and only so that relays do not send them in circles."""
        now, key = time.monotonic(), wire.duplicate_key(packet)
        seen, limit = (self._seen_fragments, MAX_SEEN_FRAGMENTS) if packet.type == wire.FRAGMENT else (self._seen, MAX_SEEN)
        if key in seen and now - seen[key][0] <= SEEN_SECONDS:
            pending = seen[key][1]
            # Another peer has relayed it already; that is enough where there are more than two peers.
            if pending is not None and self._degree > 2:
                self._timer.cancel(pending)
            return True
        seen.pop(key, None)
        seen[key] = (now, None)
        while len(seen) > limit:
            seen.popitem(last=False)
        return False

    @property
    def _degree(self):
        """How many neighbours there are."""
        return len({link.neighbour for link in self._links if link.neighbour})

    def _handle(self, packet, link):
        handlers = {
            wire.ANNOUNCE: self._announce_received,
            wire.MESSAGE: self._message_received,
            wire.LEAVE: self._leave_received,
            wire.FRAGMENT: self._fragment_received,
            wire.FILE_TRANSFER: self._file_received,
            wire.REQUEST_SYNC: self._sync_request_received,
            wire.NOISE_HANDSHAKE: self._handshake_received,
            wire.NOISE_ENCRYPTED: self._encrypted_received,
        }
        if packet.type in handlers:
            handlers[packet.type](packet, link)

    def _signer(self, packet):
        """Returns the signer of a packet, whose announce must have been accepted before (bitchat specification, section 4)."""
        remote = self._remotes.get(packet.sender)
        known = remote is not None and remote.signing_key is not None
        return remote if known and wire.is_signed_by(packet, remote.signing_key) else None

    def _announce_received(self, packet, link):
        announce = wire.Announce.decode(packet.payload)
        refusal = wire.announce_refusal(announce, packet.sender, packet.timestamp, self.own_id, int(time.time() * 1000))
        if refusal is None and not wire.is_signed_by(packet, announce.signing_key):
            refusal = "badSignature"
        remote = None if refusal else self._remote(packet.sender)
        if remote is None:
            self._tell("announce-refused", reason=refusal or "tooManyPeers", peer=packet.sender.hex())
            return
        # The first accepted key stays, unless another one is proved inside Noise.
        if remote.signing_key not in (None, announce.signing_key):
            self._tell("announce-refused", reason="anotherSigningKey", peer=packet.sender.hex())
            return
        is_new = not remote.is_present
        remote.nickname, remote.noise_key, remote.signing_key = (announce.nickname, announce.noise_key, announce.signing_key)
        remote.capabilities, remote.is_present = announce.capabilities, True
        if packet.ttl == wire.MAX_TTL and link.neighbour is None:
            link.neighbour = packet.sender
        self._store(packet)
        if is_new:
            self._tell("peer", peer=remote.id.hex(), nickname=remote.nickname, capabilities=remote.capabilities)
            # Every new peer needs ours before anything else of ours is believed.
            if time.monotonic() - self._announced > ANNOUNCE_GAP:
                self._send_announce()
            else:
                self._timer.after(ANNOUNCE_GAP, self.announce)
        self._changed.notify_all()

    def _message_received(self, packet, _):
        if self._signer(packet):
            content = wire.text(packet.payload)
            self._store(packet)
            self._tell(
                "public-message",
                peer=packet.sender.hex(),
                text=content,
                message_id=wire.public_message_id(packet.sender, packet.timestamp, content),
            )

    def _leave_received(self, packet, _):
        remote = self._signer(packet)
        if remote and not packet.payload.startswith(b"#"):
            remote.is_present = False
            self._tell("left", peer=packet.sender.hex())

    def _fragment_received(self, packet, link):
        verdict, frame = self._assembler.add(packet.sender, packet.payload, time.monotonic())
        if verdict in ("invalid_header", "oversized"):
            self._tell("fragment-refused", reason=verdict, peer=packet.sender.hex())
        if frame is None:
            return
        inner = wire.decode_reassembled(frame)
        if inner.type == wire.FRAGMENT:
            raise Malformed("a fragment within fragments")
        self._receive(dataclasses.replace(inner, ttl=0), None, link)

    def _file_received(self, packet, _):
        if self._signer(packet):
            file = wire.File.decode(packet.payload)
            self._store(packet)
            self._tell_file(packet, file, is_private=False)

    def _tell_file(self, packet, file, is_private):
        self._tell(
            "file",
            peer=packet.sender.hex(),
            name=file.name,
            mime=file.mime,
            content=file.content,
            private=is_private,
            ios_refusal=wire.ios_refusal(file),
        )

    # Noise.

    def _send_handshake(self, remote, message):
        packet = self._packet(wire.NOISE_HANDSHAKE, message, remote.id, signed=self.signs_noise)
        self._send_frame(wire.link_frame(packet), self._links_to(remote.id))

    def _may_shake_hands(self, remote):
        """At most ten handshakes a minute with one peer (bitchat specification, section 8.2)."""
        now = time.monotonic()
        if len(remote.handshakes) == HANDSHAKES_A_MINUTE and now - remote.handshakes[0] < 60:
            return False
        remote.handshakes.append(now)
        remote.began = now
        return True

    def _start_handshake(self, remote):
        remote.forget_old_handshake()
        if remote.initiator or remote.responder or not self._may_shake_hands(remote):
            return
        remote.initiator = Handshake(True, self.static)
        self._send_handshake(remote, remote.initiator.write_first())

    def _handshake_received(self, packet, _):
        if packet.recipient != self.own_id or (remote := self._remote(packet.sender)) is None:
            return
        remote.forget_old_handshake()
        message = packet.payload
        if len(message) == SECOND_LENGTH and remote.initiator:
            # Whatever comes of it, a handshake reads only one second message.
            handshake, remote.initiator = remote.initiator, None
            handshake.read_second(message)
            self._check_static(remote, handshake)
            self._send_handshake(remote, handshake.write_third())
            self._established(remote, handshake)
        elif len(message) == THIRD_LENGTH and remote.responder:
            handshake, remote.responder = remote.responder, None
            handshake.read_third(message)
            self._check_static(remote, handshake)
            self._established(remote, handshake)
        elif FIRST_LENGTH <= len(message) < THIRD_LENGTH:
            # Both have started a handshake: the lower id stays the initiator.
            if remote.initiator and self.own_id < remote.id:
                return
            if self._may_shake_hands(remote):
                remote.initiator, remote.early = None, []
                handshake = Handshake(False, self.static)
                handshake.read_first(message)
                remote.responder = handshake
                self._send_handshake(remote, handshake.write_second())
        else:
            raise NoiseError(f"a handshake message of {len(message)} bytes is unexpected")

    @staticmethod
    def _check_static(remote, handshake):
        if wire.peer_id(handshake.their_static) != remote.id:
            raise NoiseError("the static key is another peer's")

    def _established(self, remote, handshake):
        remote.session, remote.proven, remote.failures = handshake.session(), None, 0
        remote.noise_key = remote.session.their_static
        self._tell("session", peer=remote.id.hex(), initiator=handshake.is_initiator)
        self._send_state(remote)
        early, remote.early = remote.early, []
        for packet in early:
            self._encrypted_received(packet, None)

    def _send_state(self, remote):
        """The first payload of a session; a private file is sent only to peers that have proved to accept it (bitchat
        specification, sections 7.2 and 9.3)."""
        if not self.states:
            return
        state = wire.encode_peer_state(self.capabilities, self.signing_key, self.fragment_limit)
        payload = bytes([wire.PEER_STATE]) + state
        self._send_frame(wire.link_frame(self._seal(remote, payload)), self._links_to(remote.id))

    def _encrypted_received(self, packet, _):
        if packet.recipient != self.own_id or (remote := self._remote(packet.sender)) is None:
            return
        try:
            if remote.session is None:
                raise NoiseError("there is no session")
            plaintext = remote.session.open(packet.payload)
        except NoiseError as error:
            self._undecryptable(remote, packet, error)
            return
        remote.failures = 0
        found = wire.split_payload(plaintext)
        if found is None:
            return
        kind, body = found
        if len(plaintext) > (MAX_FILE_PLAINTEXT if kind == wire.PRIVATE_FILE else MAX_PLAINTEXT):
            raise Malformed(f"a payload of {len(plaintext)} bytes")
        self._payload_received(remote, kind, body, packet)

    def _undecryptable(self, remote, packet, error):
        if remote.responder and len(packet.payload) <= 2048:
            # Relays wait for a random time, so a payload may overtake the third message of the handshake.
            remote.early = (remote.early + [packet])[-MAX_EARLY:]
            return
        self._tell("undecryptable", peer=remote.id.hex(), reason=str(error))
        remote.failures += 1
        if remote.is_present and (remote.session is None or remote.failures >= 3):
            remote.session, remote.failures = None, 0
            self._start_handshake(remote)

    def _payload_received(self, remote, kind, body, packet):
        peer = remote.id.hex()
        if kind == wire.PRIVATE_MESSAGE:
            message_id, content = wire.decode_private_message(body)
            self._acknowledge(remote, message_id)
            self._tell("message", peer=peer, message_id=message_id, text=content)
        elif kind in (wire.READ, wire.DELIVERED):
            self._tell("read" if kind == wire.READ else "delivered", peer=peer, message_id=wire.text(body))
        elif kind == wire.PRIVATE_FILE:
            file = wire.File.decode(body)
            stable_id = wire.private_media_id(remote.id, self.own_id, file.name or "")
            if stable_id and (remote.proven or 0) & wire.PRIVATE_MEDIA_RECEIPTS:
                self._acknowledge(remote, stable_id)
            self._tell_file(packet, file, is_private=True)
        elif kind == wire.PEER_STATE:
            capabilities, key = wire.decode_peer_state(body)
            # What is proved here outranks what was announced.
            remote.proven, remote.signing_key = capabilities, key
            self._tell("peer-state", peer=peer, capabilities=capabilities, fragment_limit=wire.fragment_limit(body))
        elif kind == wire.VERIFY_CHALLENGE:
            self._challenged(remote, body)
        elif kind == wire.VERIFY_RESPONSE:
            self._verified(remote, body)

    def _acknowledge(self, remote, message_id):
        """Once for each id (bitchat specification, section 9.2)."""
        if self.acknowledges and message_id not in remote.acknowledged:
            remote.acknowledged[message_id] = None
            while len(remote.acknowledged) > MAX_SEEN:
                remote.acknowledged.popitem(last=False)
            self._enqueue(remote.id.hex(), Job(bytes([wire.DELIVERED]) + message_id.encode()))

    def _challenged(self, remote, body):
        noise_key, nonce, _ = wire.decode_verification(body)
        if noise_key == self.noise_key:
            signature = self.signing.sign(wire.verification_preimage(noise_key, nonce))
            answer = wire.encode_verification(noise_key, nonce, signature)
            self._enqueue(remote.id.hex(), Job(bytes([wire.VERIFY_RESPONSE]) + answer))

    def _verified(self, remote, body):
        noise_key, nonce, signature = wire.decode_verification(body)
        expected, remote.challenge = remote.challenge, None
        try:
            if None in (expected, signature, remote.signing_key) or (noise_key, nonce) != (remote.noise_key, expected):
                raise InvalidSignature
            key = Ed25519PublicKey.from_public_bytes(remote.signing_key)
            key.verify(signature, wire.verification_preimage(noise_key, nonce))
            self._tell("verified", peer=remote.id.hex())
        except InvalidSignature:
            self._tell("not-verified", peer=remote.id.hex())

    # Gossip.

    def _store(self, packet):
        """Keeps a signed packet for those that ask for it; of announces only each sender's newest."""
        if packet.type == wire.ANNOUNCE:
            for key in [
                key for key, each in self._stored.items() if each.type == wire.ANNOUNCE and each.sender == packet.sender
            ]:
                del self._stored[key]
        self._stored[wire.gossip_id(packet)] = packet
        while len(self._stored) > MAX_STORED:
            self._stored.popitem(last=False)

    def _sync_request_received(self, packet, link):
        """Answers a neighbour with what it lacks, at most eight packets in 30 seconds."""
        remote = self._signer(packet)
        if remote is None or packet.ttl != 0 or link.neighbour != packet.sender:
            return
        request = wire.SyncRequest.decode(packet.payload)
        known, now = request.filter.values(), time.monotonic()
        # Announces first: what else is sent is not believed without them.
        for stored in sorted(self._stored.values(), key=lambda each: each.type != wire.ANNOUNCE):
            full = len(remote.sync_answers) == SYNC_ANSWERS and now - remote.sync_answers[0] < SYNC_SECONDS
            if not full and stored.sender != packet.sender and request.wants(stored, known):
                remote.sync_answers.append(now)
                answer = dataclasses.replace(stored, ttl=0, is_rsr=True)
                self._enqueue_public(Job(packet=answer, links=[link]))

    # Relaying.

    def _relay(self, packet, frame, link):
        """Sends a packet on, as iOS would (bitchat specification, sections 5.1 and 5.3)."""
        decision = wire.relay_decision(packet.type, packet.ttl, packet.recipient, self._degree)
        if decision is None:
            return
        changed = frame[:2] + bytes([decision.ttl]) + frame[3:]
        if packet.type in wire.PADDED_TYPES:
            changed = wire.pad(changed)
        routed = self._next_hop(packet) if packet.route and packet.is_directed else None
        if routed == []:
            return

        def send():
            with self._changed:
                others = [each for each in self._links if each is not link]
                targets = [each for each in routed or others if each in others]
                if not routed and not packet.is_directed and packet.type not in (wire.FRAGMENT, wire.ANNOUNCE):
                    targets = self._random.sample(targets, min(len(targets), (len(targets) - 1).bit_length() + 1))
                self._send_frame(changed, targets)

        number = self._timer.after(self._random.uniform(*decision.delay) / 1000, send)
        seen = self._seen_fragments if packet.type == wire.FRAGMENT else self._seen
        key = wire.duplicate_key(packet)
        if key in seen:
            seen[key] = (seen[key][0], number)

    def _next_hop(self, packet):
        """The link to the next hop of a source route; None where that is no neighbour, so that the packet floods, and
        nothing at all for a route in a circle."""
        route = packet.route
        if len(set(route)) < len(route):
            return []
        following = route[0]
        if self.own_id in route:
            position = route.index(self.own_id) + 1
            following = route[position] if position < len(route) else packet.recipient
        return [each for each in self._links if each.neighbour == following][:1] or None
