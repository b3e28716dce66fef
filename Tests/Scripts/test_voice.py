"""Voice notes end to end: recorded through the real sound libraries from virtual devices, sent from process to process,
played on a null sink, and checked by opusinfo, ffprobe and correlation."""

import contextlib
import ctypes
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unittest

from bitchat_peer import BitchatPeer
from harness import Peer, Story, address_of, has_namespaces

try:
    from sound_machine import (
        FileDevices,
        Listener,
        SoundServer,
        ffprobe,
        likeness,
        missing_tools,
        opusinfo,
        read_sound,
        reference,
        speech,
        tone,
        wait_until,
        with_silence,
        without_silence,
        write_wave,
    )

    MISSING = missing_tools()
except ImportError:
    MISSING = ["python3-numpy"]


class VoicePeer(Peer):
    """A user whose machine has sound devices."""

    def __init__(self, home, devices):
        super().__init__(home)
        self.devices = devices

    def environment(self):
        return super().environment() | {"XDG_DATA_HOME": str(self.home / "data")} | self.devices


@unittest.skipIf(MISSING, f"needs {', '.join(MISSING)}")
class VoiceStory(Story):
    devices = {}

    def people(self):
        # No sound server and no ALSA device, unless a test has them.
        nothing = {"PULSE_SERVER": f"unix:{self.place}/absent", "ALSA_CONFIG_PATH": "/dev/null"}
        self.anna = VoicePeer(self.place / "anna", nothing | self.devices)
        self.ben = VoicePeer(self.place / "ben", nothing | self.devices)

    def assertNote(self, path, seconds=None, within=0.02):
        """Checks a note with independent tools."""
        words, is_fine = opusinfo(path)
        self.assertTrue(is_fine, words)
        codec, channels, duration = ffprobe(path)
        self.assertEqual(("opus", 1), (codec, channels))
        shown = json.loads(self.ben.run("voice", "show", "--json", path).stdout)
        # ffprobe counts the pre-skip of 6.5 ms as well.
        self.assertAlmostEqual(shown["seconds"], duration, delta=0.02)
        self.assertAlmostEqual(shown["seconds"], len(read_sound(path)) / 48000, delta=0.02)
        self.assertEqual(128, len(shown["waveform"]))
        self.assertFalse(shown["is_cut"])
        if seconds is not None:
            self.assertAlmostEqual(seconds, shown["seconds"], delta=within)
        return shown

    def assertHarmless(self, text):
        """Asserts that the text contains no control sequences (T1 to T7)."""
        self.assertIsNone(re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text.decode()), text)


