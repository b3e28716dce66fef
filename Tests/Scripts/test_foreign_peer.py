"""The mesh with a peer of another implementation of bitchat, over loopback."""

import socket
import unittest
import uuid

from harness import Story

try:
    from bitchat_cli import protocol

    from foreign_peer import ForeignPeer

    MISSING = None
except ImportError as error:
    MISSING = str(error)

FRAMES = b"NSHM\x01\x01\0\0"


@unittest.skipIf(MISSING, f"another implementation of bitchat is not there: {MISSING}")
class ForeignPeerStory(Story):
    def meet(self):
        anna = self.anna.receive("--interface", "lo")
        peer = ForeignPeer("stranger", socket.create_connection(("127.0.0.1", anna.ready["port"]), 5), FRAMES)
        self.addCleanup(peer.close)
        packet, announcement = peer.meet("anna")
        self.assertEqual(anna.ready["id"], packet.sender_id.hex())
        return anna, peer, announcement

    def test_lines_of_the_public_room(self):
        anna, peer, announcement = self.meet()
        peer.send(protocol.make_public_message_packet(peer.identity, "hello, 你好"))
        line = anna.wait_for("chat_message", lambda event: event["text"] == "hello, 你好")
        self.assertEqual((peer.identity.peer_id, "stranger"), (line["from"], line["name"]))
        self.assertCode(0, self.anna.run("chat", "--public", input="welcome 👋\n".encode()))
        packet = peer.wait_for(protocol.MessageType.MESSAGE)
        self.assertEqual("welcome 👋", packet.payload.decode())
        self.assertTrue(packet.verify_signature(announcement.signing_public_key))

    def test_texts_and_receipts_in_a_session(self):
        anna, peer, _ = self.meet()
        peer.open_session(anna.ready["id"])
        number = str(uuid.uuid4()).upper()
        peer.send_private_message(number, "are you near?")
        anna.wait_for("chat_message", lambda event: event["text"] == "are you near?")
        self.assertEqual(number, peer.wait_for_receipt())
        sending = self.anna.start("send", "--text", "yes", "--to", "stranger", "--via", "mesh", "--json")
        message = protocol.PrivateMessagePacket.decode(peer.wait_for_payload(protocol.NoisePayloadType.PRIVATE_MESSAGE))
        self.assertEqual("yes", message.content)
        peer.send_payload(protocol.make_delivered_payload(message.message_id))
        self.assertEqual(0, sending.end(), sending.story())

    def test_a_file_for_everyone(self):
        anna, peer, _ = self.meet()
        peer.open_session(anna.ready["id"])
        content = self.random.randbytes(200)
        file = protocol.FilePacket("a.bin", len(content), "application/octet-stream", content)
        peer.send(protocol.make_file_transfer_packet(peer.identity, file))
        anna.wait_for("delivered")
        self.assertEqual({"a.bin": content}, self.anna.received())


if __name__ == "__main__":
    unittest.main()
