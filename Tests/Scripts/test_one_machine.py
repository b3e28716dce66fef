"""Commands on one machine: explicit addresses, exit codes, untrusted connections, full disks."""

import contextlib
import json
import os
import pathlib
import pwd
import signal
import socket
import subprocess
import unittest

from harness import BINARY, INTERRUPT, Peer, Story, address_of, digest, free_port, has_namespaces, wait_until


class OneMachineStory(Story):
    def test_text_is_shown_and_stored(self):
        anna = self.anna.receive("--once")
        self.assertCode(0, self.ben.run("send", "--text", "see you at 8", "--to", anna.address))
        self.assertEqual("see you at 8", anna.wait_for("delivered")["text"])
        self.assertEqual(0, anna.end())

    def test_an_idle_receiver_has_no_media_type_database_in_memory(self):
        anna = self.anna.receive()
        # Random content may look like that of any type.
        content = self.file("f", 0)
        content.write_bytes(bytes(1000))
        self.assertCode(0, self.ben.run("send", content, "--to", anna.address))
        self.assertEqual("application/octet-stream", anna.wait_for("delivered")["type"])
        with open(f"/proc/{anna.process.pid}/maps") as maps:
            self.assertNotIn(".mgc", maps.read())

    def test_stdout_receives_only_the_content(self):
        content = self.random.randbytes(200_000)
        source, other = self.place / "content", self.file("other", 1000)
        source.write_bytes(content)
        with open(self.place / "output", "wb") as output:
            process = subprocess.Popen(
                self.anna.command("receive", "--stdout", "--name", "anna", "--accept", "all"),
                env=self.anna.environment(),
                stdout=output,
                stderr=subprocess.PIPE,
            )
            try:
                address = address_of(process)
                # A pipe cannot separate several files.
                self.assertCode(4, self.ben.run("send", self.place, "--to", address))
                self.assertCode(4, self.ben.run("send", source, other, "--to", address))
                self.assertCode(0, self.ben.run("send", source, "--to", address))
                self.assertEqual(0, process.wait(20))
            finally:
                process.kill()
                process.communicate()
        self.assertEqual(content, (self.place / "output").read_bytes())
        history = self.anna.run("history").stdout.decode()
        self.assertRegex(history, r"200 KB +received \(to standard output\) +content\n")

    def test_several_receivers_get_one_stream(self):
        carla = Peer(self.place / "carla")
        self.addCleanup(carla.stop_all)
        content = self.random.randbytes(900_000)
        anna, other = self.anna.receive("--once"), carla.receive("--once", name="carla")
        result = self.ben.run("send", "-", "--as", "s", "--to", anna.address, "--to", other.address, input=content)
        self.assertCode(0, result)
        self.assertEqual([0, 0], [anna.end(), other.end()])
        self.assertEqual([{"s": content}] * 2, [self.anna.received(), carla.received()])

    def test_partial_failure_with_several_receivers(self):
        photo = self.file("photo.jpg", 5000)
        anna = self.anna.receive()
        result = self.ben.run("send", photo, "--to", anna.address, "--to", f"127.0.0.1:{free_port()}")
        self.assertCode(6, result)
        anna.wait_for("delivered")

    def test_usage_errors(self):
        for arguments in (
            ["send"],
            ["send", "x", "--text", "y", "--to", "z"],
            ["send", "--nonsense"],
            ["send", "", "--to", "z"],
            ["send", "x", "--exclude", "", "--to", "z"],
            ["send", "--text", "y", "--dry-run"],
            ["receive", "--accept", "maybe"],
        ):
            with self.subTest(arguments=arguments):
                self.assertCode(2, self.ben.run(*arguments))

    def test_what_is_excluded_is_neither_listed_nor_sent(self):
        for name in ("trip/a.jpg", "trip/a.tmp", "trip/cache/b.jpg", "trip/day/c.jpg"):
            self.file(name, 1000)
        patterns = self.place / "patterns"
        patterns.write_text("# thumbnails\ncache/\n cache/\n")
        trip = [self.place / "source/trip", "--exclude", "*.tmp", "--exclude-from", patterns]
        listed = self.ben.run("send", "--dry-run", *trip)
        self.assertCode(0, listed)
        lines = ["trip/", "trip/a.jpg  (1.0 KB)", "trip/day/", "trip/day/c.jpg  (1.0 KB)"]
        self.assertEqual(lines, listed.stdout.decode().splitlines())
        self.assertIn("2 files in 2 folders, 2.0 KB; nothing was sent", listed.stderr.decode())
        unused = ["send", "--dry-run", *trip, "--exclude", "none"]
        said = " ".join(self.ben.run(*unused).stderr.decode().split())
        self.assertIn("--exclude 'none' leaves nothing out", said)
        self.assertIn("patterns: ' cache/' leaves nothing out", said)
        self.assertNotIn("none", self.ben.run(*unused, "--quiet").stderr.decode())
        events = [json.loads(line) for line in self.ben.run(*unused, "--json").stdout.splitlines()]
        named = [(event["pattern"], event.get("file")) for event in events if event["event"] == "unused_exclusion"]
        self.assertEqual([("none", None), (" cache/", str(patterns))], named)
        anna = self.anna.receive()
        self.assertCode(0, self.ben.run("send", *trip, "--to", anna.address))
        anna.wait_for("finished")
        self.assertEqual({"trip/a.jpg", "trip/day/c.jpg"}, set(self.anna.received()))

    def test_an_address_of_this_machine_or_without_its_interface_is_a_wrong_argument(self):
        photo = self.file("photo.jpg", 10)
        anna = self.anna.receive()
        for address, words in (
            (anna.address, "this machine itself"),
            ("[fe80::1]:4000", "needs the interface of this machine"),
            ("[fe80::1%absent0]:4000", "there is no network interface absent0"),
        ):
            result = self.anna.run("send", photo, "--to", address)
            self.assertCode(2, result)
            self.assertIn(words, " ".join(result.stderr.decode().split()))

    def test_an_interrupted_search_is_a_failure_for_each_receiver(self):
        photo = self.file("photo.jpg", 10)
        send = self.ben.start("send", "--json", "--adapter", "none", photo, "--to", "zoe", "--to", "zora")
        missing = {"zoe", "zora"}
        while missing:
            missing.discard(send.wait_for("searching")["peer"])
        send.signal(signal.SIGINT)
        for name in ("zoe", "zora"):
            failed = send.wait_for("failed", lambda event, name=name: event["peer"] == name)
            self.assertEqual(130, failed["exit_code"])
        self.assertEqual(130, send.process.wait(30))

    def test_what_is_named_twice_is_sent_once(self):
        photo = self.file("trip/a.jpg", 1000)
        again = photo.parent / "../trip/a.jpg"
        for paths in ([photo, again], [photo.parent, photo]):
            listed = self.ben.run("send", "--dry-run", *paths)
            self.assertCode(0, listed)
            self.assertEqual(1, listed.stdout.decode().count("a.jpg"))
            self.assertIn("is sent once", " ".join(listed.stderr.decode().split()))
        # The folder is sent without it.
        listed = self.ben.run("send", "--dry-run", "--exclude", "trip/*.jpg", photo.parent, photo)
        self.assertCode(0, listed)
        self.assertEqual(1, listed.stdout.decode().count("a.jpg"))

    def test_no_peer_nearby(self):
        photo = self.file("photo.jpg", 10)
        self.assertCode(3, self.ben.run("send", photo, "--to", f"127.0.0.1:{free_port()}"))

    def test_an_adapter_that_does_not_exist_is_an_error(self):
        for command in (("browse",), ("send", "--text", "x", "--to", "anna")):
            result = self.ben.run(*command, "--adapter", "hci7")
            self.assertCode(1, result)
            self.assertIn("there is no Bluetooth adapter hci7; this machine has", result.stderr.decode())

    @unittest.skipUnless(has_namespaces(), "needs root")
    def test_the_doctor_run_through_sudo_looks_at_the_users_settings(self):
        entry = pwd.getpwnam("nobody")
        accounts = self.place / "passwd"
        accounts.write_text(
            f"root:x:0:0::{self.anna.home}:/bin/sh\nnobody:x:{entry.pw_uid}:{entry.pw_gid}::{self.ben.home}:/bin/sh\n"
        )

        def doctor():
            environment = {"PATH": os.environ["PATH"], "HOME": str(self.anna.home), "SUDO_UID": str(entry.pw_uid)}
            script = 'mount --bind "$0" /etc/passwd && exec "$@"'
            command = ["unshare", "--mount", "sh", "-c", script, accounts, str(BINARY), "doctor", "--adapter", "none"]
            result = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)
            self.assertEqual([], list(self.anna.home.rglob("*")), result.stderr)
            return result.stdout.decode()

        for path in (self.place, self.ben.home):
            path.chmod(0o755)
        os.chown(self.ben.home, entry.pw_uid, entry.pw_gid)
        text = doctor()
        self.assertIn("run by root for nobody", text)
        self.assertIn("nobody has not used nearshare yet", text)
        self.assertEqual([], list(self.ben.home.rglob("*")))
        configuration = self.ben.home / ".config" / "nearshare" / "config.toml"
        configuration.parent.mkdir(parents=True)
        configuration.write_text(f'inbox = "{self.ben.home}/Mine"\n')
        (self.ben.home / ".local" / "state" / "nearshare").mkdir(parents=True)
        for path in self.ben.home.rglob("*"):
            os.chown(path, entry.pw_uid, entry.pw_gid)
        self.assertIn(f"{self.ben.home}/Mine is made when something arrives", doctor())
        self.assertFalse((self.ben.home / "Mine").exists())
        self.assertEqual([], list(self.ben.home.rglob("identity.key")) + list(self.ben.home.rglob("localsend.pem")))
        self.assertEqual({entry.pw_uid}, {path.stat().st_uid for path in self.ben.home.rglob("*")})

    def command_file(self, text):
        path = self.place / "command"
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return path

    def test_a_command_runs_for_each_item_that_has_arrived(self):
        log = self.place / "log"
        command = self.command_file(f"""
            test -e "$3" && touch {log}.outside
            printf '%s\\n' "$1" "$2" "$3" "$#" "$NEARSHARE_NAME" "$NEARSHARE_SIZE" "$NEARSHARE_KIND" >> {log}
            echo "$NEARSHARE_PEER_NAME" "$NEARSHARE_PATH" >> {log}; echo said""")
        anna = self.anna.receive("--once", "--exec", command, "--once", "two words")
        name = "a $(touch pwned) b.txt"
        self.assertCode(0, self.ben.run("identity", "rename", "ben"))
        self.assertCode(0, self.ben.run("send", self.file(name, 10), "--to", anna.address))
        path = anna.wait_for("delivered")["path"]
        self.assertEqual(0, anna.end())
        expected = ["--once", "two words", path, "3", name, "10", "file", f"ben {path}"]
        self.assertEqual(expected, log.read_text().splitlines())
        self.assertTrue(pathlib.Path(f"{log}.outside").exists())
        self.assertIn("said\n", anna.errors)
        self.assertFalse(any(event["event"] == "not-json" for event in anna.events))

    def test_a_command_that_fails_is_reported_and_the_next_one_runs(self):
        log = self.place / "log"
        command = self.command_file(f'test "$NEARSHARE_NAME" = one && exit 3; echo "$NEARSHARE_NAME" >> {log}')
        anna = self.anna.receive("--exec", command)
        for name in ("one", "two"):
            self.assertCode(0, self.ben.run("send", self.file(name, 10), "--to", anna.address))
        self.assertCode(0, self.ben.run("send", self.file("tree/file", 10).parent, "--to", anna.address))
        wait_until(lambda: log.exists() and sorted(log.read_text().split()) == ["tree", "two"], "the log")
        wait_until(lambda: any("one ended with status 3" in line for line in anna.errors), "the failure")
        anna.signal(INTERRUPT)
        self.assertEqual(130, anna.end())
        result = self.anna.run("receive", "--adapter", "none", "--exec", self.place / "missing", "-x")
        self.assertCode(2, result)
        self.assertIn("missing: no such file or directory", result.stderr.decode())
        removed = self.command_file("true")
        missing = self.anna.receive("--once", "--exec", removed)
        removed.unlink()
        self.assertCode(0, self.ben.run("send", self.file("three", 10), "--to", missing.address))
        self.assertEqual(0, missing.end())
        self.assertIn("could not be started: no such file or directory", "".join(missing.errors))

    def test_L1_a_command_in_the_inbox_is_refused(self):
        self.anna.inbox.mkdir(parents=True, exist_ok=True)
        script = self.anna.inbox / "handle.py"
        script.write_text("print()")
        result = self.anna.run("receive", "--adapter", "none", "--inbox", self.anna.inbox, "--exec", "python3", script)
        self.assertCode(2, result)
        self.assertIn("handle.py is in the inbox, where files of others arrive", result.stderr.decode())

    def test_a_command_that_does_not_end_stops_neither_receive_nor_its_end(self):
        log = self.place / "log"
        command = self.command_file(f"echo $$ >> {log}; exec sleep 60")
        anna = self.anna.receive("--exec", command)
        for number in range(6):
            self.assertCode(0, self.ben.run("send", self.file(f"f{number}", 10), "--to", anna.address))
        wait_until(lambda: log.exists() and len(log.read_text().split()) == 4, "four commands")
        anna.signal(INTERRUPT)
        self.assertEqual(130, anna.end())
        processes = log.read_text().split()
        self.assertEqual(4, len(processes), "at most four at a time")
        for process in processes:
            os.kill(int(process), signal.SIGKILL)

    def test_a_declined_offer_runs_no_command(self):
        log = self.place / "log"
        anna = self.anna.receive("--exec", self.command_file(f"touch {log}"), accept="friends")
        self.assertCode(4, self.ben.run("send", self.file("x", 10), "--to", anna.address))
        anna.signal(INTERRUPT)
        anna.end()
        self.assertFalse(log.exists())

    def test_the_history_has_both_directions(self):
        self.assertCode(0, self.ben.run("identity", "rename", "ben"))
        anna = self.anna.receive()
        for name in ("one", "two"):
            self.assertCode(0, self.ben.run("send", self.file(name, 10), "--to", anna.address))
        anna.signal(INTERRUPT)
        anna.end()
        ben = self.ben.receive(accept="none", name="ben")
        self.assertCode(4, self.anna.run("send", self.file("three", 10), "--to", ben.address))

        def events(peer, *arguments):
            result = peer.run("history", "--json", *arguments)
            self.assertCode(0, result)
            return [json.loads(line) for line in result.stdout.splitlines()]

        found = [(each["direction"], each["outcome"], each["size"], each["peer"]) for each in events(self.anna)]
        identifier = ben.ready["id"]
        both = [("received", "completed", 10, identifier)] * 2
        self.assertEqual([*both, ("sent", "declined", 0, identifier)], found)
        self.assertEqual(
            [str(self.anna.inbox / "two")], [each["path"] for each in events(self.anna, "--received", "--limit", "1")]
        )
        self.assertEqual(["one", "two"], [each["content"] for each in events(self.ben, "--peer", "anna", "--sent")])
        self.assertEqual([], events(self.ben, "--peer", "anna", "--received"))
        silent = self.ben.run("history", "--peer", "anna", "--received")
        self.assertEqual((0, b"nothing was received from anna yet\n"), (silent.returncode, silent.stderr))
        self.assertCode(3, self.anna.run("history", "--peer", "cleo"))
        text = self.anna.run("history").stdout.decode()
        self.assertRegex(text, r"from  ben +10 B  received  .*/Inbox/one\n")
        self.assertRegex(text, r"to    .* 10 B  declined \(accepts nothing from this machine\)  three\n")

    def test_the_history_has_what_was_sent_again(self):
        anna = self.anna.receive()
        one = self.file("one", 10)
        for _ in range(2):
            self.assertCode(0, self.ben.run("send", one, "--to", anna.address))
        anna.signal(INTERRUPT)
        anna.end()
        text = self.anna.run("history").stdout.decode()
        self.assertEqual(1, text.count("Inbox/one"), text)
        self.assertRegex(text, r"from +\S+ +- +nothing new +one\n")

    def test_the_inbox_opens_and_removes_items(self):
        self.assertCode(0, self.ben.run("identity", "rename", "ben"))
        anna = self.anna.receive()
        for name in ("a.txt", "b.txt", "run.sh"):
            path = self.place / "source" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text("text\n" * 10)
            self.assertCode(0, self.ben.run("send", path, "--to", anna.address))
        self.file("tree/file", 10)
        self.assertCode(0, self.ben.run("send", self.place / "source" / "tree", "--to", anna.address))
        self.file("trip (2)/file", 10)
        self.assertCode(0, self.ben.run("send", self.place / "source" / "trip (2)", "--to", anna.address))
        anna.signal(INTERRUPT)
        anna.end()
        log = self.place / "log"
        signals = self.place / "signals"
        # Read by the shell itself, which blocks signals while it starts another program.
        opener = self.command_file(f"""
            printf '%s\\n' "$@" >> {log}
            while read -r line; do
                case $line in SigBlk:*|SigIgn:*) echo "$line" >> {signals} ;; esac
            done < /proc/self/status""")
        configuration = self.anna.home / "config" / "nearshare" / "config.toml"
        configuration.parent.mkdir(parents=True)
        configuration.write_text(f'[open]\n"text/*" = "{opener} --flag"\n"inode/directory" = "{opener}"\n')
        # Completion writes a slash behind the name of a folder.
        self.assertCode(0, self.anna.run("inbox", "rm", "--yes", "trip (2)/"))
        self.assertFalse((self.anna.inbox / "trip (2)").exists())
        self.assertCode(0, self.anna.run("inbox", "open", "a.txt"))
        self.assertCode(0, self.anna.run("inbox", "open"))
        self.assertEqual(["--flag", str(self.anna.inbox / "a.txt"), str(self.anna.inbox / "tree")], log.read_text().split())
        # The program has the usual actions of all signals, none of which is blocked. The C library keeps 32 and 33
        # for itself: no program can change what it inherits for them.
        kept = 1 << 31 | 1 << 32
        self.assertEqual({0}, {int(line.split()[1], 16) & ~kept for line in signals.read_text().splitlines()})
        # Without a terminal nobody can be asked about what may start programs.
        result = self.anna.run("inbox", "open", "run.sh")
        self.assertCode(1, result)
        self.assertIn("can start programs when opened, and there is no terminal", result.stderr.decode())
        self.assertCode(1, self.anna.run("inbox", "open", "c.txt"))
        self.assertCode(2, self.anna.run("inbox", "rm", "a.txt"))
        # What is not there does not keep the others.
        result = self.anna.run("inbox", "rm", "--yes", "absent", "a.txt")
        self.assertCode(6, result)
        self.assertIn("absent is no received item", result.stderr.decode())
        self.assertFalse((self.anna.inbox / "a.txt").exists())
        self.assertCode(1, self.anna.run("inbox", "rm", "--yes", "absent"))
        self.assertCode(0, self.anna.run("inbox", "rm", "--yes", self.anna.inbox / "tree"))
        (self.anna.inbox / "b.txt").unlink()
        # The list forgets what was removed, and the history does not.
        self.assertEqual({"b.txt", "run.sh"}, set(self.listed("inbox")))
        history = self.listed("history")
        self.assertEqual({"a.txt": True, "b.txt": False, "run.sh": False, "tree": True, "trip (2)": True}, history)
        lines = self.anna.run("history").stdout.decode()
        self.assertIn("a.txt  (removed)", lines)
        self.assertNotIn("run.sh  (removed)", lines)
        result = self.anna.run("inbox", "clean")
        self.assertCode(0, result)
        self.assertIn("4 records removed", result.stderr.decode())
        self.assertEqual({"run.sh": False}, self.listed("history"))
        self.assertEqual(["run.sh"], list(self.anna.received()))
        self.assertEqual(f"{self.anna.inbox}/run.sh\n", self.anna.run("inbox", "--paths").stdout.decode())

    def listed(self, command):
        """Whether each received item is removed, by its name."""
        events = map(json.loads, self.anna.run(command, "--json").stdout.splitlines())
        return {pathlib.Path(event["path"]).name: event.get("removed", False) for event in events}

    def test_a_tilde_behind_an_equals_sign_is_the_home_directory(self):
        anna = self.anna.start("receive", "--json", "--name", "anna", "--accept", "all", "--inbox=~/In")
        port = anna.wait_for("ready")["port"]
        self.assertCode(0, self.ben.run("send", self.file("f", 10), "--to", f"127.0.0.1:{port}"))
        self.assertEqual(str(self.anna.home / "In/f"), anna.wait_for("delivered")["path"])

    def test_paths_have_no_double_slash(self):
        self.file("trip/a", 10)
        os.mkfifo(self.place / "source/trip/fifo")
        result = self.ben.run("send", "--dry-run", f"{self.place}/source/trip//")
        self.assertIn(f"{self.place}/source/trip/fifo", result.stderr.decode())

    def test_missing_source_files(self):
        result = self.ben.run("send", self.place / "missing", "--to", "127.0.0.1:9")
        self.assertCode(1, result)
        self.assertIn("missing", result.stderr.decode())
        there = self.file("there.txt", 1)
        for options in ([], ["--dry-run"]):
            result = self.ben.run("send", there, self.place / "missing", *options, "--to", self.anna.receive().address)
            self.assertCode(6, result)
            self.assertIn("1 file or folder could not be read and was left out", result.stderr.decode())
            address = self.anna.receive().address
            result = self.ben.run("send", "--json", there, self.place / "missing", *options, "--to", address)
            events = [json.loads(line) for line in result.stdout.splitlines()]
            left_out = [event["reason"] for event in events if event["event"] == "left_out"]
            self.assertRegex("".join(left_out), "missing: no such file or directory")

    def test_what_is_left_out_without_a_description_is_counted(self):
        self.file("trip/a", 10)
        for number in range(103):
            (self.place / "source/trip" / f"link {number}").symlink_to("a")
        result = self.ben.run("send", "--dry-run", self.place / "source/trip")
        self.assertCode(0, result)
        lines = [line for line in result.stderr.decode().splitlines() if "left out: " in line]
        self.assertEqual(101, len(lines))
        self.assertEqual("nearshare: left out: 3 more", lines[-1])
        result = self.ben.run("send", "--dry-run", "--json", self.place / "source/trip")
        events = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual(100, sum(event["event"] == "left_out" for event in events))
        self.assertEqual([3], [event["count"] for event in events if event["event"] == "left_out_more"])

    def test_a_receiver_that_another_command_ends_says_so(self):
        receiver = self.anna.start("receive", "--name", "anna", "--accept", "all", "--inbox", self.anna.inbox)
        for _ in range(300):
            if self.anna.run("mesh", "status").returncode == 0:
                break
        self.assertCode(0, self.anna.run("mesh", "stop"))
        self.assertEqual(0, receiver.end())
        self.assertIn("`nearshare mesh stop` ends this node", "".join(receiver.errors))

    def test_a_given_name_is_shown_and_the_inbox_lists_the_latest(self):
        self.assertCode(0, self.ben.run("identity", "rename", "ben-laptop"))
        anna = self.anna.receive()
        names = ("one.txt", "two.txt", "three.txt")
        for name in names:
            self.assertCode(0, self.ben.run("send", self.file(name, 3), "--to", anna.address))
            if name == "one.txt":
                self.assertCode(0, self.anna.run("peers", "rename", "ben-laptop", "Ben"))
        self.assertCode(0, self.ben.run("send", "--text", "hi", "--to", anna.address))
        (self.anna.inbox / "two.txt").unlink()
        inbox = self.anna.run("inbox").stdout.decode()
        self.assertIn("  Ben  ", inbox)
        self.assertNotIn("ben-laptop", inbox)
        self.assertEqual(1, inbox.count("(no longer there)"))
        paths = self.anna.run("inbox", "--last", "3", "--paths").stdout.decode().splitlines()
        self.assertEqual([str(self.anna.inbox / name) for name in ("three.txt", "message.txt")], paths)
        self.assertCode(2, self.anna.run("inbox", "--last", "0"))

    @unittest.skipUnless(os.geteuid() == 0, "needs to give up the capabilities of user 0")
    def test_user_0_without_capabilities_is_told_what_it_cannot_read(self):
        anna = self.anna.receive()
        trip = self.place / "trip"
        trip.mkdir()
        (trip / "open").write_text("a")
        (trip / "secret").write_text("b")
        (trip / "secret").chmod(0)
        without = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
        result = subprocess.run(
            [*without, *self.ben.command("send", trip, "--to", anna.address)],
            env=self.ben.environment(),
            capture_output=True,
            timeout=60,
        )
        self.assertCode(6, result)
        self.assertIn("trip/secret: permission denied", result.stderr.decode())
        anna.wait_for("delivered")
        self.assertEqual(["open"], [path.name for path in (self.anna.inbox / "trip").iterdir()])

    def test_mistakes_are_told_with_what_to_do(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        result = self.ben.run("send", self.file("a", 10), "--to", f"127.0.0.1:{port}")
        self.assertCode(3, result)
        self.assertIn(f"that `nearshare receive` runs there, that port {port} is the one", result.stderr.decode())
        self.assertCode(2, self.ben.run("send", "--text", "", "--to", "anna"))
        result = self.ben.run("voice", "--input", self.place / "missing.wav", "--to", "nobody")
        self.assertIn("could not read", result.stderr.decode())
        self.assertNotIn("not found", result.stderr.decode())
        anna = self.anna.receive()
        text = self.file("a.txt", 0)
        # Random bytes may look like those of a program.
        text.write_text("a text\n")
        self.assertCode(0, self.ben.run("send", text, "--to", anna.address))
        anna.wait_for("delivered")
        result = self.anna.run("inbox", "open")
        self.assertCode(1, result)
        self.assertRegex(result.stderr.decode(), r"^nearshare: there is no desktop to open .*a\.txt on")

    def test_equal_names_are_numbered(self):
        anna = self.anna.receive()
        for _ in range(2):
            self.assertCode(0, self.ben.run("send", self.file("photo.jpg", 4000), "--to", anna.address))
            anna.wait_for("delivered")
        self.assertEqual({"photo.jpg", "photo (2).jpg"}, set(self.anna.received()))

    def test_friends_only(self):
        photo = self.file("photo.jpg", 4000)
        anna = self.anna.receive("--once")
        self.assertCode(0, self.ben.run("send", photo, "--to", anna.address))
        anna.end()
        anna = self.anna.receive(accept="friends")
        self.assertCode(4, self.ben.run("send", photo, "--to", anna.address))
        identity = json.loads(self.ben.run("identity", "show", "--json").stdout)
        # A5: the code was not compared, and there is no terminal to ask on.
        self.assertCode(5, self.anna.run("friends", "add", identity["id"]))
        self.assertCode(4, self.ben.run("send", photo, "--to", anna.address))
        self.assertCode(0, self.anna.run("friends", "add", "--unverified", identity["id"]))
        self.assertCode(0, self.ben.run("send", photo, "--to", anna.address))
        self.assertCode(0, self.anna.run("peers", "block", identity["id"]))
        before = set(self.anna.received())
        self.assertCode(4, self.ben.run("send", photo, "--to", anna.address))
        self.assertEqual(before, set(self.anna.received()))

    def test_K2_a_known_name_with_another_key_stops_the_transfer(self):
        photo = self.file("photo.jpg", 4000)
        anna = self.anna.receive()
        self.assertCode(0, self.ben.run("send", photo, "--to", anna.address))
        anna.wait_for("finished")
        (self.ben.home / "state/nearshare/identity.key").unlink()
        self.assertCode(5, self.ben.run("send", photo, "--to", anna.address))
        anna.signal(INTERRUPT)
        anna.end()
        self.assertTrue(any("another key" in line for line in anna.errors), anna.story())

    def test_K8_a_key_readable_by_others_is_rejected(self):
        self.assertCode(0, self.ben.run("keys", "export"))
        key = self.ben.home / "state/nearshare/identity.key"
        self.assertEqual(0o600, key.stat().st_mode & 0o777)
        key.chmod(0o644)
        result = self.ben.run("identity")
        self.assertCode(1, result)
        self.assertIn("can be read by others", result.stderr.decode())

    def test_max_size(self):
        anna = self.anna.receive("--max-size", "1KB")
        self.assertCode(7, self.ben.run("send", self.file("photo.jpg", 4000), "--to", anna.address))
        result = self.ben.run("send", "-", "--to", anna.address, input=b"x" * 5000)
        self.assertCode(7, result)
        self.assertIn("accepts; see --max-size", result.stderr.decode())
        finished = anna.wait_for("finished", lambda event: event["outcome"] == "failed")
        self.assertIn("more than the limit of 1.0 KB", finished["detail"])
        self.assertEqual({}, self.anna.received())

    def test_R8_the_quota_of_a_peer_limits_transfers_accepted_without_asking(self):
        anna = self.anna.receive("--max-per-peer", "14KB")
        self.assertCode(0, self.ben.run("send", self.file("one.jpg", 4000), "--to", anna.address))
        self.assertCode(7, self.ben.run("send", self.file("two.jpg", 4000), "--to", anna.address))
        self.assertCode(7, self.ben.run("send", "-", "--to", anna.address, input=b"x"))
        self.assertCode(0, self.ben.run("send", self.file("three.jpg", 900), "--to", anna.address))
        self.assertEqual({"one.jpg", "three.jpg"}, set(self.anna.received()))

    def test_T1_T3_names_are_escaped_for_the_terminal(self):
        name = "a\x1b]0;owned\x07\x1b[31m\u202egpj.exe"
        source = self.file("plain", 10)
        hostile = source.with_name(name)
        source.rename(hostile)
        anna = self.anna.receive()
        result = self.ben.run("send", hostile, "--to", anna.address)
        self.assertCode(0, result)
        delivered = anna.wait_for("delivered")
        spoken = result.stdout + result.stderr + "".join(anna.errors).encode()
        for raw in (b"\x1b]", b"\x07", "\u202e".encode()):
            self.assertNotIn(raw, spoken)
            self.assertNotIn(raw, delivered["path"].encode())

    def test_P5_hidden_names_are_not_created(self):
        source = self.file(".bashrc", 10)
        anna = self.anna.receive()
        self.assertCode(0, self.ben.run("send", source, "--to", anna.address))
        anna.wait_for("delivered")
        self.assertEqual(["_bashrc"], list(self.anna.received()))

    def test_P6_P12_modes(self):
        source = self.file("tool", 10)
        source.chmod(0o4777)
        anna = self.anna.receive()
        self.assertCode(0, self.ben.run("send", source, "--to", anna.address))
        self.assertEqual(0o600, os.stat(anna.wait_for("delivered")["path"]).st_mode & 0o7777)
        # What is there already keeps its own mode.
        source.write_bytes(b"other")
        self.assertCode(0, self.ben.run("send", source, "--keep-modes", "--to", anna.address))
        self.assertEqual(0o644, os.stat(anna.wait_for("delivered")["path"]).st_mode & 0o7777)
        self.assertEqual(0o700, self.anna.inbox.stat().st_mode & 0o777)

    def test_P6_links_stay_inside(self):
        self.file("tree/a", 10)
        tree = self.place / "source/tree"
        (tree / "inside").symlink_to("a")
        (tree / "outside").symlink_to("/etc/passwd")
        (tree / "upwards").symlink_to("../../x")
        anna = self.anna.receive()
        result = self.ben.run("send", tree, "--links", "--to", anna.address)
        self.assertCode(0, result)
        anna.wait_for("delivered")
        self.assertEqual({"a", "inside"}, set(os.listdir(self.anna.inbox / "tree")))
        self.assertEqual("a", os.readlink(self.anna.inbox / "tree/inside"))

    def test_P10_the_inbox_may_be_a_symbolic_link_or_missing(self):
        real = self.place / "elsewhere"
        real.mkdir()
        self.anna.inbox.symlink_to(real)
        anna = self.anna.receive()
        self.assertCode(0, self.ben.run("send", self.file("f", 10), "--to", anna.address))
        anna.wait_for("delivered")
        self.assertEqual(["f"], os.listdir(real))

    def test_an_unavailable_inbox_loses_nothing(self):
        anna = self.anna.receive()
        self.anna.inbox.rmdir()
        self.anna.inbox.write_text("in the way")
        photo = self.file("photo.jpg", 4000)
        self.assertCode(0, self.ben.run("send", photo, "--to", anna.address))
        waiting = anna.wait_for("delivered")
        self.assertFalse(waiting["in_inbox"])
        self.assertEqual(digest(photo), digest(waiting["path"]))
        anna.process.kill()
        anna.end()
        self.anna.inbox.unlink()
        back = self.anna.receive()
        self.assertTrue(back.wait_for("delivered")["in_inbox"])
        self.assertEqual({"photo.jpg": photo.read_bytes()}, self.anna.received())

    @unittest.skipUnless(has_namespaces(), "a small disk of its own needs root")
    def test_R8_a_full_disk_keeps_received_content_for_resuming(self):
        self.anna.inbox.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=80m", "tmpfs", self.anna.inbox], check=True)
        self.addCleanup(subprocess.run, ["umount", self.anna.inbox])
        anna = self.anna.receive()
        big = self.file("big.bin", 30_000_000)
        result = self.ben.run("send", big, "--to", anna.address)
        self.assertCode(7, result)
        self.assertEqual([], [name for name in os.listdir(self.anna.inbox) if not name.startswith(".")])
        self.assertCode(0, self.ben.run("send", self.file("small", 1000), "--to", anna.address))

    @unittest.skipUnless(has_namespaces(), "hiding a library needs root")
    def test_without_libavahi_and_libsystemd_addresses_still_work(self):
        anna = self.anna.receive()
        for name in ("libavahi-core.so.7", "libsystemd.so.0"):
            self.ben.hide(name)
        self.assertCode(0, self.ben.run("send", self.file("f", 1000), "--to", anna.address))
        result = self.ben.run("browse")
        self.assertCode(1, result)
        self.assertIn(b"install it (Debian: libavahi-core7)", result.stderr)

    def invalid_clients(self, port):
        yield "silence", b""
        yield "http", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
        yield "noise", self.random.randbytes(4096)
        yield "right magic, then noise", b"NSHR\x01\x01\0\0" + self.random.randbytes(4096)
        yield "right magic, endless message", b"NSHR\x01\x01\0\0\xff\xff" + b"x" * 70000

    def test_R5_untrusted_connections_do_no_harm(self):
        anna = self.anna.receive()
        port = anna.ready["port"]
        held = []
        for what, words in self.invalid_clients(port):
            with self.subTest(client=what):
                client = socket.create_connection(("127.0.0.1", port), timeout=10)
                held.append(client)
                try:
                    client.sendall(words)
                except ConnectionError:
                    pass
        self.assertCode(0, self.ben.run("send", self.file("f", 1000), "--to", anna.address))
        anna.wait_for("delivered")
        for client in held:
            client.close()

    def test_R3_links_that_wait_for_a_stopped_receiver_are_limited(self):
        inbox = ("--inbox", self.anna.inbox, "--adapter", "none", "--json")
        node = self.anna.start("mesh", "run", "--name", "anna", "--accept", "none", *inbox)
        port = node.wait_for("ready")["port"]
        receiver = self.anna.start("receive", "--accept", "all", *inbox)
        self.assertEqual(port, receiver.wait_for("ready")["port"])
        receiver.signal(signal.SIGSTOP)
        try:
            with contextlib.ExitStack() as stack:
                for _ in range(600):
                    link = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
                    link.sendall(b"X")
                # The node has given up the receiver, and answers by itself: these bytes are no link.
                self.assertEqual(b"", link.recv(1))
                self.assertLess(len(os.listdir(f"/proc/{node.process.pid}/fd")), 200)
        finally:
            receiver.signal(signal.SIGCONT)
        self.assertCode(0, self.anna.run("mesh", "status"))

    def test_C5_the_node_serves_what_a_stopped_receiver_does_not_claim(self):
        inbox = ("--adapter", "none", "--accept", "all", "--json")
        node = self.anna.start("mesh", "run", "--name", "anna", "--inbox", self.place / "node", *inbox)
        address = f"127.0.0.1:{node.wait_for('ready')['port']}"
        receiver = self.anna.start("receive", "--inbox", self.anna.inbox, *inbox)
        receiver.wait_for("ready")
        receiver.signal(signal.SIGSTOP)
        try:
            for name in ("first", "second"):
                self.assertCode(0, self.ben.run("send", self.file(name, 1000), "--to", address))
            self.assertEqual({"first", "second"}, set(os.listdir(self.place / "node")))
        finally:
            receiver.signal(signal.SIGCONT)
        # It finds the first link served already, and is offered links again.
        wait_until(lambda: self.sent_to_receiver(receiver, address), "the receiver to serve a link")
        self.assertIsNone(node.process.poll())

    def sent_to_receiver(self, receiver, address):
        self.assertCode(0, self.ben.run("send", "--text", "are you back?", "--to", address))
        return any(event["event"] == "delivered" for event in receiver.events)

    def test_Q7_deep_folders_over_two_links_arrive_in_spite_of_a_low_soft_limit_of_descriptors(self):
        def descriptors():
            return len(os.listdir(f"/proc/{anna.process.pid}/fd"))

        anna = self.anna.receive()
        idle = descriptors()
        anna.signal(signal.SIGTERM)
        anna.end()
        # Enough to wait for senders, and not for what two of them take.
        self.anna.soft_descriptor_limit = idle + 4
        anna = self.anna.receive()
        limits = pathlib.Path(f"/proc/{anna.process.pid}/limits").read_text()
        soft, hard = next(line.split()[3:5] for line in limits.splitlines() if line.startswith("Max open files"))
        self.assertEqual(min(int(hard), 8192), int(soft))
        contents = {}
        for name in ("one", "two"):
            path = pathlib.Path(name, *(f"level {depth}" for depth in range(100)), "file")
            contents[str(path)] = self.file(path, 400_000).read_bytes()
        carol = Peer(self.place / "carol")
        self.addCleanup(carol.stop_all)
        self.assertCode(0, carol.run("identity", "rename", "carol"))
        senders = [
            peer.start("send", "--limit", "200K", self.place / "source" / name, "--to", anna.address)
            for peer, name in ((self.ben, "one"), (carol, "two"))
        ]
        wait_until(lambda: descriptors() > idle + 4, "more descriptors than the soft limit")
        self.assertEqual([0, 0], [sender.end() for sender in senders])
        self.assertEqual(contents, self.anna.received())

    def test_A10_a_file_that_grows_is_sent_as_it_was_offered_and_a_mixture_of_two_contents_is_not(self):
        for name, first, code in (("log", b"", 0), ("image", b"changed", 8)):
            source = self.file(name, 3_000_000)
            content = source.read_bytes()
            anna = self.anna.receive()
            ben = self.ben.start("send", "--json", "--limit", "1M", source, "--to", anna.address)
            ben.wait_for("progress", lambda event: event["done"] > 1_000_000)
            with open(source, "r+b") as file:
                file.write(first)
                file.seek(0, os.SEEK_END)
                file.write(b"more")
            self.assertEqual(code, ben.end())
            anna.signal(INTERRUPT)
            anna.end()
            if code == 0:
                self.assertEqual({"log": content}, self.anna.received())
            else:
                self.assertIn("image was changed while it was being sent; send it again", "".join(ben.errors))
                self.assertNotIn("image", self.anna.received())

    def test_settings_that_name_what_does_not_exist_are_errors(self):
        configuration = self.anna.home / "config" / "nearshare" / "config.toml"
        configuration.parent.mkdir(parents=True)
        configuration.write_text('interface = "absent0"\nprofile = "absent"\n')
        for arguments in (["config"], ["config", "--json"]):
            result = self.anna.run(*arguments)
            self.assertCode(1, result)
            words = result.stderr.decode()
            self.assertIn(f"{configuration}: interface: there is no network interface absent0", words)
            self.assertIn(f"{configuration}: profile: there is no profile absent; choose one of ", words)
            self.assertIn("absent0", result.stdout.decode())
        configuration.write_text('interface = "lo"\n')
        self.assertCode(0, self.anna.run("config"))

    def send_to_server(self, greeting, code):
        """The errors of a send to a server that greets with these bytes."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            ben = self.ben.start("send", self.file("f", 10), "--to", f"127.0.0.1:{port}")
            link, _ = server.accept()
            with link:
                link.recv(1024)
                link.sendall(greeting)
                self.assertEqual(code, ben.end())
        return "".join(ben.errors)

    def test_a_connection_that_ends_in_the_handshake_is_tried_again(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(30)
            to = f"127.0.0.1:{server.getsockname()[1]}"
            ben = self.ben.start("send", self.file("f", 10), "--to", to)
            server.accept()[0].close()
            link, _ = server.accept()
            with link:
                link.recv(1024)
                link.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
                self.assertEqual(11, ben.end())
            errors = "".join(ben.errors)
            self.assertIn("during the handshake; trying again", errors)
            self.assertIn("does not speak nearshare", errors)
            ben = self.ben.start("send", self.file("f", 10), "--to", to, "--retry", "0")
            server.accept()[0].close()
            self.assertEqual(10, ben.end())

    def test_an_incompatible_version_is_reported_clearly(self):
        self.assertIn("versions 8 to 9", self.send_to_server(b"NSHR\x09\x08\0\0", 11))

    def test_a_server_of_another_protocol_is_reported_clearly(self):
        self.assertIn("does not speak nearshare", self.send_to_server(b"SSH-2.0-OpenSSH_9.2\r\n", 11))


if __name__ == "__main__":
    unittest.main()