class FileStory(VoiceStory):
    """Notes encoded from files, without any device."""

    def test_all_input_formats_give_the_same_note(self):
        spoken = speech(self.place / "speech.wav")
        raw = (read_sound(spoken, 22050)).astype("<i2").tobytes()
        (self.place / "speech.raw").write_bytes(raw)
        subprocess.run(["flac", "-s", "-o", self.place / "speech.flac", spoken], check=True)
        ways = {
            "wav": (["--input", spoken], None),
            "flac": (["--input", self.place / "speech.flac"], None),
            "raw": (["--input", self.place / "speech.raw", "--raw", "--rate", "22050"], None),
            "wav-pipe": (["--input", "-"], spoken.read_bytes()),
            "flac-pipe": (["--input", "-"], (self.place / "speech.flac").read_bytes()),
            "raw-pipe": (["--input", "-", "--raw", "--rate", "22050"], raw),
        }
        whole = read_sound(spoken)
        for name, (arguments, stdin) in ways.items():
            with self.subTest(name):
                note = self.place / f"{name}.opus"
                self.assertCode(0, self.ben.run("voice", *arguments, "--no-trim", "-o", note, input=stdin))
                self.assertNote(note, len(whole) / 48000, within=0.001)
                self.assertGreater(likeness(whole, read_sound(note)), 0.9)

    def test_notes_of_phones_become_notes(self):
        import numpy

        whole = read_sound(speech(self.place / "speech.wav"))
        cases = "8000 1 m4a, 16000 1 m4a, 22050 2 m4a, 44100 1 mp4, 48000 2 m4a, 16000 1 aac"
        for rate, channels, ending in map(str.split, cases.split(",")):
            rate, channels = int(rate), int(channels)
            with self.subTest(rate=rate, channels=channels, ending=ending):
                recorded = self.phone_note(f"{rate}-{channels}.{ending}", rate, channels)
                note = self.place / f"{rate}-{channels}-{ending}.opus"
                pipe = rate == 16000
                result = self.ben.run(
                    *["voice", "--no-trim", "-o", note, "--input", "-" if pipe else recorded],
                    input=recorded.read_bytes() if pipe else None,
                )
                self.assertCode(0, result)
                # The encoder adds silence, and fills its last packet.
                self.assertNote(note, len(whole) / 48000 + 0.15, within=0.15)
                # The delays of encoders and decoders may cancel out.
                heard = numpy.pad(read_sound(note), 4800)
                self.assertGreater(likeness(whole, heard), 0.8 if rate == 8000 else 0.9)
                shown = json.loads(self.ben.run("voice", "show", "--json", recorded).stdout)
                self.assertAlmostEqual(len(whole) / 48000 + 0.15, shown["seconds"], delta=0.15)
                self.assertEqual(
                    (channels, None, False, recorded.stat().st_size),
                    (shown["channels"], shown["waveform"], shown["is_cut"], shown["size"]),
                )

    def phone_note(self, name, rate=16000, channels=1, codec="aac"):
        """A note of a phone, as FFmpeg makes it: its tables behind the sound."""
        path = self.place / name
        source = self.place / "speech.wav"
        arguments = ["-ar", str(rate), "-ac", str(channels), "-c:a", codec, "-metadata", "creation_time=2026-11-21T10:12:13Z"]
        subprocess.run(["ffmpeg", "-v", "error", "-i", source, *arguments, path], check=True)
        return path

    def test_R10_what_an_mp4_file_contains_instead_of_aac_is_named(self):
        speech(self.place / "speech.wav")
        video = self.place / "video.mp4"
        subprocess.run(
            ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=d=1:s=64x64", "-i", self.place / "speech.wav", video],
            check=True,
        )
        whole = self.phone_note("note.m4a").read_bytes()
        (self.place / "cut.m4a").write_bytes(whole[: len(whole) // 2])
        cases = {
            self.phone_note("lossless.m4a", codec="alac"): b"its sound is Apple Lossless, not AAC",
            video: b"it contains a video",
            self.place / "cut.m4a": b"it was cut, or not finished",
        }
        for path, reason in cases.items():
            for arguments in (["voice", "show", path], ["voice", "play", path], ["voice", "--input", path]):
                with self.subTest(" ".join(map(str, arguments))):
                    result = self.ben.run(*arguments)
                    self.assertCode(8, result)
                    self.assertIn(reason, result.stderr)
                    self.assertIn(path.name.encode(), result.stderr)

    def test_a_phones_note_whose_end_is_missing_is_reported(self):
        speech(self.place / "speech.wav")
        path = self.place / "front.m4a"
        whole = self.phone_note("note.m4a")
        subprocess.run(["ffmpeg", "-v", "error", "-i", whole, "-c", "copy", "-movflags", "+faststart", path], check=True)
        path.write_bytes(path.read_bytes()[:-4000])
        result = self.ben.run("voice", "show", path)
        self.assertCode(0, result)
        self.assertIn(b"its end is missing", result.stderr)
        self.assertCode(0, self.ben.run("voice", "--input", path, "-o", self.place / "note.opus"))

    def test_several_channels_become_one(self):
        left = tone(2, 440)
        stereo = numpy_columns(left, left)
        note = self.place / "note.opus"
        self.assertCode(0, self.ben.run("voice", "--input", write_wave(self.place / "s.wav", stereo, channels=2), "-o", note))
        self.assertNote(note, 2)
        self.assertGreater(likeness(tone(2, rate=48000), read_sound(note)), 0.97)

    def test_silence_at_both_ends_is_trimmed(self):
        import numpy

        gap = numpy.zeros(5 * 16000)
        source = write_wave(self.place / "s.wav", numpy.concatenate([gap, tone(1), gap]))
        for flag, seconds in (([], 1.4), (["--no-trim"], 11)):
            note = self.place / f"note{len(flag)}.opus"
            self.assertCode(0, self.ben.run("voice", "--input", source, *flag, "-o", note))
            self.assertNote(note, seconds, within=0.04)

    def test_a_recording_of_silence_is_reported(self):
        import numpy

        source = write_wave(self.place / "s.wav", numpy.zeros(16000))
        result = self.ben.run("voice", "--input", source, "-o", self.place / "note.opus")
        self.assertCode(1, result)
        self.assertIn(b"there is only silence in ", result.stderr)
        self.assertFalse((self.place / "note.opus").exists())

    def test_the_size_limit_is_never_exceeded_and_loses_nothing(self):
        source = write_wave(self.place / "s.wav", numpy_noise(self.random, 60))
        note = self.place / "note.opus"
        result = self.ben.run("voice", "--input", source, "--limit", "100KiB", "--json", "-o", note)
        self.assertCode(0, result)
        recorded = json.loads(result.stdout.splitlines()[-1])
        self.assertEqual("limit", recorded["ending"])
        self.assertLessEqual(note.stat().st_size, 100 << 10)
        self.assertGreater(note.stat().st_size, 75 << 10)
        self.assertNote(note)

    def test_an_existing_file_stays(self):
        note = self.place / "note.opus"
        note.write_text("mine")
        result = self.ben.run("voice", "--input", write_wave(self.place / "s.wav", tone(1)), "-o", note)
        self.assertCode(1, result)
        self.assertIn(b"already exists", result.stderr)
        self.assertEqual("mine", note.read_text())

    @unittest.skipUnless(os.geteuid() == 0, "needs root to mount a small disk")
    def test_a_full_disk_keeps_a_whole_note(self):
        disk = self.place / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], check=True)
        try:
            source = write_wave(self.place / "s.wav", numpy_noise(self.random, 120))
            result = self.ben.run("voice", "--input", source, "-o", disk / "note.opus")
            self.assertCode(7, result)
            self.assertIn(b"the disk is full", result.stderr)
            self.assertIn(b"is kept in", result.stderr)
            self.assertGreater(self.assertNote(disk / "note.opus")["seconds"], 10)
        finally:
            subprocess.run(["umount", "-l", disk], check=True)

    def test_R10_files_other_than_voice_notes_are_rejected(self):
        note = self.place / "note.opus"
        self.assertCode(0, self.ben.run("voice", "--input", write_wave(self.place / "s.wav", tone(3)), "-o", note))
        whole = note.read_bytes()
        second = self.place / "second.opus"
        self.assertCode(0, self.ben.run("voice", "--input", write_wave(self.place / "t.wav", tone(2, 880)), "-o", second))
        cases = {
            "empty": b"",
            "text": b"OggS, I say\n" * 1000,
            "noise": self.random.randbytes(100_000),
            "wave": (self.place / "s.wav").read_bytes(),
            "head only": whole[:47],
            "no sound": whole[:600],
            "chained": whole + second.read_bytes(),
            "absurd duration": absurd(whole),
            "vorbis": whole.replace(b"OpusHead", b"\x01vorbis\x00"),
            "zeros": whole[:2000] + bytes(200_000),
        }
        for name, content in cases.items():
            with self.subTest(name):
                (self.place / "bad.opus").write_bytes(content)
                for verb in ("show", "play"):
                    result = self.ben.run("voice", verb, self.place / "bad.opus")
                    self.assertCode(8, result)
                    self.assertIn(b"cannot be played as a voice note", result.stderr)
                    self.assertHarmless(result.stderr)

    def test_a_truncated_note_is_reported(self):
        note = self.place / "note.opus"
        self.assertCode(0, self.ben.run("voice", "--input", write_wave(self.place / "s.wav", tone(10)), "-o", note))
        note.write_bytes(note.read_bytes()[:-6000])
        result = self.ben.run("voice", "show", note)
        self.assertCode(0, result)
        self.assertIn(b"its end is missing", result.stderr)

    def test_T1_hostile_tags_are_escaped(self):
        wav = write_wave(self.place / "s.wav", tone(2))
        note = self.place / "note.opus"
        subprocess.run(
            ["opusenc", "--quiet", "--artist", "\x1b]0;owned\x07\u202eevil\x9b31m", "--date", "\x1b[2J", wav, note], check=True
        )
        result = self.ben.run("voice", "show", note)
        self.assertCode(0, result)
        self.assertHarmless(result.stdout)
        self.assertIn(rb"\u{1b}]0;owned", result.stdout)
        shown = self.ben.run("voice", "show", "--json", note).stdout
        self.assertIn(b"owned", shown)
        self.assertHarmless(shown)

    def test_notes_of_other_programs_can_be_shown(self):
        note = self.place / "note.opus"
        subprocess.run(["opusenc", "--quiet", write_wave(self.place / "s.wav", tone(2)), note], check=True)
        self.assertAlmostEqual(2, json.loads(self.ben.run("voice", "show", "--json", note).stdout)["seconds"], delta=0.001)

    @unittest.skipUnless(has_namespaces(), "hiding a library needs root")
    def test_missing_libraries_are_named_with_their_packages_and_other_commands_work(self):
        source = write_wave(self.place / "s.wav", tone(2))
        note = self.place / "note.opus"
        self.assertCode(0, self.ben.run("voice", "--input", source, "-o", note))
        recorded = self.place / "note.m4a"
        subprocess.run(["ffmpeg", "-v", "error", "-i", source, "-c:a", "aac", recorded], check=True)
        libraries = "libopusenc.so.0 libopusfile.so.0 libfaad.so.2 libsndfile.so.1 libpulse.so.0 libasound.so.2"
        for library in libraries.split():
            self.ben.hide(library)
        for arguments, package in (
            (["voice", "--input", source], b"libsndfile1"),
            (["voice", "--input", recorded], b"libfaad2"),
            (["voice", "play", recorded], b"libfaad2"),
            (["voice", "--input", source, "--raw"], b"libopusenc0"),
            (["voice", "play", note], b"libopusfile0"),
            (["voice"], b"libpulse0"),
        ):
            with self.subTest(package):
                result = self.ben.run(*arguments)
                self.assertCode(1, result)
                self.assertIn(b"apt install " + package, result.stderr)
        self.assertCode(0, self.ben.run("voice", "show", note))
        anna = self.anna.receive()
        self.assertCode(0, self.ben.run("send", note, "--to", anna.address))
        self.assertEqual(128, len(anna.wait_for("delivered")["voice"]["waveform"]))


