"""bitchat's service on an independent Bluetooth stack (Bumble), as central or peripheral.

BumbleRadio opens an HCI user channel and copies GATT values to and from `socket`, one SOCK_SEQPACKET packet per value.
`socket` is for BitchatPeer.attach().
"""

import asyncio
import os
import socket
import sys
import threading

sys.path.insert(0, os.environ.get("RADIO_PYTHON", ""))

from bumble.core import UUID, AdvertisingData  # noqa: E402
from bumble.device import Device, Peer  # noqa: E402
from bumble.gatt import Characteristic, CharacteristicValue, Service  # noqa: E402
from bumble.hci import Address  # noqa: E402
from bumble.host import Host  # noqa: E402
from bumble.l2cap import LeCreditBasedChannelSpec  # noqa: E402
from bumble.transport import open_transport  # noqa: E402

SERVICE = "F47B5E2D-4A9E-4C5A-9B3F-8E1D2C3A4B5C"
CHARACTERISTIC = "A1B2C3D4-E5F6-4A5B-8C9D-0E1F2A3B4C5D"
# A static random address.
ADDRESS = "F0:F1:F2:F3:F4:F5"


class BumbleRadio:
    """A central or peripheral of the service; as "channel" a peripheral that offers only an L2CAP channel.

    ready         set when the link is usable
    disconnected  set when the peer has disconnected; as a central only
    peer_flags    the flags of the peer's advertisement; as a central only
    mtu           the negotiated ATT MTU; as a central only
    failure       the exception that ended the radio, as text
    overflow_count  values that were dropped because the socket was full
    """

    # The protocol/service multiplexer of the L2CAP channel.
    PSM = 0x85
    # LE General Discoverable Mode, BR/EDR Not Supported.
    DEFAULT_FLAGS = b"\x06"

    def __init__(self, hci_index, role, flags=DEFAULT_FLAGS, mtu=517):
        self.hci_index, self.role, self.flags, self.requested_mtu = hci_index, role, flags, mtu
        self.socket, self._inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._inner.setblocking(False)
        self.ready = threading.Event()
        self.disconnected = threading.Event()
        self.peer_flags = None
        self.mtu = None
        self.failure = None
        self.overflow_count = 0
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait(self, seconds):
        if not self.ready.wait(seconds) or self.failure:
            raise AssertionError(f"no link over Bumble within {seconds} s: {self.failure}")

    def close(self):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)
        if self._thread.is_alive():
            raise AssertionError("the Bumble radio did not stop within 20 s")

    def write(self, value, with_response):
        """Writes as a central, without the socket; raises the peer's error."""

        async def write_value():
            await self._characteristic.write_value(value, with_response=with_response)

        return asyncio.run_coroutine_threadsafe(write_value(), self._loop).result(20)

    def flood(self, values):
        """Writes all frames as a central, as fast as possible and without response."""

        async def write_values():
            for value in values:
                await self._characteristic.write_value(value, with_response=False)

        return asyncio.run_coroutine_threadsafe(write_values(), self._loop).result(60)

    def _run(self):
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._main())
        except Exception as error:
            self.failure = repr(error)
            print(f"the Bumble radio failed: {self.failure}", file=sys.stderr)
            # wait() reports it at once.
            self.ready.set()

    async def _main(self):
        async with await open_transport(f"hci-socket:{self.hci_index}") as transport:
            device = Device(name="phone", address=Address(ADDRESS), host=Host(transport.source, transport.sink))
            # BlueZ requests its own MTU as soon as it is connected; the server's limit decides which one is used.
            device.gatt_server.max_mtu = self.requested_mtu
            await {"central": self._central, "peripheral": self._peripheral, "channel": self._channel}[self.role](device)

    async def _central(self, device):
        await device.power_on()
        found = self._loop.create_future()

        def on_advertisement(advertisement):
            lists = advertisement.data.get_all(AdvertisingData.COMPLETE_LIST_OF_128_BIT_SERVICE_CLASS_UUIDS)
            lists += advertisement.data.get_all(AdvertisingData.INCOMPLETE_LIST_OF_128_BIT_SERVICE_CLASS_UUIDS)
            if any(UUID(SERVICE) in uuids for uuids in lists) and not found.done():
                self.peer_flags = advertisement.data.get(AdvertisingData.FLAGS, raw=True)
                found.set_result(advertisement.address)

        device.on("advertisement", on_advertisement)
        await device.start_scanning(filter_duplicates=False)
        address = await found
        await device.stop_scanning()
        connection = await device.connect(address)
        connection.on("disconnection", lambda _: self.disconnected.set())
        peer = Peer(connection)
        self.mtu = await peer.request_mtu(self.requested_mtu)
        await peer.discover_services()
        service = peer.get_services_by_uuid(UUID(SERVICE))[0]
        await service.discover_characteristics()
        self._characteristic = service.get_characteristics_by_uuid(UUID(CHARACTERISTIC))[0]
        await peer.subscribe(self._characteristic, self._forward)
        self.ready.set()
        await self._carry(lambda frame: self._characteristic.write_value(frame, with_response=False))
        if not self.disconnected.is_set():
            await connection.disconnect()

    async def _peripheral(self, device):
        async def written(connection, value):
            self._forward(value)
            self.ready.set()

        properties = Characteristic.Properties
        characteristic = Characteristic(
            CHARACTERISTIC,
            properties.READ | properties.WRITE | properties.WRITE_WITHOUT_RESPONSE | properties.NOTIFY,
            Characteristic.READABLE | Characteristic.WRITEABLE,
            CharacteristicValue(read=lambda _: b"", write=written),
        )
        device.add_service(Service(SERVICE, [characteristic]))
        await device.power_on()
        data = [(AdvertisingData.FLAGS, self.flags)] if self.flags else []
        data.append((AdvertisingData.COMPLETE_LIST_OF_128_BIT_SERVICE_CLASS_UUIDS, bytes(UUID(SERVICE))))
        await device.start_advertising(auto_restart=True, advertising_data=bytes(AdvertisingData(data)))
        await self._carry(lambda frame: device.notify_subscribers(characteristic, value=frame))

    async def _channel(self, device):
        await device.power_on()
        device.create_l2cap_server(LeCreditBasedChannelSpec(psm=self.PSM), handler=lambda _: None)
        await device.start_advertising(auto_restart=True)
        self.ready.set()
        await self._stop.wait()
        for connection in list(device.connections.values()):
            await connection.disconnect()

    def _forward(self, value):
        try:
            self._inner.send(bytes(value))
        except BlockingIOError:
            self.overflow_count += 1

    async def _carry(self, send):
        async def send_frames():
            # BitchatPeer sends its preamble and its end as empty packets; both are skipped.
            for _ in range(2):
                while frame := await self._loop.sock_recv(self._inner, 65_536):
                    await send(frame)

        sending = asyncio.ensure_future(send_frames())
        stopped = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait([sending, stopped], return_when=asyncio.FIRST_COMPLETED)
        if sending.done():
            sending.result()  # raises the exception that ended it
        await stopped
        sending.cancel()
