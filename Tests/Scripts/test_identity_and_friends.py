"""Commands for the identity, known keys and friends: their output, and their errors."""

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import unittest

from harness import CableStory, Peer, Story, has_namespaces
from test_voice import Screen


class Home(Story):
    """A user whose results are text or JSON."""

    def say(self, code, peer, *arguments, **options):
        result = peer.run(*arguments, **options)
        self.assertCode(code, result)
        return result.stderr.decode()

    def tell(self, peer, *arguments):
        result = peer.run(*arguments, "--json")
        self.assertCode(0, result)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def identity(self, peer):
        return self.tell(peer, "identity")[0]

    def state(self, peer):
        return peer.home / "state/nearshare"

    def export(self, peer, name="exported"):
        path = peer.home / name
        self.assertCode(0, peer.run("keys", "export", "--output", path))
        return path

    def screen(self, peer, *arguments):
        return Screen(self, peer.command(*arguments), peer.environment())


class IdentityStory(Home):
    def test_showing_the_identity_generates_no_key(self):
        self.assertIn("no identity yet", self.say(0, self.anna, "identity"))
        self.assertEqual({"event": "identity", "exists": False}, self.identity(self.anna))
        for command in (["peers"], ["friends"], ["keys"], ["identity", "rename", "anna"], ["inbox"]):
            self.assertCode(0, self.anna.run(*command))
        self.assertFalse(self.identity(self.anna)["exists"])
        self.assertFalse((self.state(self.anna) / "identity.key").exists())

    def test_stores_of_a_later_version_are_refused_with_what_to_do(self):
        self.assertCode(0, self.anna.run("messages"))
        for name in ("conversations.sqlite", "carried.sqlite"):
            with contextlib.closing(sqlite3.connect(self.state(self.anna) / name)) as store:
                with store:
                    store.execute("insert into grdb_migrations values ('of a later version')")
                words = " ".join(self.say(1, self.anna, "messages").split())
                self.assertIn(f"{name} was written by a later version of nearshare; update nearshare", words)
                with store:
                    store.execute("delete from grdb_migrations where identifier = 'of a later version'")
        self.assertCode(0, self.anna.run("messages"))

    def test_the_key_is_generated_by_the_first_transfer(self):
        anna = self.anna.receive("--once")
        self.assertCode(0, self.ben.run("send", "--text", "hello", "--to", anna.address))
        anna.end()
        shown = [self.identity(peer) for peer in (self.anna, self.ben)]
        self.assertTrue(all(each["exists"] for each in shown))
        self.assertEqual(anna.ready["id"], shown[0]["id"])
        self.assertIn(shown[0]["fingerprint"], self.anna.run("identity", "show").stdout.decode())

    def test_destroying_keeps_only_the_inbox_and_the_configuration(self):
        anna = self.anna.receive()
        self.assertCode(0, self.ben.run("send", self.file("photo.jpg", 4000), "--to", anna.address))
        anna.wait_for("delivered")
        anna.signal(signal.SIGTERM)
        anna.end()
        self.say(0, self.anna, "keys", "import", self.export(self.ben), "--for", self.identity(self.ben)["id"])
        self.say(0, self.anna, "identity", "rename", "anna")
        configuration = self.anna.home / "config/nearshare/config.toml"
        configuration.parent.mkdir(parents=True)
        configuration.write_text('accept = "ask"\n')
        (self.state(self.anna) / "something of a later version").write_text("x")
        before = self.identity(self.anna)["id"]
        self.assertIn("are removed", self.say(0, self.anna, "identity", "destroy", "--yes"))
        self.assertEqual([], os.listdir(self.state(self.anna)))
        self.assertEqual(["photo.jpg"], list(self.anna.received()))
        self.assertTrue(configuration.exists())
        self.assertFalse(self.identity(self.anna)["exists"])
        self.assertEqual([], self.tell(self.anna, "peers") + self.tell(self.anna, "keys"))
        self.assertIn("no stored state", self.say(0, self.anna, "identity", "destroy"))
        again = self.anna.receive("--once")
        self.assertNotEqual(before, again.ready["id"])

    def test_destroying_asks_first(self):
        self.export(self.anna)
        before = self.identity(self.anna)["id"]
        # There is no terminal to ask on.
        self.assertIn("--yes", self.say(2, self.anna, "identity", "destroy"))
        screen = self.screen(self.anna, "identity", "destroy")
        screen.wait_for(r"remove it\?")
        self.assertIn(before, screen.text)
        self.assertIn(str(self.anna.inbox), screen.text)
        screen.press("what?\n")
        screen.wait_for("answer y or n")
        screen.press("n\n")
        self.assertEqual(130, screen.end())
        self.assertIn("nothing was removed", screen.text)
        self.assertEqual(before, self.identity(self.anna)["id"])
        screen = self.screen(self.anna, "identity", "destroy")
        screen.wait_for(r"remove it\?")
        screen.press("y\n")
        self.assertEqual(0, screen.end())
        self.assertEqual([], os.listdir(self.state(self.anna)))

    def test_files_waiting_for_the_inbox_are_named_in_the_question(self):
        anna = self.anna.receive()
        self.anna.inbox.rmdir()
        self.anna.inbox.write_text("in the way")
        self.assertCode(0, self.ben.run("send", self.file("photo.jpg", 4000), "--to", anna.address))
        anna.wait_for("delivered")
        anna.signal(signal.SIGTERM)
        anna.end()
        screen = self.screen(self.anna, "identity", "destroy")
        screen.wait_for(r"remove it\?")
        self.assertRegex(screen.text, r"wait for the inbox: 1\b")
        screen.press("n\n")
        screen.end()

    def test_destroying_fails_while_another_process_uses_the_key(self):
        anna = self.anna.receive()
        before = sorted(os.listdir(self.state(self.anna)))
        refused = self.say(1, self.anna, "identity", "destroy", "--yes")
        self.assertRegex(refused, r"with this key \(process \d+\); stop it with `nearshare mesh stop`")
        self.assertEqual(before, sorted(os.listdir(self.state(self.anna))))
        self.assertCode(0, self.ben.run("send", "--text", "still here?", "--to", anna.address))
        anna.wait_for("delivered")
        anna.signal(signal.SIGTERM)
        anna.end()
        self.assertIn("are removed", self.say(0, self.anna, "identity", "destroy", "--yes"))

    def test_destroying_fails_while_a_node_runs(self):
        node = self.anna.start("mesh", "run", "--json", "--adapter", "none", "--inbox", self.anna.inbox)
        node.wait_for("ready")
        self.assertIn("`nearshare mesh stop`", self.say(1, self.anna, "identity", "destroy", "--yes"))
        self.assertTrue(self.identity(self.anna)["exists"])
        self.assertCode(0, self.anna.run("mesh", "stop"))
        node.end()
        self.assertIn("are removed", self.say(0, self.anna, "identity", "destroy", "--yes"))
        self.assertEqual([], os.listdir(self.state(self.anna)))

    def test_an_interrupted_destruction_is_completed_by_the_next_command(self):
        # Number of runs that were killed before everything was removed.
        cut = 0
        for attempt in range(6):
            self.export(self.anna, f"keys {attempt}")
            trust = self.state(self.anna) / "trust.json"
            trust.write_text("[]")
            pile = self.state(self.anna) / "spool"
            for number in range(400):
                (pile / str(number) / "items").mkdir(parents=True)
                (pile / str(number) / "items" / "0").write_bytes(b"x")
            process = subprocess.Popen(
                self.anna.command("identity", "destroy", "--yes"), env=self.anna.environment(), stderr=subprocess.DEVNULL
            )
            # Killed when a number of folders that the seed determines is removed.
            goal = self.random.randint(1, 400)
            while process.poll() is None:
                try:
                    left = len(os.listdir(pile))
                except FileNotFoundError:
                    left = 0
                if left <= 400 - goal:
                    process.kill()
                    break
            process.wait()
            left = os.listdir(self.state(self.anna))
            cut += left not in ([], ["identity.destroyed"])
            with self.subTest(attempt=attempt, seed=self.seed, left=left):
                self.assertNotIn("identity.key", left)
                self.assertFalse(self.identity(self.anna)["exists"])
                self.assertEqual([], os.listdir(self.state(self.anna)))
        self.assertGreater(cut, 0, f"seed {self.seed}: none was killed in the middle")

    @unittest.skipUnless(has_namespaces(), "a mount of its own needs root")
    def test_files_that_cannot_be_removed_are_named_and_the_key_is_removed(self):
        self.export(self.anna)
        stuck = self.state(self.anna) / "stuck"
        stuck.mkdir()
        command = [
            "unshare",
            "--mount",
            "sh",
            "-c",
            f'mount -t tmpfs none "{stuck}" && exec "$@"',
            "sh",
            *self.anna.command("identity", "destroy", "--yes"),
        ]
        result = subprocess.run(command, env=self.anna.environment(), capture_output=True, timeout=60)
        self.assertCode(1, result)
        self.assertIn("stuck cannot be removed", result.stderr.decode())
        self.assertFalse((self.state(self.anna) / "identity.key").exists())
        # Without the mount, the next command completes it.
        self.assertFalse(self.identity(self.anna)["exists"])
        self.assertEqual([], os.listdir(self.state(self.anna)))