class RefusedStory(VoiceStory):
    """Notes for a peer whose key is refused."""

    def test_no_second_try_is_advised_for_a_blocked_peer(self):
        anna = self.anna.receive()
        self.assertCode(0, self.ben.run("send", "--text", "hello", "--to", anna.address))
        self.assertCode(0, self.ben.run("peers", "block", "anna"))
        source = write_wave(self.place / "s.wav", tone(1))
        refused = self.ben.run("voice", "--input", source, "--to", anna.address)
        self.assertCode(5, refused)
        self.assertRegex(refused.stderr.decode(), r"the note is kept: \S+\.opus\n")
        self.assertNotIn("send it later", refused.stderr.decode())
        absent = self.ben.run("voice", "--input", source, "--to", "127.0.0.1:1")
        self.assertCode(3, absent)
        self.assertIn("--to '127.0.0.1:1'`", absent.stderr.decode())


class MeshStory(VoiceStory):
    """Notes in the mesh, whose file size is limited."""

    def setUp(self):
        super().setUp()
        own_network(self)
        self.anna_name, self.phone_name = (f"{name}-{self.seed:08x}" for name in ("anna", "phone"))

    def receive(self):
        return self.anna.receive("--interface", "lo", name=self.anna_name)

    def join(self, running, **how):
        peer = BitchatPeer(self.phone_name, seed=self.seed, **how)
        self.addCleanup(peer.close)
        peer.connect("127.0.0.1", running.ready["port"], preamble=b"NSHM\x01\x01\0\0")
        return peer

    def voice(self, source, to, *arguments):
        return self.ben.run(
            "voice", "--input", source, "--to", to, "--via", "mesh", "--interface", "lo", "--json", *arguments, timeout=120
        )

    def test_a_note_received_through_the_mesh_is_recognised(self):
        receiver = self.receive()
        result = self.voice(speech(self.place / "speech.wav"), self.anna_name)
        self.assertCode(0, result)
        events = json_lines(result)
        self.assertEqual({"mesh"}, {event["via"] for event in events if "via" in event})
        self.assertEqual(5 << 20, event_named(events, "recording")["limit"])
        delivered = receiver.wait_for("delivered")
        sent = event_named(events, "recorded")
        self.assertEqual(pathlib.Path(sent["path"]).read_bytes(), pathlib.Path(delivered["path"]).read_bytes())
        for name in ("id", "seconds", "waveform", "speaker", "recorded", "size"):
            self.assertEqual(sent[name], delivered["voice"][name])
        # The id is valid as soon as it is reported.
        self.assertCode(0, self.anna.run("voice", "show", delivered["voice"]["id"]))
        [received] = json_lines(self.anna.run("voice", "list", "--json"))
        self.assertEqual(("received", delivered["voice"]["id"]), (received["origin"], received["id"]))

    def test_a_sent_note_of_a_relative_path_is_listed_in_every_directory(self):
        self.receive()
        note = os.path.relpath(self.place / "tone.opus")
        self.assertCode(0, self.voice(write_wave(self.place / "s.wav", tone(1)), self.anna_name, "-o", note))
        [sent] = json_lines(self.ben.run("voice", "list", "--json"))
        self.assertEqual("sent", sent["origin"])
        self.assertTrue(os.path.isabs(sent["path"]), sent["path"])
        self.assertTrue(os.path.samefile(self.place / "tone.opus", sent["path"]))

    def test_a_note_that_arrives_in_a_chat_says_how_it_is_played_also_later(self):
        name = f"ben-{self.seed:08x}"
        self.assertCode(0, self.ben.run("identity", "rename", name))
        command = self.anna.command("chat", "--interface", "lo", "--adapter", "none")
        environment = self.anna.environment() | {"NO_COLOR": "1"}
        screen = Screen(self, command, environment, columns=60)
        wait_until(lambda: screen.read(0) or self.anna.run("mesh", "status").returncode == 0, "the node of the chat")
        port = json_lines(self.anna.run("mesh", "status", "--json"))[0]["port"]
        source = write_wave(self.place / "s.wav", tone(2))
        sent = self.ben.start("voice", "--input", source, "--to", f"127.0.0.1:{port}", "--json")
        screen.wait_for(r"/accept 1 or")
        screen.press("/accept 1\r")
        sent.wait_for("finished")
        wait_until(lambda: screen.read(0.1) and re.search(r"/play [0-9a-f]{6}", screen.text), "the hint")
        [note] = json_lines(self.anna.run("voice", "list", "--json"))
        self.assertIn(f"/play {note['id']}", screen.text)
        # There is no loudspeaker.
        screen.press("/play\r")
        screen.wait_for("not played: ")
        screen.press("/quit\r")
        self.assertEqual(0, screen.end())
        self.ben.start("mesh", "run", "--json", "--accept", "none", "--interface", "lo", "--adapter", "none")
        again = Screen(self, [*command, name], environment, columns=60)
        again.wait_for(f"/play {note['id']}")
        again.press("/quit\r")
        self.assertEqual(0, again.end())

    def test_a_note_from_a_phone_is_recognised(self):
        note = self.place / "note.opus"
        self.assertCode(0, self.ben.run("voice", "--input", speech(self.place / "speech.wav"), "-o", note))
        receiver = self.receive()
        phone = self.join(receiver)
        phone.send_private_file(phone.wait_for_peer(self.anna_name, 10), "voice_1.opus", "audio/ogg", note.read_bytes())
        self.assertNote(receiver.wait_for("delivered")["path"])
        [received] = json_lines(self.anna.run("voice", "list", "--json"))
        self.assertEqual(("received", self.phone_name), (received["origin"], received["sender"]))

    def test_a_note_that_a_phone_recorded_is_recognised(self):
        recorded = self.place / "recorded.m4a"
        subprocess.run(
            ["ffmpeg", "-v", "error", "-i", speech(self.place / "speech.wav"), "-ac", "1", "-c:a", "aac", recorded], check=True
        )
        # The brand of files of Android, whose type libmagic takes for that of a video.
        content = recorded.read_bytes().replace(b"ftypM4A ", b"ftypmp42", 1)
        receiver = self.receive()
        phone = self.join(receiver)
        for number, note in enumerate((recorded.read_bytes(), content)):
            phone.send_private_file(phone.wait_for_peer(self.anna_name, 10), f"voice_{number}.m4a", "audio/mp4", note)
            delivered = receiver.wait_for("delivered")
            self.assertEqual(["audio/x-m4a", "video/mp4"][number], delivered["type"])
            self.assertAlmostEqual(ffprobe(recorded)[2], delivered["voice"]["seconds"], delta=0.1)
            self.assertCode(0, self.anna.run("voice", "show", delivered["voice"]["id"]))
        received = json_lines(self.anna.run("voice", "list", "--json"))
        self.assertEqual([("received", self.phone_name)] * 2, [(note["origin"], note["sender"]) for note in received])

    def test_an_input_file_that_does_not_fit_a_phone_is_not_sent_in_part(self):
        receiver = self.receive()
        phone = self.join(receiver, capabilities=0x100)
        source = write_wave(self.place / "s.wav", numpy_noise(self.random, 90))
        note = self.place / "note.opus"
        result = self.voice(source, self.phone_name, "-o", note, "--limit", "2MiB")
        self.assertCode(7, result)
        self.assertEqual(115_000, event_named(json_lines(result), "recording")["limit"])
        words = result.stderr.decode()
        self.assertIn(f"--limit 2.1 MB is too large: {self.phone_name}'s phone accepts notes of at most 115 KB", words)
        fitting = re.search(r"only the first (0:[2-5][0-9]) of the input fits", words)
        self.assertIsNotNone(fitting, words)
        self.assertFalse(note.exists())
        # What the sentence advises is the first thing that arrives.
        self.assertCode(0, self.voice(source, self.phone_name, "-o", note, "--duration", fitting[1]))
        self.assertLessEqual(note.stat().st_size, 115_000)
        self.assertGreater(note.stat().st_size, 90_000)
        self.assertNote(note)
        self.assertEqual(note.read_bytes(), phone.wait_for_file(10)["content"])

    def test_a_note_through_the_node_has_the_limit_of_the_phone(self):
        receiver = self.receive()
        phone = self.join(receiver, capabilities=0x329)
        phone.wait_for_peer(self.anna_name, 10)
        source = write_wave(self.place / "s.wav", numpy_noise(self.random, 70))
        result = self.anna.run("voice", "--input", source, "--to", self.phone_name, "--via", "mesh", "--json", timeout=120)
        self.assertCode(0, result)
        events = json_lines(result)
        self.assertEqual(1_048_576, event_named(events, "recording")["limit"])
        self.assertEqual("source-ended", event_named(events, "recorded")["ending"])
        content = phone.wait_for_file(30)["content"]
        self.assertGreater(len(content), 115_000)
        self.assertEqual(pathlib.Path(event_named(events, "recorded")["path"]).read_bytes(), content)

    def test_a_note_for_an_app_that_takes_no_private_files_needs_the_users_consent(self):
        phone = self.join(self.receive(), capabilities=0x20, states=False)
        source = write_wave(self.place / "s.wav", tone(1))
        refused = self.voice(source, self.phone_name)
        self.assertCode(1, refused)
        self.assertIn("with --allow-unencrypted they are sent readable", refused.stderr.decode())
        self.assertCode(0, self.voice(source, self.phone_name, "--allow-unencrypted"))
        self.assertFalse(phone.wait_for_file(20)["private"])
        command = self.ben.command("voice", "--input", source, "--to", self.phone_name, "--via", "mesh", "--interface", "lo")
        screen = Screen(self, command, self.ben.environment() | {"NO_COLOR": "1"})
        screen.wait_for(r"\[y\]es, \[n\]o:")
        screen.press("y\r")
        self.assertFalse(phone.wait_for_file(20)["private"])
        self.assertEqual(0, screen.end())

    def test_a_smaller_limit_option_takes_precedence(self):
        self.join(self.receive(), capabilities=0x100)
        result = self.voice(write_wave(self.place / "s.wav", numpy_noise(self.random, 20)), self.phone_name, "--limit", "40KiB")
        self.assertCode(0, result)
        self.assertEqual(40 << 10, event_named(json_lines(result), "recording")["limit"])

    def test_an_input_file_is_not_encoded_before_the_receiver_is_found(self):
        self.receive()
        result = self.voice(write_wave(self.place / "s.wav", tone(1)), f"absent-{self.seed:08x}")
        self.assertCode(3, result)
        self.assertEqual([], json_lines(result))
        self.assertFalse((self.ben.home / "data").exists())

    def test_conflicting_transport_options(self):
        for arguments in (["--via", "mesh"], ["--via", "mesh", "--to", "127.0.0.1:9"], ["--via", "pigeon", "--to", "anna"]):
            self.assertCode(2, self.ben.run("voice", *arguments))


