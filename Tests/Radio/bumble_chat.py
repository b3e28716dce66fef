"""A BlueChat client on Bumble, as central or peripheral: three characteristics, one text per value."""

import asyncio
import os
import queue
import sys
import threading

sys.path.insert(0, os.environ.get("RADIO_PYTHON", ""))

from bumble.core import UUID, AdvertisingData  # noqa: E402
from bumble.device import Device, Peer  # noqa: E402
from bumble.gatt import Characteristic, CharacteristicValue, Service  # noqa: E402
from bumble.hci import Address  # noqa: E402
from bumble.host import Host  # noqa: E402
from bumble.transport import open_transport  # noqa: E402

SERVICE = "920D5470-95D8-4289-8BF3-504058B0BCB1"
FROM_CENTRAL = "920D5471-95D8-4289-8BF3-504058B0BCB1"
FROM_PERIPHERAL = "920D5472-95D8-4289-8BF3-504058B0BCB1"
DISCONNECT = "920D5473-95D8-4289-8BF3-504058B0BCB1"
ADDRESS = "F0:F1:F2:F3:F4:F6"
TIMEOUT = int(os.environ.get("RADIO_TIMEOUT", 90))


class OldClient:
    """A client whose events are (name, value): ready, heard, asked-to-leave, left."""

    def __init__(self, index, role, name="olive", mtu=None):
        self.index, self.role, self.name, self.mtu = index, role, name, mtu
        self.events = queue.Queue()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait_for(self, name, timeout=None):
        timeout = TIMEOUT if timeout is None else timeout
        while True:
            try:
                event, value = self.events.get(timeout=timeout)
            except queue.Empty:
                raise AssertionError(f"the old client had no {name} within {timeout} s") from None
            if event == "failed":
                raise AssertionError(value)
            if event == name:
                return value

    def say(self, value):
        """Returns when the peer has confirmed the value."""
        return asyncio.run_coroutine_threadsafe(self._say(value), self._loop).result(TIMEOUT)

    def ask_to_leave(self):
        return asyncio.run_coroutine_threadsafe(
            self._device.indicate_subscribers(self._disconnect, b"\x01"), self._loop
        ).result(TIMEOUT)

    def close(self):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)

    def _tell(self, name, value=None):
        self.events.put((name, value))

    def _run(self):
        asyncio.set_event_loop(self._loop)
        self._stop = asyncio.Event()
        try:
            self._loop.run_until_complete(self._live())
        except Exception as error:  # the test tells it
            self._tell("failed", repr(error))

    async def _live(self):
        async with await open_transport(f"hci-socket:{self.index}") as transport:
            self._device = Device(name=self.name, address=Address(ADDRESS), host=Host(transport.source, transport.sink))
            if self.mtu:
                # BlueZ requests an MTU as well. With two different requests the result would depend on timing.
                self._device.gatt_server.max_mtu = self.mtu
            self._connection = None
            await (self._central() if self.role == "central" else self._peripheral())
            await self._stop.wait()
            if self._connection:
                await self._connection.disconnect()

    async def _central(self):
        await self._device.power_on()
        found = self._loop.create_future()

        def heard(advertisement):
            services = advertisement.data.get_all(AdvertisingData.COMPLETE_LIST_OF_128_BIT_SERVICE_CLASS_UUIDS)
            services += advertisement.data.get_all(AdvertisingData.INCOMPLETE_LIST_OF_128_BIT_SERVICE_CLASS_UUIDS)
            name = advertisement.data.get(AdvertisingData.COMPLETE_LOCAL_NAME)
            if any(UUID(SERVICE) in uuids for uuids in services) and name and not found.done():
                found.set_result((advertisement.address, name))

        self._device.on("advertisement", heard)
        await self._device.start_scanning(filter_duplicates=False)
        address, name = await found
        await self._device.stop_scanning()
        self._connection = await self._device.connect(address)
        self._connection.on("disconnection", lambda _: self._left())
        peer = Peer(self._connection)
        if self.mtu:
            await peer.request_mtu(self.mtu)
        await peer.discover_services()
        service = peer.get_services_by_uuid(UUID(SERVICE))[0]
        await service.discover_characteristics()
        self._outgoing, incoming, disconnect = (
            service.get_characteristics_by_uuid(UUID(uuid))[0] for uuid in (FROM_CENTRAL, FROM_PERIPHERAL, DISCONNECT)
        )

        def asked(_):
            self._tell("asked-to-leave")
            asyncio.ensure_future(self._connection.disconnect())

        await peer.subscribe(disconnect, asked, prefer_notify=False)
        await peer.subscribe(incoming, lambda value: self._tell("heard", bytes(value)), prefer_notify=False)
        self._tell("ready", name)

    async def _peripheral(self):
        properties = Characteristic.Properties
        readable = Characteristic.READABLE
        incoming = Characteristic(
            FROM_CENTRAL,
            properties.WRITE,
            Characteristic.WRITEABLE,
            CharacteristicValue(write=lambda _, value: self._tell("heard", bytes(value))),
        )
        self._outgoing = Characteristic(FROM_PERIPHERAL, properties.READ | properties.INDICATE, readable, b"")
        self._disconnect = Characteristic(DISCONNECT, properties.READ | properties.INDICATE, readable, b"")
        self._device.add_service(Service(SERVICE, [incoming, self._outgoing, self._disconnect]))
        await self._device.power_on()

        def connected(connection):
            self._connection = connection
            connection.on("disconnection", lambda _: self._left())
            self._tell("ready")

        self._device.on("connection", connected)
        kinds = AdvertisingData
        await self._device.start_advertising(
            auto_restart=True,
            advertising_data=bytes(
                AdvertisingData(
                    [(kinds.FLAGS, b"\x06"), (kinds.COMPLETE_LIST_OF_128_BIT_SERVICE_CLASS_UUIDS, bytes(UUID(SERVICE)))]
                )
            ),
            scan_response_data=bytes(AdvertisingData([(kinds.COMPLETE_LOCAL_NAME, self.name.encode())])),
        )

    def _left(self):
        self._connection = None
        self._tell("left")

    async def _say(self, value):
        if self.role == "central":
            await self._outgoing.write_value(value, with_response=True)
        else:
            await self._device.indicate_subscribers(self._outgoing, value)