class KeysStory(Home):
    def test_exported_keys_are_imported_on_another_machine(self):
        self.say(0, self.anna, "identity", "rename", "Anna")
        exported = self.anna.run("keys", "export")
        self.assertCode(0, exported)
        self.assertEqual(exported.stdout, self.export(self.anna).read_bytes())
        anna = self.identity(self.anna)
        said = self.say(0, self.ben, "keys", "import", "-", "--for", "annie", input=exported.stdout)
        self.assertIn(anna["id"], said)
        self.assertIn('the peer calls itself "Anna", and is called "annie" on this machine', said)
        (key,) = self.tell(self.ben, "keys", "list")
        self.assertEqual(
            ("annie", anna["fingerprint"], anna["id"], "imported", False),
            tuple(key[member] for member in ("name", "fingerprint", "id", "origin", "friend")),
        )
        shown = self.ben.run("keys").stdout.decode()
        self.assertRegex(shown, rf"annie +{anna['id']} +imported \d{{4}}-\d\d-\d\d \d\d:\d\d")
        (peer,) = self.tell(self.ben, "peers")
        self.assertEqual(("annie", "Anna", "seen"), (peer["name"], peer["claimed_name"], peer["trust"]))
        # Again, with every way of naming the owner.
        for whose in ("annie", anna["id"], anna["fingerprint"]):
            self.say(0, self.ben, "keys", "import", self.anna.home / "exported", "--for", whose)
        self.assertEqual(1, len(self.tell(self.ben, "keys")))
        self.say(0, self.ben, "friends", "add", "--unverified", "annie")
        self.assertTrue(self.tell(self.ben, "keys")[0]["friend"])
        self.assertIn("friend", self.ben.run("keys").stdout.decode())
        # As much of the id as a tag shows.
        self.assertIn("is now called aunt", self.say(0, self.ben, "peers", "rename", anna["id"][:4], "aunt"))
        self.say(0, self.ben, "keys", "forget", "aun")
        self.assertEqual([], self.tell(self.ben, "keys"))
        self.assertEqual(1, len(self.tell(self.ben, "peers")))

    def test_forgetting_a_peer_forgets_its_keys(self):
        self.say(0, self.ben, "keys", "import", self.export(self.anna), "--for", "anna")
        self.say(0, self.ben, "peers", "forget", "anna")
        self.assertEqual([], self.tell(self.ben, "keys") + self.tell(self.ben, "peers"))

    def test_K2_keys_of_another_peer_than_the_named_one_are_rejected(self):
        carla = Peer(self.place / "carla")
        self.addCleanup(carla.stop_all)
        self.say(0, self.ben, "keys", "import", self.export(self.anna), "--for", "anna")
        forged = self.export(carla)
        anna, other = self.identity(self.anna)["id"], self.identity(carla)["id"]
        for whose in ("anna", "ANNA", "an na", anna):
            with self.subTest(whose):
                words = self.say(5, self.ben, "keys", "import", forged, "--for", whose)
                self.assertIn(anna, words)
                self.assertIn(other, words)
        # One key cannot have two names.
        self.assertIn("anna", self.say(5, self.ben, "keys", "import", self.anna.home / "exported", "--for", "dora"))
        self.assertEqual([anna], [key["id"] for key in self.tell(self.ben, "keys")])
        self.assertEqual([anna], [peer["id"] for peer in self.tell(self.ben, "peers")])

    def test_keys_of_a_blocked_peer_are_rejected(self):
        exported = self.export(self.anna)
        self.say(0, self.ben, "keys", "import", exported, "--for", "anna")
        self.say(0, self.ben, "keys", "forget", "anna")
        self.say(0, self.ben, "peers", "block", "anna")
        self.assertIn("is blocked", self.say(5, self.ben, "keys", "import", exported, "--for", "anna"))
        self.assertEqual([], self.tell(self.ben, "keys"))

    def test_files_without_keys_are_rejected(self):
        exported = self.export(self.anna)
        text = exported.read_text()
        later = text.replace("keys 1", "keys 2")
        renamed = re.sub("name [0-9a-f]+", "name 657665", text)
        for content, words in (
            (b"", "not a file of exported keys"),
            (b"\xff\xfe" * 20, "not a file of exported keys"),
            (self.random.randbytes(100_000), "not a file of exported keys"),
            (later.encode(), "later version of nearshare"),
            (renamed.encode(), "changed since"),
            (text[:-40].encode(), "changed since"),
        ):
            with self.subTest(words=words, length=len(content)):
                self.assertIn(words, self.say(1, self.ben, "keys", "import", "-", "--for", "anna", input=content))
        self.assertIn("no such file", self.say(1, self.ben, "keys", "import", self.place / "missing", "--for", "anna"))
        self.assertIn("is a directory", self.say(1, self.ben, "keys", "import", self.place, "--for", "anna"))
        self.assertIn("this machine", self.say(1, self.anna, "keys", "import", exported, "--for", "me"))
        for name in ("", "n" * 64):
            self.say(5, self.ben, "keys", "import", exported, "--for", name)
        self.say(2, self.ben, "keys", "import", exported)
        self.assertEqual([], self.tell(self.ben, "keys") + self.tell(self.ben, "peers"))

    def test_an_existing_file_is_not_replaced(self):
        taken = self.place / "taken"
        taken.write_text("mine")
        self.assertIn("already exists", self.say(1, self.anna, "keys", "export", "--output", taken))
        self.assertEqual("mine", taken.read_text())
        self.assertIn("no such file", self.say(1, self.anna, "keys", "export", "--output", self.place / "no/where"))

    def test_P4_a_symbolic_link_is_not_followed(self):
        link = self.place / "link"
        link.symlink_to(self.place / "elsewhere")
        self.assertIn("already exists", self.say(1, self.anna, "keys", "export", "--output", link))
        self.assertFalse((self.place / "elsewhere").exists())

    @unittest.skipUnless(has_namespaces(), "a small disk of its own needs root")
    def test_a_full_disk_is_reported_and_leaves_no_partial_file(self):
        disk = self.place / "disk"
        disk.mkdir()
        self.export(self.anna)
        command = [
            "unshare",
            "--mount",
            "sh",
            "-c",
            f'mount -t tmpfs -o size=4k none "{disk}" && head -c 4096 /dev/zero > "{disk}/full" && {{ "$@"; c=$?; }}; '
            f'ls "{disk}"; exit $c',
            "sh",
            *self.anna.command("keys", "export", "--output", disk / "mine"),
        ]
        result = subprocess.run(command, env=self.anna.environment(), capture_output=True, timeout=60)
        self.assertCode(7, result)
        self.assertEqual(b"full\n", result.stdout)

    def test_forgetting_an_unknown_peer(self):
        self.assertIn("there are no keys of", self.say(3, self.anna, "keys", "forget", "zoe\x1b[2J"))
        self.assertNotIn("\x1b", self.say(3, self.anna, "keys", "forget", "zoe\x1b[2J"))

    def test_T1_the_name_in_a_file_of_keys_is_escaped_in_lists(self):
        self.say(0, self.anna, "identity", "rename", "a\u202enna")
        # Names that the command line rejects may still be claimed by peers.
        name = self.state(self.anna) / "name.json"
        name.write_text(name.read_text().replace("nna", "nna\\u0007"))
        self.say(0, self.ben, "keys", "import", self.export(self.anna), "--for", self.identity(self.anna)["id"])
        for command in (["keys"], ["keys", "--json"], ["peers"]):
            shown = self.ben.run(*command).stdout
            self.assertTrue(shown)
            self.assertNotIn("\u202e".encode(), shown)
            self.assertNotIn(b"\x07", shown)
            if "--json" not in command:
                self.assertIn(b'"a nna\\u{7}"', shown)