class ALSAStory(VoiceStory):
    """Recording and playback without a sound server."""

    def test_records_and_plays_through_alsa(self):
        spoken = read_sound(speech(self.place / "speech.wav"), 16000)
        devices = FileDevices(self.place / "alsa", spoken)
        self.ben.devices = devices.environment()
        note = self.place / "note.opus"
        seconds = len(spoken) / 16000
        result = self.ben.run("voice", "--yes", "--no-trim", "--duration", f"{seconds:.3f}", "-o", note)
        self.assertCode(0, result)
        self.assertIn(b"from ALSA", result.stderr)
        self.assertNote(note, seconds)
        self.assertGreater(likeness(spoken, read_sound(note, 16000)), 0.9)
        self.assertCode(0, self.ben.run("voice", "play", note, "--device", "alsa:speaker"))
        import numpy

        heard = numpy.frombuffer(devices.heard.read_bytes(), dtype="<i2").astype(float)
        self.assertGreater(likeness(reference(note, self.place / "reference.wav"), heard), 0.999)

    def test_notes_of_phones_are_played(self):
        import numpy

        spoken = speech(self.place / "speech.wav")
        for name, rate, channels in (("mono.m4a", 16000, 1), ("stereo.m4a", 44100, 2), ("bare.aac", 22050, 1)):
            with self.subTest(name):
                devices = FileDevices(self.place / f"alsa-{name}", numpy.zeros(1))
                self.ben.devices = devices.environment()
                note = self.place / name
                arguments = ["-ar", str(rate), "-ac", str(channels), "-c:a", "aac"]
                subprocess.run(["ffmpeg", "-v", "error", "-i", spoken, *arguments, note], check=True)
                self.assertCode(0, self.ben.run("voice", "play", note, "--device", "alsa:speaker"))
                heard = numpy.frombuffer(devices.heard.read_bytes(), dtype="<i2").astype(float)
                self.assertGreater(likeness(without_silence(read_sound(note)), heard), 0.9)

    def test_no_microphone(self):
        result = self.ben.run("voice", "--yes", "--duration", "1", "-o", self.place / "note.opus")
        self.assertCode(1, result)
        self.assertIn(b"cannot be opened", result.stderr)
        self.assertFalse((self.place / "note.opus").exists())
        self.assertIn(b"no sound server (PipeWire or PulseAudio) answers", result.stderr)
        self.assertCode(1, self.ben.run("voice", "--yes", "--duration", "1", "--device", "alsa:none such"))

    def test_what_cannot_be_recorded_or_read_is_said_before_anybody_is_looked_for(self):
        text = self.place / "notes.txt"
        text.write_text("hello")
        existing = self.place / "existing.opus"
        existing.write_bytes(b"")
        for status, arguments in (
            (1, ["--yes"]),
            (8, ["--input", text]),
            (1, ["--input", self.place / "missing.wav"]),
            (1, ["--input", write_wave(self.place / "s.wav", tone(1)), "-o", existing]),
        ):
            with self.subTest(arguments):
                # Otherwise it would be looked for, in vain.
                result = self.ben.run("voice", "--to", "nobody", *arguments)
                self.assertCode(status, result)


