"""BlueChat's service against an independent client on Bumble, as central and as peripheral."""

import json
import time
import unittest

from radio_harness import PEER_NOT_FOUND, TIMEOUT, Probe, RadioStory, power

try:
    from bumble_chat import ADDRESS, OldClient

    MISSING = None
except ImportError as error:
    MISSING = str(error)


@unittest.skipIf(MISSING, f"Bumble is not there: {MISSING}")
class ChatStory(RadioStory):
    """Anna's nearshare uses hci0, the BlueChat client hci1."""

    def setUp(self):
        super().setUp()
        power("hci1", False)
        self.addCleanup(power, "hci1", True)
        self.anna = Probe("hci0")
        self.addCleanup(self.anna.stop)
        self.anna.wait_for("ready")
        self.anna.tell("chat", "anna")

    def client(self, role, **how):
        client = OldClient(1, role, **how)
        self.addCleanup(client.close)
        return client

    def test_texts_in_both_directions_as_peripheral(self):
        olive = self.client("central", mtu=185)
        self.assertEqual("anna", olive.wait_for("ready"))
        olive.say("grüß dich".encode())
        host = self.anna.wait_for("met")[0]
        self.assertEqual([host, "grüß dich"], self.anna.wait_for("heard"))
        self.anna.tell("say", host, "hello olive")
        self.assertEqual(b"hello olive", olive.wait_for("heard"))
        self.anna.wait_for("said")
        # The text is split into several values.
        self.anna.tell("say", host, "ü" * 150)
        self.anna.wait_for("said")
        heard = b""
        while len(heard) < 300:
            heard += olive.wait_for("heard")
        self.assertEqual("ü" * 150, heard.decode())

    def test_a_silent_central_receives_texts(self):
        olive = self.client("central")
        olive.wait_for("ready")
        host = self.anna.wait_for("met")[0]
        self.anna.tell("say", host, "are you there?")
        self.assertEqual(b"are you there?", olive.wait_for("heard"))

    def test_a_central_disconnects_on_request(self):
        olive = self.client("central", mtu=185)
        olive.wait_for("ready")
        olive.say(b"hi")
        host = self.anna.wait_for("heard")[0]
        self.anna.tell("part", host)
        olive.wait_for("asked-to-leave")
        olive.wait_for("left")
        self.assertEqual([host], self.anna.wait_for("parted"))

    def test_texts_in_both_directions_as_central_and_disconnect_on_request(self):
        olive = self.client("peripheral")
        host, name = self.anna.wait_for("met", timeout=2 * TIMEOUT)
        self.assertEqual((f"{ADDRESS}/random", "olive"), (host, name))
        self.anna.tell("say", host, "hello olive")
        self.assertEqual(b"hello olive", olive.wait_for("heard"))
        self.anna.wait_for("said")
        olive.say("hello änna".encode())
        self.assertEqual([host, "hello änna"], self.anna.wait_for("heard"))
        olive.ask_to_leave()
        self.assertEqual([host], self.anna.wait_for("parted"))
        olive.wait_for("left")

    def test_invalid_values_do_no_harm(self):
        olive = self.client("central", mtu=517)
        olive.wait_for("ready")
        for value in (b"\xff\xfe", b"", bytes(500), b"\xf0\x9f\x98"):
            olive.say(value)
        olive.say(b"still there")
        self.assertEqual("still there", self.anna.wait_for("heard", lambda fields: fields[1][:1] != "\0")[1])


@unittest.skipIf(MISSING, f"Bumble is not there: {MISSING}")
class ConversationStory(RadioStory):
    """Anna chats with the BlueChat client through the command line."""

    def setUp(self):
        super().setUp()
        power("hci1", False)
        self.addCleanup(power, "hci1", True)

    def chat(self, *arguments, said):
        """Sends lines through a pipe, once the peer is found."""
        end = time.monotonic() + 2 * TIMEOUT
        while True:
            result = self.anna.run("chat", *arguments, "--json", input=said.encode(), timeout=2 * TIMEOUT)
            if result.returncode != PEER_NOT_FOUND or time.monotonic() > end:
                self.assertCode(0, result)
                return [json.loads(line) for line in result.stdout.splitlines()]

    def test_lines_both_ways_through_a_node(self):
        node = self.anna.mesh(name="anna")
        olive = OldClient(1, "peripheral")
        self.addCleanup(olive.close)
        olive.wait_for("ready")
        events = self.chat("olive", "--wait", "delivered", "--timeout", str(TIMEOUT), said="hello olive\n")
        self.assertEqual(b"hello olive", olive.wait_for("heard"))
        people = next(event["contacts"] for event in events if event["event"] == "contacts")
        [person] = [person for person in people if person["software"] == "blueChat"]
        self.assertEqual(("olive (BlueChat, unproven)", "new", False), (person["name"], person["trust"], person["friend"]))
        self.assertIn("delivered", [event["status"] for event in events if event["event"] == "chat_message_changed"])
        olive.say("hello änna \x1b[31m".encode())
        line = node.wait_for("chat_message", timeout=TIMEOUT)
        self.assertEqual(("hello änna \x1b[31m", person["id"], person["name"]), (line["text"], line["from"], line["name"]))


if __name__ == "__main__":
    unittest.main()