class FriendsStory(Home):
    def test_a_peer_at_an_address_becomes_a_friend_without_being_asked(self):
        anna = self.anna.receive(accept="none")
        self.assertIn("no friends yet", self.say(0, self.ben, "friends"))
        words = self.say(0, self.ben, "friends", "add", "--unverified", anna.address)
        self.assertIn(f"({anna.ready['id']}) is now a friend", words)
        (friend,) = self.tell(self.ben, "friends")
        self.assertEqual(("anna", anna.ready["id"], False), (friend["name"], friend["id"], friend["verified"]))
        self.assertIn("not verified", self.ben.run("friends").stdout.decode())
        self.assertIn("already", self.say(0, self.ben, "friends", "add", "anna"))
        self.assertEqual([], [event for event in anna.events if event["event"] == "invitation"])
        self.say(0, self.ben, "friends", "remove", "anna")
        self.assertEqual([], self.tell(self.ben, "friends"))
        # Still in the address book.
        self.assertEqual(["seen"], [peer["trust"] for peer in self.tell(self.ben, "peers")])
        self.assertIn("is not a friend", self.say(3, self.ben, "friends", "remove", "anna"))

    def test_a_known_peer_need_not_be_nearby(self):
        self.say(0, self.ben, "keys", "import", self.export(self.anna), "--for", "anna")
        self.say(0, self.ben, "friends", "add", "--unverified", "ann")
        (friend,) = self.tell(self.ben, "friends", "list")
        self.assertEqual(("anna", True), (friend["name"], friend["keys"]))

    def test_A5_an_unverified_key_needs_a_confirmation(self):
        anna = self.anna.receive()
        self.assertIn("--unverified", self.say(5, self.ben, "friends", "add", anna.address))
        self.assertEqual([], self.tell(self.ben, "friends") + self.tell(self.ben, "peers"))
        for answer, code in (("n", 5), ("y", 0)):
            screen = self.screen(self.ben, "friends", "add", anna.address)
            screen.wait_for(r"\[y\]es, \[n\]o")
            self.assertIn(anna.ready["id"], screen.text)
            screen.press(f"{answer}\n")
            self.assertEqual(code, screen.end(), screen.text)
        self.assertEqual(["anna"], [friend["name"] for friend in self.tell(self.ben, "friends")])

    def test_K2_a_peer_with_a_known_name_and_another_key_is_not_added(self):
        carla = Peer(self.place / "carla")
        self.addCleanup(carla.stop_all)
        self.say(0, self.ben, "keys", "import", self.export(self.anna), "--for", "anna")
        impostor = carla.receive()
        words = self.say(5, self.ben, "friends", "add", "--unverified", impostor.address)
        self.assertIn(self.identity(self.anna)["id"], words)
        self.assertIn(impostor.ready["id"], words)
        self.assertEqual([], self.tell(self.ben, "friends"))

    def test_a_blocked_peer_is_not_added(self):
        self.say(0, self.ben, "keys", "import", self.export(self.anna), "--for", "anna")
        self.say(0, self.ben, "peers", "block", "anna")
        self.assertIn("is blocked", self.say(5, self.ben, "friends", "add", "--unverified", "anna"))

    def test_K3_a_verified_peer_needs_no_confirmation(self):
        anna = self.screen(self.anna, "receive", "--name", "anna", "--adapter", "none")
        anna.wait_for(r"port \d+")
        port = re.search(r"port (\d+)", anna.text)[1]
        ben = self.screen(self.ben, "peers", "verify", f"127.0.0.1:{port}")
        ben.wait_for(r"are they the same\?")
        ben.press("y\n")
        anna.wait_for(r"\[y\]es")
        code = re.search(r"\d{4} \d{4}", ben.text)[0]
        self.assertIn(code, anna.text)
        anna.press("y\n")
        self.assertEqual(0, ben.end(), ben.text)
        self.assertIn("anna is verified", ben.text)
        self.say(0, self.ben, "friends", "add", "anna")
        self.assertTrue(self.tell(self.ben, "friends")[0]["verified"])
        anna.press("\x03")
        anna.end()

    def test_no_peer_nearby(self):
        self.assertCode(3, self.ben.run("friends", "add", "127.0.0.1:9"))

    def test_usage(self):
        for arguments in (["friends", "add"], ["friends", "remove"], ["keys", "forget"], ["peers", "befriend", "anna"]):
            self.assertCode(2, self.anna.run(*arguments))