class SoundServerStory(VoiceStory):
    """Recording and playback through PulseAudio."""

    def setUp(self):
        super().setUp()
        self.server = SoundServer(self.place / "server")
        self.addCleanup(self.server.stop)
        for person in (self.anna, self.ben):
            person.devices = {"PULSE_SERVER": self.server.address}

    def record(self, *arguments):
        recording = self.ben.start("voice", "--json", *arguments)
        recording.wait_for("recording")
        return recording

    def test_recorded_speech_matches_the_source(self):
        spoken = speech(self.place / "speech.wav")
        note = self.place / "note.opus"
        words = without_silence(read_sound(spoken))
        recording = self.record("--duration", "8", "-o", note)
        self.server.say(with_silence(self.place / "said.wav", words))
        recorded = recording.wait_for("recorded")
        self.assertEqual(0, recording.end())
        self.assertEqual(("duration", 0), (recorded["ending"], recorded["lost_samples"]))
        # The margin that the recorder keeps on both sides of the sound: 200 ms.
        self.assertNote(note, len(words) / 48000 + 0.4, within=0.1)
        self.assertGreater(likeness(words, read_sound(note)), 0.9)
        info, _ = opusinfo(note)
        self.assertIn("DATE=20", info)
        self.assertIn("ARTIST=", info)
        self.assertIn("Original sample rate: 16000 Hz", info)

    def test_a_recorded_tone_matches_the_source(self):
        note = self.place / "note.opus"
        recording = self.record("--duration", "6", "--rate", "48000", "--bitrate", "64", "-o", note)
        self.server.say(with_silence(self.place / "tone.wav", tone(3, rate=48000)))
        self.assertEqual(0, recording.end())
        self.assertNote(note, 3.4, within=0.04)
        self.assertGreater(likeness(tone(2.9, rate=48000), read_sound(note)), 0.98)

    def test_recorded_sent_received_and_played(self):
        receiver = self.anna.receive("--once")
        spoken = speech(self.place / "speech.wav")
        recording = self.record("--duration", "8", "--to", receiver.address)
        self.server.say(spoken)
        self.assertEqual("completed", recording.wait_for("finished")["outcome"])
        self.assertEqual(0, recording.end())
        delivered = receiver.wait_for("delivered")
        self.assertEqual(0, receiver.end())
        self.assertEqual("audio/ogg", delivered["type"])
        self.assertEqual(128, len(delivered["voice"]["waveform"]))
        [received] = json_lines(self.anna.run("voice", "list", "--json"))
        [sent] = json_lines(self.ben.run("voice", "list", "--json"))
        self.assertEqual(("received", []), (received["origin"], received["receivers"]))
        self.assertEqual(("sent", [str(receiver.address)], None), (sent["origin"], sent["receivers"], sent["sender"]))
        self.assertEqual(pathlib.Path(sent["path"]).read_bytes(), pathlib.Path(received["path"]).read_bytes())
        words = without_silence(read_sound(spoken))
        # On a busy machine the sound server skips samples.
        for attempt in range(3):
            listener = Listener(self.server, self.place / f"heard{attempt}.raw")
            self.assertCode(0, self.anna.run("voice", "play", received["id"]))
            # The loudspeaker has a delay of its own.
            with contextlib.suppress(AssertionError):
                wait_until(lambda heard=listener.heard: likeness(words, heard()) > 0.9, "what was said to be heard", 5)
                break
            listener.stop()
        else:
            self.fail("what was said was not heard")
        listener.stop()

    def test_a_received_note_is_recognised(self):
        receiver = subprocess.Popen(
            self.anna.command("receive", "--once", "--name", "anna", "--accept", "all", "--inbox", self.anna.inbox),
            env=self.anna.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.addCleanup(receiver.stdout.close)
        self.addCleanup(receiver.stderr.close)
        self.addCleanup(receiver.kill)
        address = address_of(receiver)
        source = write_wave(self.place / "s.wav", tone(2))
        self.assertCode(0, self.ben.run("voice", "--input", source, "--to", address))
        words = receiver.communicate(timeout=30)[0].decode()
        self.assertRegex(words, r"voice note from .*, 0:02; play it with `nearshare voice play [0-9a-f]{6}`")
        self.assertIn("█", words)

    def test_the_time_limit_for_a_phone_is_shown_before_the_recording(self):
        own_network(self)
        anna, name = f"anna-{self.seed:08x}", f"phone-{self.seed:08x}"
        receiver = self.anna.receive("--interface", "lo", name=anna)
        phone = BitchatPeer(name, seed=self.seed, capabilities=0x100)
        self.addCleanup(phone.close)
        phone.connect("127.0.0.1", receiver.ready["port"], preamble=b"NSHM\x01\x01\0\0")
        command = self.ben.command("voice", "--to", name, "--via", "mesh", "--interface", "lo", "--limit", "20KiB")
        screen = Screen(self, command, self.ben.environment() | {"NO_COLOR": "1"})
        screen.wait_for(f"{name}'s phone accepts notes of at most 115 KB")
        screen.wait_for(r"0:0[0-9] left")
        # At the limit the recording ends, and the note can be sent.
        self.server.say(write_wave(self.place / "tone.wav", numpy_noise(self.random, 9)))
        screen.wait_for(r"the size limit of[\s\S]*\[s\]end to phone-")
        screen.press("s")
        self.assertEqual(0, screen.end())
        [note] = (self.ben.home / "data/nearshare/voice").iterdir()
        self.assertNote(note)
        self.assertLessEqual(note.stat().st_size, 20 << 10)
        self.assertEqual(note.read_bytes(), phone.wait_for_file(10)["content"])

    def test_a_note_of_a_chat_fits_the_phone_and_is_listed_as_sent_once_it_has_arrived(self):
        own_network(self)
        name = f"phone-{self.seed:08x}"
        screen = Screen(
            self,
            self.ben.command("chat", name, "--interface", "lo", "--adapter", "none"),
            self.ben.environment() | {"NO_COLOR": "1"},
        )
        phone = BitchatPeer(name, seed=self.seed, capabilities=0x100)
        self.addCleanup(phone.close)
        wait_until(lambda: screen.read(0) or self.ben.run("mesh", "status").returncode == 0, "the node of the chat")
        port = json_lines(self.ben.run("mesh", "status", "--json"))[0]["port"]
        phone.connect("127.0.0.1", port, preamble=b"NSHM\x01\x01\0\0")
        wait_until(lambda: screen.read(0.1) and "is near" in screen.text, "the phone in the chat")
        screen.press("/voice\r")
        # A phone takes 115 kB.
        screen.wait_for(r"0:[23][0-9] left")
        self.server.say(write_wave(self.place / "tone.wav", tone(2)))
        screen.press("\r")
        screen.wait_for(r"\[s\]end to phone-")

        def listed():
            return [(each["origin"], each["receivers"]) for each in json_lines(self.ben.run("voice", "list", "--json"))]

        self.assertEqual([("recorded", [])], listed())
        screen.press("s")
        [note] = (self.ben.home / "data/nearshare/voice").iterdir()
        self.assertEqual(note.read_bytes(), phone.wait_for_file(20)["content"])
        wait_until(lambda: screen.read(0) or listed() == [("sent", [name])], "the note among those that were sent")
        screen.press("/quit\r")
        self.assertEqual(0, screen.end())

    def test_a_note_is_played_in_a_chat(self):
        own_network(self)
        spoken = speech(self.place / "speech.wav")
        words = without_silence(read_sound(spoken))
        receiver = self.anna.receive("--once", "--interface", "lo")
        self.assertCode(0, self.ben.run("voice", "--input", spoken, "--to", receiver.address))
        self.assertEqual(0, receiver.end())
        screen = Screen(
            self,
            self.anna.command("chat", "--interface", "lo", "--adapter", "none"),
            self.anna.environment() | {"NO_COLOR": "1"},
        )
        wait_until(lambda: screen.read(0) or self.anna.run("mesh", "status").returncode == 0, "the node of the chat")
        # On a busy machine the sound server skips samples.
        for attempt in range(3):
            listener = Listener(self.server, self.place / f"heard{attempt}.raw")
            screen.press("/play\r")
            screen.wait_for(r"\d:\d\d / \d:\d\d")
            is_heard = False
            with contextlib.suppress(AssertionError):
                wait_until(
                    lambda heard=listener.heard: screen.read(0.1) and likeness(words, heard()) > 0.9,
                    "what was said to be heard",
                    len(words) / 48000 + 8,
                )
                is_heard = True
            listener.stop()
            # The player ends by itself, and the conversation is shown again.
            wait_until(lambda: screen.read(0.1) and "/help lists" in screen.text.split("q ends")[-1], "the conversation")
            if is_heard:
                break
        else:
            self.fail("what was said was not heard")
        # Ctrl-C ends another playback, not the chat.
        screen.press("/play\r")
        screen.wait_for(r"\d:\d\d / \d:\d\d")
        screen.press("\x03")
        screen.wait_for("/help lists")
        screen.press("/quit\r")
        self.assertEqual(0, screen.end())

    def test_a_recording_for_an_absent_receiver_is_kept(self):
        recording = self.ben.start("voice", "--json", "--no-trim", "--duration", "1", "--to", f"absent-{self.seed:08x}")
        self.assertEqual(5 << 20, recording.wait_for("recording")["limit"])
        note = recording.wait_for("recorded")["path"]
        self.assertEqual(3, recording.end())
        self.assertIn("the note is kept", recording.story())
        self.assertNote(note)

    def test_ctrl_c_ends_the_recording_and_keeps_it(self):
        note = self.place / "note.opus"
        recording = self.record("--no-trim", "-o", note)
        self.server.say(write_wave(self.place / "tone.wav", tone(3)))
        wait_until(lambda note=note: note.stat().st_size > 5000, "some seconds of sound")
        recording.signal(signal.SIGINT)
        self.assertEqual("interrupted", recording.wait_for("recorded")["ending"])
        self.assertEqual(0, recording.end())
        self.assertNote(note)

    def test_a_closed_terminal_loses_nothing(self):
        for number in (signal.SIGHUP, signal.SIGTERM):
            with self.subTest(number):
                note = self.place / f"note{number}.opus"
                recording = self.record("--no-trim", "-o", note)
                self.server.say(write_wave(self.place / "tone.wav", tone(3)))
                wait_until(lambda note=note: note.stat().st_size > 5000, "some seconds of sound")
                recording.signal(number)
                self.assertEqual(130, recording.end())
                self.assertIn("is kept in", recording.story())
                self.assertNote(note)

    def test_a_closed_window_loses_nothing(self):
        folder = self.ben.home / "data/nearshare/voice"
        screen = Screen(self, self.ben.command("voice", "--no-trim"), self.ben.environment())
        screen.wait_for("recording")
        self.server.say(write_wave(self.place / "tone.wav", tone(3)))
        [note] = folder.iterdir()
        wait_until(lambda: screen.read(0) or note.stat().st_size > 5000, "some seconds of sound")
        screen.hang_up()
        self.assertEqual(130, screen.process.wait(30))
        self.assertNote(note)

    def test_a_muted_microphone_is_reported(self):
        screen = Screen(self, self.ben.command("voice"), self.ben.environment())
        screen.wait_for("nothing heard yet")
        screen.press("\r")
        screen.wait_for("check the microphone")
        self.assertEqual(1, screen.end())

    def test_the_file_of_a_killed_recorder_can_be_played(self):
        note = self.place / "note.opus"
        recording = self.record("--no-trim", "-o", note)
        self.server.say(write_wave(self.place / "tone.wav", tone(4)))
        wait_until(lambda: note.stat().st_size > 8000, "some seconds of sound")
        recording.signal(signal.SIGKILL)
        recording.end()
        self.assertGreater(likeness(tone(2, rate=48000), read_sound(note)), 0.9)
        self.assertIn(b"its end is missing", self.ben.run("voice", "show", note).stderr)

    def test_a_disconnected_microphone(self):
        module = self.server.load("module-null-sink", "sink_name=usb", "rate=48000", "channels=1")
        note = self.place / "note.opus"
        recording = self.record("--no-trim", "--device", "usb.monitor", "-o", note)
        self.server.say(write_wave(self.place / "tone.wav", tone(3)), sink="usb")
        wait_until(lambda note=note: note.stat().st_size > 5000, "some seconds of sound")
        self.server.control("unload-module", module)
        self.assertEqual("device-gone", recording.wait_for("recorded")["ending"])
        self.assertEqual(1, recording.end())
        self.assertIn("microphone was disconnected", recording.story())
        self.assertIn("is kept in", recording.story())
        self.assertNote(note)

    def test_a_sound_server_that_dies(self):
        note = self.place / "note.opus"
        recording = self.record("--no-trim", "-o", note)
        self.server.say(write_wave(self.place / "tone.wav", tone(3)))
        wait_until(lambda note=note: note.stat().st_size > 5000, "some seconds of sound")
        self.server.stop(signal.SIGKILL)
        self.assertEqual("device-gone", recording.wait_for("recorded")["ending"])
        self.assertEqual(1, recording.end())
        self.assertNote(note)

    def test_an_unknown_device(self):
        result = self.ben.run("voice", "--yes", "--device", "none such", "-o", self.place / "note.opus")
        self.assertCode(1, result)
        self.assertIn(b"--list-devices", result.stderr)
        names = {line["name"] for line in json_lines(self.ben.run("voice", "--list-devices", "--json"))}
        self.assertLessEqual({"mic.monitor", "ear"}, names)

    # With a user on a terminal.

    def test_enter_ends_space_pauses_and_the_note_can_be_dropped(self):
        folder = self.ben.home / "data/nearshare/voice"
        screen = Screen(self, self.ben.command("voice", "--to", "127.0.0.1:9"), self.ben.environment())
        screen.wait_for("recording")
        self.server.say(write_wave(self.place / "tone.wav", tone(2)))
        screen.press(" ")
        screen.wait_for("paused")
        [note] = folder.iterdir()
        # While it is paused, nothing is recorded: this sound must not be in the note.
        self.server.say(write_wave(self.place / "other.wav", tone(2, 1000)))
        screen.press(" ")
        screen.wait_for("recording")
        self.server.say(self.place / "tone.wav")
        screen.press("\r")
        screen.wait_for(r"\[l\]isten")
        self.assertNote(note)
        self.assertGreater(likeness(tone(1, rate=48000), read_sound(note)), 0.9)
        self.assertLess(likeness(tone(1, 1000, rate=48000), read_sound(note)), 0.2)
        screen.press("l")
        screen.wait_for("▶")
        screen.press("q")
        screen.wait_for(r"\[d\]rop")
        screen.press("d")
        screen.wait_for("dropped")
        self.assertEqual(0, screen.end())
        self.assertEqual([], list(folder.iterdir()))

    def test_the_terminal_mode_is_restored(self):
        screen = Screen(self, self.ben.command("voice"), self.ben.environment())
        before = screen.modes()
        screen.wait_for("recording")
        wait_until(lambda: screen.modes() != before, "raw mode")
        screen.close_input_by_signal(signal.SIGTERM)
        self.assertEqual(130, screen.end())
        self.assertEqual(before, screen.modes())

    def test_no_colours_where_they_are_disabled(self):
        for wish in ({}, {"NO_COLOR": "1"}):
            screen = Screen(self, self.ben.command("voice"), self.ben.environment() | wish)
            screen.wait_for("recording")
            screen.press("\r")
            screen.end()
            self.assertEqual(not wish, re.search(r"\x1b\[[0-9;]*m", screen.text) is not None, screen.text)

    def test_lines_fit_a_narrow_terminal(self):
        for columns in (5, 17, 30, 200):
            with self.subTest(columns):
                screen = Screen(
                    self,
                    self.ben.command("voice", "-o", self.place / f"{columns}.opus"),
                    self.ben.environment() | {"NO_COLOR": "1"},
                    columns,
                )
                screen.wait_for(r"\d:0[1-9]")
                screen.press("\r")
                screen.end()
                # Without the message at the end, which may fill its rows.
                live = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", screen.text.split("nears")[0])
                for line in live.replace("\r", "").split("\n"):
                    self.assertLess(len(line), columns, line)


class Screen:
    """The command on a pseudo-terminal."""

    def __init__(self, story, command, environment, columns=80):
        self.text = ""
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

        def take_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            command, env=environment, stdin=slave, stdout=slave, stderr=slave, preexec_fn=take_terminal
        )
        # Kept open, so that the terminal's modes can be read after the command has ended.
        self.slave = slave
        story.addCleanup(self.close)

    def wait_for(self, pattern, timeout=30):
        """Waits for the pattern in new output."""
        start = len(self.text)
        deadline = time.monotonic() + timeout
        while not re.search(pattern, self.text[start:]):
            if not self.read(deadline - time.monotonic()):
                raise AssertionError(f"{pattern!r} was not shown within {timeout} s:\n{self.text[-2000:]}")

    def read(self, timeout):
        ready, _, _ = select.select([self.master], [], [], max(0, min(timeout, 0.2)))
        if ready:
            self.text += os.read(self.master, 65536).decode(errors="replace")
        return timeout > 0

    def press(self, keys):
        os.write(self.master, keys.encode())

    def modes(self):
        return termios.tcgetattr(self.slave)[:4]

    def close_input_by_signal(self, number):
        self.process.send_signal(number)

    def hang_up(self):
        os.close(self.master)
        self.master = None

    def end(self, timeout=30):
        deadline = time.monotonic() + timeout
        while self.process.poll() is None:
            if not self.read(deadline - time.monotonic()):
                raise AssertionError(f"did not end within {timeout} s:\n{self.text[-2000:]}")
        while select.select([self.master], [], [], 0)[0]:
            self.text += os.read(self.master, 65536).decode(errors="replace")
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.master is not None:
            os.close(self.master)
        os.close(self.slave)


