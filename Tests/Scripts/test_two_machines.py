"""Two machines with a cable between them: discovery, consent, content, and loss of the cable."""

import json
import os
import shutil
import signal
import subprocess
import time
import unittest

from harness import INTERRUPT, CableStory, digest, has_namespaces, wait_until
from test_questions import Terminal


@unittest.skipUnless(has_namespaces(), "network namespaces need root and iproute2")
class TwoMachinesStory(CableStory):
    def test_a_photo_by_name(self):
        photo = self.file("photo.jpg", 3_000_000)
        anna = self.anna.receive()
        result = self.ben.run("send", photo, "--to", "anna")
        self.assertCode(0, result)
        delivered = anna.wait_for("delivered")
        self.assertEqual(digest(photo), digest(delivered["path"]))
        self.assertEqual("photo.jpg", os.path.basename(delivered["path"]))

    def test_a_machine_without_a_network_says_so_and_when_it_comes(self):
        self.network.cut()
        arguments = ("receive", "--accept", "all", "--inbox", self.anna.inbox, "--name", "anna")
        anna = self.anna.start(*arguments)
        wait_until(lambda: any("no network: no interface" in line for line in anna.errors), "the warning")
        for command in (("browse", "--timeout", "0.1"), ("send", self.file("a", 10), "--to", "ben", "--via", "lan")):
            self.assertIn(b"no network: no interface", self.anna.run(*command).stderr)
        for command in (
            ("send", self.file("a", 10), "--to", "ben", "--via", "lan"),
            ("send", "--text", "hi", "--to", "ben"),
            ("message", "hi", "--to", "ben", "--timeout", "0.2"),
            ("chat", "ben"),
        ):
            result = self.anna.run(*command, input=b"hi\n")
            self.assertCode(3, result)
            self.assertIn(b"ben was not found: this machine has no network", " ".join(result.stderr.decode().split()).encode())
        self.assertNotIn("the network is available\n", anna.errors)
        self.network.mend()
        wait_until(lambda: "the network is available\n" in anna.errors, "the network")
        self.assertCode(0, self.ben.run("send", self.file("a", 10), "--to", "anna", "--retry", "0"))
        self.assertEqual(1, sum("no network" in line for line in anna.errors))
        result = self.ben.run("browse", "--timeout", "0.1")
        self.assertNotIn(b"no network", result.stderr)

    def test_a_folder_with_its_times(self):
        self.file("trip/day one/a.txt", 10)
        self.file("trip/day one/b.bin", 300_000)
        self.file("trip/empty", 0)
        source = self.place / "source/trip"
        for name in ["empty", "day one", "."]:
            os.utime(source / name, (1_000_000_000, 1_000_000_000))
        anna = self.anna.receive()
        self.assertCode(0, self.ben.run("send", source, "--to", "ann"))
        anna.wait_for("finished")
        received = self.anna.received()
        self.assertEqual({"trip/day one/a.txt", "trip/day one/b.bin", "trip/empty"}, set(received))
        for name, content in received.items():
            self.assertEqual((self.place / "source" / name).read_bytes(), content)
        for name in ["trip/empty", "trip/day one", "trip"]:
            self.assertEqual(1_000_000_000, int((self.anna.inbox / name).stat().st_mtime), name)

    def test_names_that_the_receiver_keeps_or_changes(self):
        for name in ["trip/a:b", "trip/a?b", "trip/a*b", "trip/nice.txt", "trip/-rf", "trip/back\\slash"]:
            self.file(name, 10)
        anna = self.anna.receive()
        ben = self.ben.run("send", self.place / "source/trip", "--to", "anna")
        self.assertCode(0, ben)
        names = anna.wait_for("finished")["changed_names"]
        self.assertEqual(
            {"trip/a:b", "trip/a?b", "trip/a*b", "trip/nice.txt", "trip/_rf", "trip/back_slash"}, set(self.anna.received())
        )
        listed = [{"name": "-rf", "stored": "_rf"}, {"name": "back\\slash", "stored": "back_slash"}]
        self.assertEqual({"count": 2, "listed": listed}, names)
        self.assertIn("2 names were changed by anna's machine: -rf → _rf", ben.stderr.decode())
        again = self.ben.start("send", self.place / "source/trip", "--to", "anna", "--json")
        self.assertEqual(names, again.wait_for("finished")["changed_names"])
        self.assertEqual(0, again.end())

    def test_names_that_are_not_utf8(self):
        folder = os.fsencode(self.place) + b"/source/photos \xe9t\xe9"
        os.makedirs(folder)
        for name in [folder + b"/caf\xe9", folder + b"/th\xe9", os.fsencode(self.place) + b"/source/caf\xe9.txt"]:
            with open(name, "wb") as file:
                file.write(name)
        single = os.fsencode(self.place) + b"/source/caf\xe9.txt"
        anna = self.anna.receive()
        result = self.ben.run("send", single, folder, self.place / "no\ufffdfile", "--to", "anna")
        # The file that does not exist is named, and the others are sent.
        self.assertCode(6, result)
        self.assertEqual(4, anna.wait_for("finished")["changed_names"]["count"])
        self.assertEqual(
            {"caf_.txt": single, "photos _t_/caf_": folder + b"/caf\xe9", "photos _t_/th_": folder + b"/th\xe9"},
            self.anna.received(),
        )

    def test_standard_input(self):
        content = self.random.randbytes(700_001)
        anna = self.anna.receive()
        self.assertCode(0, self.ben.run("send", "-", "--as", "notes.bin", "--to", "anna", input=content))
        anna.wait_for("finished")
        self.assertEqual({"notes.bin": content}, self.anna.received())

    def test_browse_sees_anna(self):
        anna = self.anna.receive()
        result = self.ben.run("browse", "--json")
        self.assertCode(0, result)
        self.assertIn(anna.ready["id"], result.stdout.decode())

    @unittest.skipUnless(shutil.which("nft"), "needs nft")
    def test_a_firewall_on_the_other_side_is_named(self):
        anna = self.anna.receive()
        self.assertEqual(29742, anna.ready["port"])
        chain = "add table inet t; add chain inet t c { type filter hook input priority 0; }; "
        rules = chain + "add rule inet t c tcp dport 29742 drop"
        subprocess.run(["ip", "netns", "exec", self.network.names[0], "nft", rules], check=True)
        result = self.ben.run("send", self.file("photo.jpg", 1000), "--to", "anna", "--via", "lan")
        self.assertCode(9, result)
        for part in ('found "anna"', ":29742", "a firewall there may drop it", "sudo ufw allow 29742/tcp"):
            self.assertIn(part, result.stderr.decode())
        # The doctor on that machine, which runs as root here, names the rule and the command.
        doctor = self.anna.run("doctor", "--adapter", "none").stdout.decode()
        self.assertIn("inet t c: tcp dport 29742 drop", doctor)
        self.assertIn("nft insert rule inet t c tcp dport 29742 accept", doctor)

    @unittest.skipUnless(shutil.which("nft"), "needs nft")
    def test_a_neighbour_that_falls_silent_is_away_and_comes_back(self):
        """No interface goes down, so that nothing but the silence says it."""
        nodes = [
            peer.start("mesh", "run", "--json", "--name", name, "--adapter", "none")
            for peer, name in ((self.anna, "anna"), (self.ben, "ben"))
        ]
        for node in nodes:
            node.wait_for("ready")

        def near(peer):
            return [each["name"] for each in json.loads(peer.run("mesh", "status", "--json").stdout)["near"]]

        wait_until(lambda: (near(self.anna), near(self.ben)) == (["ben"], ["anna"]), "the link")
        nft = ["ip", "netns", "exec", self.network.names[0], "nft"]
        chains = "".join(
            f"add chain inet t {hook} {{ type filter hook {hook} priority 0; policy drop; }}; " for hook in ("input", "output")
        )
        subprocess.run([*nft, "add table inet t; " + chains], check=True)
        wait_until(lambda: (near(self.anna), near(self.ben)) == ([], []), "the silence to be noticed", timeout=30)
        # Longer than several attempts to connect take.
        time.sleep(15)
        subprocess.run([*nft, "delete table inet t"], check=True)
        wait_until(lambda: (near(self.anna), near(self.ben)) == (["ben"], ["anna"]), "the link to be back", timeout=12)

    def close(self, machine, port=None):
        """Has a machine drop the connections that others open, but those to the port."""
        rule = "tcp flags & (syn|ack) == syn" + (f" tcp dport != {port}" if port else "") + " drop"
        chain = "add table inet t; add chain inet t c { type filter hook input priority 0; }; flush chain inet t c; "
        command = ["ip", "netns", "exec", self.network.names[machine], "nft", f"{chain} add rule inet t c {rule}"]
        subprocess.run(command, check=True)

    @unittest.skipUnless(shutil.which("nft"), "needs nft")
    def test_a_chat_meets_a_peer_without_announcements_where_it_was_reached_last(self):
        anna = self.anna.receive(accept="all", name="anna")
        self.assertCode(0, self.ben.run("send", self.file("photo.jpg", 1000), "--to", "anna"))
        for machine in range(2):
            chains = "".join(
                f"add chain inet t {hook} {{ type filter hook {hook} priority 0; }}; "
                f"add rule inet t {hook} udp dport 5353 drop; "
                for hook in ("input", "output")
            )
            rules = ["ip", "netns", "exec", self.network.names[machine], "nft", "add table inet t; " + chains]
            subprocess.run(rules, check=True)
        ben = self.ben.start("chat", "anna", "--json", "--adapter", "none", stdin=subprocess.PIPE)
        ben.process.stdin.write("are you there?\n")
        ben.process.stdin.close()
        self.assertEqual(0, ben.end())
        anna.wait_for("message", lambda event: event["content"]["text"] == "are you there?")

    def test_a_send_beside_a_chat_waits_for_a_known_peer_as_long_as_without_one(self):
        anna = self.anna.receive(accept="all", name="anna")
        self.assertCode(0, self.ben.run("message", "hello", "--to", "anna", "--wait", "delivered", "--adapter", "none"))
        anna.process.terminate()
        anna.end()
        chat = self.ben.start("chat", "--public", "--follow", "--json", "--adapter", "none", stdin=subprocess.PIPE)
        chat.wait_for("contacts")
        send = self.ben.start("send", self.file("photo.jpg", 1000), "--to", "anna", "--json")
        # Longer than the search on the network before the node is asked.
        time.sleep(2)
        anna = self.anna.receive(accept="all", name="anna")
        self.assertEqual(0, send.end(), send.story())
        self.assertIn("photo.jpg", self.anna.received())

    def chats(self):
        """Starts a chat on both machines."""
        return [
            peer.start("chat", "--public", "--follow", "--json", "--adapter", "none", stdin=subprocess.PIPE)
            for peer in (self.anna, self.ben)
        ]

    @unittest.skipUnless(shutil.which("nft"), "needs nft")
    def test_chats_reach_each_other_through_one_open_port(self):
        for anna, ben in ((29742, 29742), (29742, None), (None, 29742)):
            with self.subTest(anna=anna, ben=ben):
                self.close(0, anna)
                self.close(1, ben)
                chats = self.chats()
                # A closed port takes the five seconds of an attempt, or the other end waits three.
                for chat in chats:
                    chat.wait_for("contacts", lambda event: any(each["near"] for each in event["contacts"]))
                for chat in chats:
                    chat.signal(INTERRUPT)
                    chat.end()

    @unittest.skipUnless(shutil.which("nft"), "needs nft")
    def test_a_chat_says_that_a_peer_is_announced_and_does_not_answer(self):
        self.close(0)
        self.close(1)
        anna, ben = self.chats()
        for chat in (anna, ben):
            notice = chat.wait_for("notice", lambda event: "is announced at" in event["text"], timeout=40)
            self.assertIn("a firewall may drop it", notice["text"])

    @unittest.skipUnless(shutil.which("nft"), "needs nft")
    def test_the_doctor_asks_the_firewall_about_the_port_of_the_running_node(self):
        anna = self.anna.receive("--port", "4711")
        self.assertEqual(4711, anna.ready["port"])
        chain = "add table inet t; add chain inet t c { type filter hook input priority 0; }; "
        rules = chain + "add rule inet t c tcp dport 4711 drop"
        subprocess.run(["ip", "netns", "exec", self.network.names[0], "nft", rules], check=True)
        doctor = self.anna.run("doctor", "--adapter", "none").stdout.decode()
        self.assertIn(f"the running node (process {anna.process.pid}) listens on port 4711", doctor)
        self.assertIn("inet t c: tcp dport 4711 drop", doctor)

    def test_a_second_process_uses_another_port_and_both_are_reached(self):
        first = self.anna.receive()
        second = self.anna.receive()
        self.assertEqual(29742, first.ready["port"])
        self.assertNotEqual(29742, second.ready["port"])
        for ending in (second, first):
            self.assertCode(0, self.ben.run("send", "--text", "hello", "--to", "anna"))
            ending.signal(INTERRUPT)
            ending.end()
        expected = f"another `nearshare receive` of this user is running (process {first.process.pid})"
        self.assertTrue(any(expected in line for line in second.errors), second.errors)
        self.assertFalse(any("is in use" in line for line in second.errors), second.errors)
        self.assertFalse(any("is in use" in line for line in first.errors), first.errors)

    def only_the_usual_port_is_open(self):
        rules = (
            "add table inet t; add chain inet t c { type filter hook input priority 0; }; "
            "add rule inet t c tcp dport != 29742 tcp flags syn / syn,ack drop"
        )
        subprocess.run(["ip", "netns", "exec", self.network.names[0], "nft", rules], check=True)

    def standing_node(self):
        node = self.anna.start(
            "mesh", "run", "--json", "--name", "anna", "--accept", "none", "--adapter", "none", "--inbox", self.anna.inbox
        )
        node.ready = node.wait_for("ready")
        self.assertEqual(29742, node.ready["port"])
        return node

    def receive_without_name(self):
        receiver = self.anna.start("receive", "--json", "--accept", "all", "--inbox", self.anna.inbox, "--adapter", "none")
        receiver.ready = receiver.wait_for("ready")
        self.assertEqual(29742, receiver.ready["port"])
        return receiver

    def assertReached(self, receiver, name):
        self.assertCode(0, self.ben.run("send", self.file(name, 1000), "--to", "anna", "--via", "lan"))
        receiver.wait_for("delivered", lambda event: event["name"] == name)

    @unittest.skipUnless(shutil.which("nft"), "needs nft")
    def test_a_receive_beside_a_standing_node_is_reached_through_its_port(self):
        self.only_the_usual_port_is_open()
        self.assertCode(0, self.anna.run("identity", "rename", "anna"))
        node = self.standing_node()
        receiver = self.receive_without_name()
        self.assertEqual(node.process.pid, receiver.ready["node"])
        self.assertReached(receiver, "one")
        # The node answers again, by its own policy.
        receiver.signal(signal.SIGKILL)
        receiver.end()
        self.assertCode(4, self.ben.run("send", self.file("two", 10), "--to", "anna", "--via", "lan"))
        # The receiver has the port while no node runs.
        receiver = self.receive_without_name()
        node.signal(signal.SIGKILL)
        node.end()
        self.assertNotIn("node", receiver.wait_for("port", lambda event: event["port"] == 29742))
        self.assertReached(receiver, "three")
        # A node that is started again gets it back.
        node = self.standing_node()
        receiver.wait_for("port", lambda event: event.get("node") == node.process.pid)
        self.assertReached(receiver, "four")
        node.signal(INTERRUPT)
        self.assertEqual(130, node.end())
        self.assertNotIn("node", receiver.wait_for("port"))
        self.assertReached(receiver, "five")

    @unittest.skipUnless(shutil.which("nft"), "needs nft")
    def test_a_node_that_takes_a_receivers_role_over_gets_its_port(self):
        self.only_the_usual_port_is_open()
        self.assertCode(0, self.anna.run("identity", "rename", "anna"))
        receiver = self.receive_without_name()
        self.assertNotIn("node", receiver.ready)
        node = self.standing_node()
        receiver.wait_for("port", lambda event: event.get("node") == node.process.pid)
        self.assertReached(receiver, "one")
        # The latest of two is served.
        second = self.receive_without_name()
        warning = "another `nearshare receive` of this user is running: what peers send arrives at this one while it runs"
        wait_until(lambda: warning in " ".join("".join(second.errors).split()), "the warning about the first one")
        self.assertNotIn(warning, " ".join("".join(receiver.errors).split()))
        self.assertReached(second, "two")
        second.signal(INTERRUPT)
        self.assertEqual(130, second.end())
        self.assertReached(receiver, "three")
        # One with a port of its own gets them as well.
        third = self.anna.receive("--port", "4711")
        self.assertEqual((4711, None), (third.ready["port"], third.ready.get("node")))
        warning = "another `nearshare receive` of this user is running: peers see one machine"
        wait_until(lambda: warning in " ".join("".join(third.errors).split()), "the warning of the third one")
        third.signal(INTERRUPT)
        self.assertEqual(130, third.end())
        receiver.signal(INTERRUPT)
        self.assertEqual(130, receiver.end())
        self.assertCode(4, self.ben.run("send", self.file("four", 10), "--to", "anna", "--via", "lan"))

    def test_declined(self):
        photo = self.file("photo.jpg", 1000)
        anna = self.anna.receive(accept="none")
        result = self.ben.run("send", photo, "--to", "anna")
        self.assertCode(4, result)
        self.assertEqual("declined", anna.wait_for("finished")["outcome"])
        self.assertEqual({}, self.anna.received())

    def transfer_under_way(self, *options, to="anna"):
        """Sends a large file over a slow cable, and returns in the middle of the transfer."""
        self.network.slow("40mbit")
        self.big = self.file("big.bin", 12_000_000)
        anna = self.anna.receive()
        ben = self.ben.start("send", self.big, "--to", to, "--json", *options)
        ben.wait_for("progress", lambda event: event["done"] > 3_000_000)
        return anna, ben

    def goes_on(self, anna):
        self.network.slow("1gbit")
        again = self.ben.start("send", self.big, "--to", "anna", "--json")
        resumed = again.wait_for("resumed")
        self.assertGreater(resumed["offset"], 0)
        self.assertEqual("completed", again.wait_for("finished")["outcome"])
        self.assertEqual(0, again.end())
        self.assertEqual(resumed["offset"], anna.wait_for("resumed")["offset"])
        self.assertEqual({"big.bin": self.big.read_bytes()}, self.anna.received())

    def test_cancelled_by_the_sender(self):
        anna, ben = self.transfer_under_way()
        ben.signal(INTERRUPT)
        self.assertEqual(130, ben.end())
        self.assertEqual("cancelled", anna.wait_for("finished", timeout=5)["outcome"])
        self.assertEqual({}, self.anna.received())
        self.goes_on(anna)

    def test_cancelled_by_the_receiver(self):
        anna, ben = self.transfer_under_way()
        anna.signal(INTERRUPT)
        self.assertEqual(130, anna.end())
        self.assertEqual("cancelled", ben.wait_for("finished", timeout=5)["outcome"])
        self.assertEqual(4, ben.end())
        self.assertEqual({}, self.anna.received())
        self.goes_on(self.anna.receive())

    def completes(self, ben, anna):
        """The same command resumes the transfer, and completes it."""
        self.network.slow("1gbit")
        self.assertGreater(ben.wait_for("resumed", timeout=60)["offset"], 0)
        self.assertEqual("completed", ben.wait_for("finished")["outcome"])
        self.assertEqual(0, ben.end())
        anna.wait_for("delivered")
        self.assertEqual({"big.bin": self.big.read_bytes()}, self.anna.received())

    def test_a_send_continues_after_the_cable_was_cut(self):
        anna, ben = self.transfer_under_way()
        self.network.cut()
        self.assertEqual("interrupted", ben.wait_for("finished")["outcome"])
        self.assertEqual("interrupted", anna.wait_for("finished")["outcome"])
        self.assertEqual({}, self.anna.received())
        self.network.mend()
        self.completes(ben, anna)

    def test_a_send_continues_after_the_senders_address_changed(self):
        anna, ben = self.transfer_under_way()
        self.network.renumber(1, "10.77.0.99/24")
        self.completes(ben, anna)

    def test_a_send_continues_after_the_receivers_address_changed(self):
        anna, ben = self.transfer_under_way()
        self.network.renumber(0, "10.77.0.98/24")
        self.completes(ben, anna)

    def test_a_send_to_an_address_finds_the_receiver_at_its_new_one(self):
        anna, ben = self.transfer_under_way(to="10.77.0.1")
        self.network.renumber(0, "10.77.0.96/24")
        self.completes(ben, anna)

    def test_a_send_notices_soon_that_its_address_has_gone_and_resumes(self):
        self.network.slow("400mbit")
        self.big = self.file("big.bin", 1_000_000)
        with open(self.big, "ab") as file:
            for _ in range(299):
                file.write(self.random.randbytes(1_000_000))
        anna = self.anna.receive()
        ben = self.ben.start("send", self.big, "--to", "anna", "--json")
        ben.wait_for("progress", lambda event: event["done"] > 60_000_000)
        begun = time.monotonic()
        self.network.renumber(1, "10.77.0.97/24")
        self.assertEqual("interrupted", ben.wait_for("finished")["outcome"])
        # Not after the 20 s of silence that end other links.
        self.assertLess(time.monotonic() - begun, 10)
        self.assertGreater(ben.wait_for("resumed", timeout=60)["offset"], 50_000_000)
        self.assertEqual("completed", ben.wait_for("finished", timeout=60)["outcome"])
        self.assertEqual(0, ben.end())
        anna.wait_for("delivered")
        self.assertEqual(digest(self.big), digest(self.anna.inbox / "big.bin"))

    def test_one_send_and_one_question_outlast_10_s_and_60_s_without_a_link_and_a_new_address(self):
        big = self.file("big.bin", 1_000_000)
        os.truncate(big, 300_000_000)
        receive = self.anna.command("receive", "--name", "anna", "--adapter", "none", "--inbox", str(self.anna.inbox))
        anna = Terminal(self.anna, *receive)
        self.addCleanup(anna.close)
        anna.wait_for(r"on port \d+")
        ben = self.ben.start("send", big, "--to", "anna", "--json", "--limit", "40MB")
        anna.wait_for(r"accept\? \[y\]es")
        anna.press("y\n")
        anna.wait_for(r"\[c\]ancel a transfer")
        ben.wait_for("progress", lambda event: event["done"] > 30_000_000)
        answered = len(anna.transcript)
        for seconds in (10, 60):
            self.network.cut()
            # Timed: the outage. The user's terminal is read meanwhile.
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                anna.read(0.2)
            done = max(event["done"] for event in ben.events if event["event"] == "progress")
            self.assertIsNone(ben.process.poll(), ben.story())
            if seconds == 60:
                self.network.renumber(1, "10.77.0.96/24")
            self.network.mend()
            ben.wait_for("progress", lambda event, done=done: event["done"] > done + 30_000_000)
        ben.wait_for("finished", lambda event: event["outcome"] == "completed")
        self.assertEqual(0, ben.end())
        anna.wait_for("complete")
        self.assertEqual(0, anna.transcript[answered:].count(b"accept?"))
        self.assertEqual(digest(big), digest(self.anna.inbox / "big.bin"))

    def test_a_cut_cable_ends_a_send_that_must_not_try_again(self):
        anna, ben = self.transfer_under_way("--retry", "0")
        self.network.cut()
        self.assertEqual(10, ben.end())
        self.assertEqual("interrupted", anna.wait_for("finished")["outcome"])
        self.network.mend()
        self.goes_on(anna)

    def test_a_send_continues_after_the_receivers_terminal_was_closed(self):
        anna, ben = self.transfer_under_way()
        anna.signal(signal.SIGHUP)
        self.assertEqual(130, anna.end())
        self.assertEqual("interrupted", ben.wait_for("finished")["outcome"])
        self.completes(ben, self.anna.receive())

    def test_P13_the_receiver_is_killed(self):
        anna, ben = self.transfer_under_way()
        anna.process.kill()
        anna.end()
        self.assertEqual("interrupted", ben.wait_for("finished")["outcome"])
        self.assertEqual({}, self.anna.received())
        self.completes(ben, self.anna.receive())

    def test_P13_the_sender_is_killed(self):
        anna, ben = self.transfer_under_way()
        ben.process.kill()
        ben.end()
        self.assertEqual("interrupted", anna.wait_for("finished")["outcome"])
        self.assertEqual({}, self.anna.received())
        listed = json.loads(self.ben.run("history", "--sent", "--json").stdout)
        self.assertEqual(
            ("interrupted", "big.bin", self.big.stat().st_size), tuple(listed[key] for key in ("outcome", "content", "offered"))
        )
        self.goes_on(anna)
        outcomes = [json.loads(line)["outcome"] for line in self.ben.run("history", "--json").stdout.splitlines()]
        self.assertEqual(["interrupted", "completed"], outcomes)

    def test_a_changed_source_is_sent_from_the_start(self):
        anna, ben = self.transfer_under_way()
        ben.signal(INTERRUPT)
        ben.end()
        anna.wait_for("finished")
        self.big = self.file("big.bin", 2_000_000)
        self.network.slow("1gbit")
        self.assertCode(0, self.ben.run("send", self.big, "--to", "anna"))
        anna.wait_for("delivered")
        self.assertEqual({"big.bin": self.big.read_bytes()}, self.anna.received())


if __name__ == "__main__":
    unittest.main()
