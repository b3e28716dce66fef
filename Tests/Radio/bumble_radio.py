"""bitchat's service on an independent Bluetooth stack (Bumble), as central or peripheral.

It takes a controller from the kernel and carries packets between the air and a socket: one packet is one frame.
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
# A random address, as phones use.
ADDRESS = "F0:F1:F2:F3:F4:F5"


class BumbleRadio:
    """A central or peripheral of the service; or, as "channel", only an L2CAP channel with that PSM."""

    CHANNEL = 0x85

    def __init__(self, index, role, flags=b"\x06", mtu=517):
        self.index, self.role, self.flags, self.wanted_mtu = index, role, flags, mtu
        self.socket, self._inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._inner.setblocking(False)
        self.ready = threading.Event()
        # As a central: the peer has disconnected, and the flags of its advertisement.
        self.dropped = threading.Event()
        self.heard_flags = None
        self.mtu = None
        self.failure = None
        self.refusals = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait(self, seconds):
        if not self.ready.wait(seconds):
            raise AssertionError(f"no link over Bumble within {seconds} s: {self.failure}")

    def close(self):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)

    def write(self, value, with_response):
        """Writes as a central, without the socket; raises the peer's error."""

        async def writing():
            await self._characteristic.write_value(value, with_response=with_response)

        return asyncio.run_coroutine_threadsafe(writing(), self._loop).result(20)

    def flood(self, values):
        """Writes all frames as a central, as fast as possible and without response."""

        async def writing():
            for value in values:
                await self._characteristic.write_value(value, with_response=False)

        return asyncio.run_coroutine_threadsafe(writing(), self._loop).result(60)

    def _run(self):
        asyncio.set_event_loop(self._loop)
        self._stop = asyncio.Event()
        try:
            self._loop.run_until_complete(self._live())
        except Exception as error:  # the test tells it
            self.failure = repr(error)

    async def _live(self):
        async with await open_transport(f"hci-socket:{self.index}") as transport:
            device = Device(name="phone", address=Address(ADDRESS), host=Host(transport.source, transport.sink))
            # BlueZ requests an MTU as well; see bumble_chat.
            device.gatt_server.max_mtu = self.wanted_mtu
            await {"central": self._central, "peripheral": self._peripheral, "channel": self._channel}[self.role](device)

    async def _central(self, device):
        await device.power_on()
        found = self._loop.create_future()

        def heard(advertisement):
            lists = advertisement.data.get_all(AdvertisingData.COMPLETE_LIST_OF_128_BIT_SERVICE_CLASS_UUIDS)
            lists += advertisement.data.get_all(AdvertisingData.INCOMPLETE_LIST_OF_128_BIT_SERVICE_CLASS_UUIDS)
            if any(UUID(SERVICE) in uuids for uuids in lists) and not found.done():
                self.heard_flags = advertisement.data.get(AdvertisingData.FLAGS, raw=True)
                found.set_result(advertisement.address)

        device.on("advertisement", heard)
        await device.start_scanning(filter_duplicates=False)
        address = await found
        await device.stop_scanning()
        connection = await device.connect(address)
        connection.on("disconnection", lambda _: self.dropped.set())
        peer = Peer(connection)
        self.mtu = await peer.request_mtu(self.wanted_mtu)
        await peer.discover_services()
        service = peer.get_services_by_uuid(UUID(SERVICE))[0]
        await service.discover_characteristics()
        self._characteristic = service.get_characteristics_by_uuid(UUID(CHARACTERISTIC))[0]
        await peer.subscribe(self._characteristic, self._heard)
        self.ready.set()
        await self._carry(lambda frame: self._characteristic.write_value(frame, with_response=False))
        if not self.dropped.is_set():
            await connection.disconnect()

    async def _peripheral(self, device):
        async def written(connection, value):
            self._heard(value)
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
        kinds = AdvertisingData
        data = [(kinds.FLAGS, self.flags)] if self.flags else []
        data.append((kinds.COMPLETE_LIST_OF_128_BIT_SERVICE_CLASS_UUIDS, bytes(UUID(SERVICE))))
        await device.start_advertising(auto_restart=True, advertising_data=bytes(AdvertisingData(data)))
        await self._carry(lambda frame: device.notify_subscribers(characteristic, value=frame))

    async def _channel(self, device):
        await device.power_on()
        device.create_l2cap_server(LeCreditBasedChannelSpec(psm=self.CHANNEL), handler=lambda _: None)
        await device.start_advertising(auto_restart=True)
        self.ready.set()
        await self._stop.wait()
        for connection in list(device.connections.values()):
            await connection.disconnect()

    def _heard(self, value):
        try:
            self._inner.send(bytes(value))
        except BlockingIOError:
            self.refusals += 1

    async def _carry(self, send):
        async def outgoing():
            # An empty packet is the preamble that a link over a stream would have; a second one, the end.
            for _ in range(2):
                while frame := await self._loop.sock_recv(self._inner, 65_536):
                    await send(frame)

        carrying = asyncio.ensure_future(outgoing())
        await self._stop.wait()
        carrying.cancel()
