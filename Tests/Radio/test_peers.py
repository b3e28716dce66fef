"""Two people with nearshare and no network, each an unprivileged user with a controller of their own."""
import json
import unittest

from radio_harness import PATIENCE, RadioStory
from harness import INTERRUPT, digest


class TwoPeersStory(RadioStory):
    def events(self, result):
        return [json.loads(line) for line in result.stdout.splitlines()]

    def test_a_photo_goes_over_the_channel(self):
        photo = self.file("photo.jpg", 300_000)
        anna = self.anna.receive()
        self.assertEqual("on", anna.radio["state"], anna.radio)
        result = self.ben.run("send", photo, "--to", "anna", "--via", "bluetooth", "--json", patience=PATIENCE)
        self.assertCode(0, result)
        self.assertEqual(digest(photo), digest(anna.wait_for("delivered")["path"]))
        self.assertEqual({"bluetooth"}, {event["via"] for event in self.events(result) if "via" in event})

    def test_a_private_file_goes_in_frames(self):
        photo = self.file("photo.jpg", 30_000)
        anna = self.anna.receive()
        result = self.ben.run("send", photo, "--to", "anna", "--via", "mesh", "--json", patience=PATIENCE)
        self.assertCode(0, result)
        self.assertEqual(digest(photo), digest(anna.wait_for("delivered")["path"]))
        self.assertEqual({"mesh"}, {event["via"] for event in self.events(result) if "via" in event})


if __name__ == "__main__":
    unittest.main()