def own_network(test):
    """From here to the test's end, what this thread starts has a loopback of its own, without those of other tests' peers on
    the same machine. Where that takes rights that are missing, the common one has to do."""
    if not has_namespaces():
        return
    new_network = 0x40000000
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    test.addCleanup(os.close, before)
    if libc.unshare(new_network) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    test.addCleanup(libc.setns, before, new_network)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def json_lines(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def event_named(events, name):
    [event] = [event for event in events if event["event"] == name]
    return event


def numpy_columns(left, right):
    import numpy

    return numpy.stack([left, right], axis=1).reshape(-1)


def numpy_noise(random, seconds, rate=16000):
    import numpy

    return numpy.random.default_rng(random.getrandbits(32)).integers(-9000, 9000, seconds * rate).astype(float)


def absurd(note):
    """The note with a last page that counts ten thousand hours, its checksum in order."""
    start = note.rindex(b"OggS")
    page = bytearray(note[start:])
    page[6:14] = struct.pack("<q", 10_000 * 3600 * 48000)
    page[22:26] = bytes(4)
    page[22:26] = struct.pack("<I", ogg_checksum(page))
    return note[:start] + bytes(page)


def ogg_checksum(page):
    value = 0
    for byte in page:
        value ^= byte << 24
        for _ in range(8):
            value = (value << 1 ^ 0x04C11DB7 if value & 0x80000000 else value << 1) & 0xFFFFFFFF
    return value


if __name__ == "__main__":
    unittest.main()
