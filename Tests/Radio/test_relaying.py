"""Three people of whom two are out of each other's range: the third passes on what is not for them."""
import ctypes
import os
import socket
import struct
import unittest

from radio_harness import ADDRESSES, PATIENCE, RadioStory
from harness import digest

# Of the kernel's management interface (BlueZ, doc/mgmt-api.txt).
BLOCK, UNBLOCK = 0x0026, 0x0027
CONTROL_CHANNEL, NO_INDEX, COMPLETE, PUBLIC = 3, 0xFFFF, 0x0001, 1

libc = ctypes.CDLL(None, use_errno=True)


def manage(command, index, address):
    """Lets a controller refuse whoever has the address, or no longer."""
    with socket.socket(socket.AF_BLUETOOTH, socket.SOCK_RAW, socket.BTPROTO_HCI) as control:
        # Python's bind() knows no channels.
        if libc.bind(control.fileno(), struct.pack("=HHH", socket.AF_BLUETOOTH, NO_INDEX, CONTROL_CHANNEL), 6):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        control.settimeout(20)
        data = bytes.fromhex(address.replace(":", ""))[::-1] + bytes([PUBLIC])
        control.send(struct.pack("<HHH", command, index, len(data)) + data)
        while True:
            event, _, _, answered, status = struct.unpack_from("<HHHHB", control.recv(512).ljust(9, b"\0"))
            if answered == command:
                if event != COMPLETE or status:
                    raise OSError(f"management command {command:#x} failed: {status}")
                return


class ThreePeersStory(RadioStory):
    """Anna and Ben are out of each other's range; Cleo is between them."""

    count = 3

    def apart(self, one, other):
        for here, there in ((one, other), (other, one)):
            manage(BLOCK, here, ADDRESSES[there])
            self.addCleanup(manage, UNBLOCK, here, ADDRESSES[there])

    def relays(self, anna, ben, cleo):
        self.anna.adapter, self.ben.adapter, self.cleo.adapter = f"hci{anna}", f"hci{ben}", f"hci{cleo}"
        self.apart(anna, ben)
        photo = self.file("photo.jpg", 20_000)
        self.cleo.receive(name="cleo", accept="none")
        ben = self.ben.receive(name="ben")
        result = self.anna.run("send", photo, "--to", "ben", "--via", "mesh", "--json", patience=3 * PATIENCE)
        self.assertCode(0, result)
        self.assertEqual(digest(photo), digest(ben.wait_for("delivered")["path"]))
        self.assertEqual({}, self.cleo.received())

    def test_one_with_links_of_both_kinds_relays(self):
        self.relays(anna=0, ben=2, cleo=1)

    def test_one_that_both_have_connected_to_relays(self):
        # Of two that advertise the lower address connects: Ben to Cleo here. Notifications go to both at once.
        self.relays(anna=0, ben=1, cleo=2)


if __name__ == "__main__":
    unittest.main()
