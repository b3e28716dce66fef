"""Sound without hardware: a separate sound server whose microphone and loudspeaker are null sinks, ALSA
devices that are files, speech from espeak-ng, and checks by independent tools."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import wave

import numpy

from harness import wait_until

TOOLS = ("pulseaudio", "paplay", "parec", "pactl", "espeak-ng", "opusinfo", "opusdec", "ffmpeg", "ffprobe", "flac")


def missing_tools():
    return [tool for tool in TOOLS if shutil.which(tool) is None]


class SoundServer:
    """A pulseaudio server with files of its own. The default microphone records the sound that is played on `mic`."""

    def __init__(self, place):
        self.place = pathlib.Path(place)
        self.place.mkdir(mode=0o700, parents=True)
        self.address = f"unix:{self.place}/native"
        script = self.place / "default.pa"
        script.write_text(
            f"load-module module-native-protocol-unix socket={self.place}/native auth-anonymous=1\n"
            "load-module module-null-sink sink_name=mic rate=48000 channels=1\n"
            "load-module module-null-sink sink_name=ear rate=48000 channels=2\n"
            "set-default-source mic.monitor\nset-default-sink ear\n"
        )
        self.process = subprocess.Popen(
            [
                "pulseaudio",
                "-n",
                "-F",
                script,
                "--daemonize=no",
                "--exit-idle-time=-1",
                "--use-pid-file=no",
                "--disable-shm=yes",
            ],
            env=self.environment() | {"XDG_RUNTIME_DIR": str(self.place)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(
            lambda: subprocess.run(["pactl", "info"], env=self.environment(), capture_output=True).returncode == 0,
            "the sound server to answer",
        )

    def environment(self):
        return {"PATH": os.environ["PATH"], "HOME": str(self.place), "PULSE_SERVER": self.address}

    def say(self, sound, sink="mic"):
        """Plays a file to its end."""
        subprocess.run(["paplay", "-d", sink, sound], env=self.environment(), check=True, timeout=120)

    def control(self, *words):
        return subprocess.run(["pactl", *words], env=self.environment(), check=True, capture_output=True, text=True).stdout

    def load(self, *words):
        return self.control("load-module", *words).strip()

    def listeners(self):
        """Returns the number of streams that record from a microphone."""
        return len(self.control("list", "short", "source-outputs").splitlines())

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait()


class Listener:
    """Records the output of a loudspeaker."""

    def __init__(self, server, path, source="ear.monitor"):
        self.path = pathlib.Path(path)
        self.process = subprocess.Popen(
            ["parec", "-d", source, "--rate=48000", "--channels=1", "--format=s16le", "--raw", path],
            env=server.environment(),
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: self.path.exists() and self.path.stat().st_size > 0, "the virtual loudspeaker to be heard")

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def heard(self):
        """Returns the samples recorded so far."""
        return numpy.frombuffer(self.path.read_bytes()[: self.path.stat().st_size // 2 * 2], dtype="<i2").astype(float)


class FileDevices:
    """ALSA's file plug-in: a microphone that reads raw samples, and a loudspeaker that writes them. Not paced."""

    def __init__(self, place, samples, rate=16000):
        self.place = pathlib.Path(place)
        self.place.mkdir(parents=True, exist_ok=True)
        (self.place / "in.raw").write_bytes(samples.astype("<i2").tobytes())
        self.heard = self.place / "out.raw"
        nothing = "slave.pcm { type null } "
        (self.place / "asound.conf").write_text(
            f'pcm.filed {{ type file {nothing} file "{self.heard}" infile "{self.place}/in.raw" format "raw" }}\n'
            f'pcm.!default {{ type plug slave {{ pcm "filed" rate {rate} channels 1 format S16_LE }} }}\n'
            f'pcm.speaker {{ type plug slave {{ pcm "filed" rate 48000 channels 1 format S16_LE }} }}\n'
        )

    def environment(self):
        # No sound server: nothing listens at the address.
        return {"ALSA_CONFIG_PATH": str(self.place / "asound.conf"), "PULSE_SERVER": f"unix:{self.place}/absent"}


def speech(path, words="The train to the north leaves at eight. Bring your coat, and do not be late."):
    subprocess.run(["espeak-ng", "-w", path, words], check=True)
    return pathlib.Path(path)


def write_wave(path, samples, rate=16000, channels=1):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())
    return pathlib.Path(path)


def tone(seconds, hertz=440, rate=16000, amplitude=12000):
    return amplitude * numpy.sin(2 * numpy.pi * hertz * numpy.arange(int(seconds * rate)) / rate)


def read_sound(path, rate=48000):
    """Any sound file as one channel at a rate, decoded by ffmpeg."""
    raw = subprocess.run(
        ["ffmpeg", "-v", "error", "-i", path, "-f", "s16le", "-ac", "1", "-ar", str(rate), "-"], check=True, capture_output=True
    ).stdout
    return numpy.frombuffer(raw, dtype="<i2").astype(float)


def reference(note, path):
    """Decodes a note with the reference decoder."""
    subprocess.run(["opusdec", "--quiet", "--no-dither", "--rate", "48000", note, path], check=True, capture_output=True)
    return read_sound(path)


def likeness(wanted, heard):
    """Returns the best correlation of a signal with the recorded sound at any offset, from -1 to 1."""
    if len(heard) < len(wanted):
        heard = numpy.concatenate([heard, numpy.zeros(len(wanted) - len(heard))])
    count = len(wanted)
    size = 1 << (len(heard) + count - 1).bit_length()
    products = numpy.fft.irfft(numpy.fft.rfft(heard, size) * numpy.conj(numpy.fft.rfft(wanted, size)), size)
    products = products[: len(heard) - count + 1]
    sums = numpy.concatenate([[0], numpy.cumsum(heard**2)])
    norms = numpy.sqrt(numpy.maximum(sums[count:] - sums[:-count], 1) * numpy.sum(wanted**2))
    return float(numpy.max(products / norms))


def with_silence(path, samples, seconds=0.7, rate=48000):
    """A sound file with silence before and after."""
    gap = numpy.zeros(int(seconds * rate))
    return write_wave(path, numpy.concatenate([gap, samples, gap]), rate=rate)


def without_silence(samples, level=200):
    """Returns the samples from the first sound to the last, as trimmed by the recorder, without its margins."""
    loud = numpy.flatnonzero(numpy.abs(samples) > level)
    return samples[loud[0] : loud[-1] + 1]


def opusinfo(path):
    """Returns the output of opusinfo, and whether it reports problems."""
    result = subprocess.run(["opusinfo", path], capture_output=True, text=True)
    words = result.stdout + result.stderr
    return words, result.returncode == 0 and re.search("warning|error|negative|hole|missing|invalid", words, re.I) is None


def ffprobe(path):
    result = subprocess.run(
        ["ffprobe", "-v", "error", "-show_entries", "stream=codec_name,channels:format=duration", "-of", "json", path],
        check=True,
        capture_output=True,
        text=True,
    )
    facts = json.loads(result.stdout)
    return facts["streams"][0]["codec_name"], facts["streams"][0]["channels"], float(facts["format"]["duration"])