@unittest.skipUnless(has_namespaces(), "network namespaces need root and iproute2")
class NearbyFriendsStory(Home, CableStory):
    def test_a_friend_by_name_whose_files_are_accepted_without_asking(self):
        anna = self.anna.receive(accept="none", name="anna")
        self.say(0, self.ben, "friends", "add", "--unverified", "--adapter", "none", "anna")
        anna.signal(signal.SIGTERM)
        anna.end()
        ben = self.ben.receive("--once", accept="friends", name="ben")
        self.assertCode(0, self.anna.run("send", "--text", "hello", "--to", "ben"))
        self.assertEqual("hello", ben.wait_for("delivered")["text"])

    def test_K2_the_user_is_told_which_of_two_peers_of_one_name_is_meant(self):
        carla = Peer(self.place / "carla", self.network.names[0])
        self.addCleanup(carla.stop_all)
        friend = self.anna.receive(name="anna")
        self.say(0, self.ben, "friends", "add", "--unverified", "--adapter", "none", "anna")
        impostor = carla.receive(name="anna")
        notice = f'2 devices nearby are called "anna"; using your friend ({friend.ready["id"]})\n'
        for text in ("one", "two"):
            words = self.say(0, self.ben, "send", "--text", text, "--to", "anna", "--adapter", "none")
            self.assertEqual(1, words.count(notice), words)
            self.assertEqual(text, friend.wait_for("delivered")["text"])
        screen = self.screen(self.ben, "peers", "verify", "anna")
        # Nobody can be asked there, so that nobody is asked here.
        screen.wait_for("nothing was compared")
        self.assertIn(notice.strip(), " ".join(screen.text.split()))
        screen.end()
        # The id of the other one selects it, and the line says how it is known.
        words = self.say(0, self.ben, "send", "--text", "x", "--to", impostor.ready["id"], "--adapter", "none")
        self.assertNotIn("devices nearby", words)
        self.assertIn("KNOWN NAME, OTHER KEY", words)
        self.assertEqual("x", impostor.wait_for("delivered")["text"])
        friend.signal(signal.SIGTERM)
        friend.end()
        screen = self.screen(self.ben, "peers", "verify", "anna")
        self.assertEqual(5, screen.end(), screen.text)
        self.assertIn(f"with another key ({impostor.ready['id']})", " ".join(screen.text.split()))

    def test_an_unknown_name(self):
        self.assertIn("no peers found", self.say(3, self.ben, "friends", "add", "anna", "--adapter", "none"))
        self.assertEqual([], self.tell(self.ben, "friends"))


if __name__ == "__main__":
    unittest.main()
