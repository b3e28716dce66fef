"""Voice notes: how fast they are encoded beside opusenc, how much memory a recording takes, and whether it has gaps."""

import importlib.util
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

# The speech is one minute, repeated.
SPEECH_MINUTES = 10
# In hertz: a prime, so that no period is a whole number of samples.
TONE = 997


def report(binary, runs, seconds):
    """Tables for a page. `seconds` is how long the recording from a device takes."""
    needed = [tool for tool in ("opusenc", "espeak-ng", "ffmpeg", "pulseaudio", "pactl") if shutil.which(tool) is None]
    if importlib.util.find_spec("numpy") is None:
        needed.append("numpy")
    if needed:
        return f"(voice notes are left out: {', '.join(needed)} missing)\n"
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="nearshare-bench-") as name:
        directory = pathlib.Path(name)
        return encoding(binary, directory, runs) + "\n" + recording(binary, directory, seconds)


def encoding(binary, directory, runs):
    source = directory / "speech.wav"
    make_speech(source)
    home = {**os.environ, "HOME": str(directory)}
    output = directory / "out.opus"
    encoders = {
        "opusenc": ["opusenc", "--quiet", "--speech", "--bitrate", "24", "--vbr", source, output],
        "nearshare": [binary, "voice", "--quiet", "--no-trim", "--bitrate", "24", "--input", source, "-o", output],
    }
    figures = {name: [] for name in encoders}
    sizes = {}
    for number in range(runs + 1):
        for name, command in encoders.items():
            output.unlink(missing_ok=True)
            begun = time.perf_counter()
            process = subprocess.Popen(
                [str(word) for word in command], env=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.perf_counter() - begun
            if status != 0:
                raise SystemExit(f"{name} failed")
            sizes[name] = output.stat().st_size
            # The first round fills caches and is not counted.
            if number > 0:
                figures[name].append((wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024))
    own, own_cpu = (statistics.median(column) for column in list(zip(*figures["nearshare"], strict=True))[:2])
    lines = [
        f"### Encoding {SPEECH_MINUTES} minutes of speech, 16 kHz, to 24 kbit/s\n",
        "| | wall | CPU | wall / nearshare's | CPU / nearshare's | times real time | memory | size |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, rows in figures.items():
        wall, cpu, memory = (statistics.median(column) for column in zip(*rows, strict=True))
        label = f"**{name}**" if name == "nearshare" else name
        lines.append(
            f"| {label} | {wall * 1000:.0f} ms | {cpu * 1000:.0f} ms | {wall / own:.2f} | {cpu / own_cpu:.2f} "
            f"| {SPEECH_MINUTES * 60 / wall:.0f} | {memory:.0f} MiB | {sizes[name] / 1e6:.2f} MB |"
        )
    ratios = sorted(theirs[0] / ours[0] for theirs, ours in zip(figures["opusenc"], figures["nearshare"], strict=True))
    lines.append(f"\nopusenc : nearshare, round by round: {', '.join(f'{ratio:.3f}' for ratio in ratios)}")
    return "\n".join(lines) + "\n"


def recording(binary, directory, seconds):
    """From a source that a clock paces: what is missing shows in the length, in the count of lost samples, and in a tone
    whose phase jumps where a sample is missing."""
    home = directory / "server"
    home.mkdir(mode=0o700)
    address = f"unix:{home}/native"
    (home / "default.pa").write_text(
        f"load-module module-native-protocol-unix socket={home}/native auth-anonymous=1\n"
        f"load-module module-sine-source source_name=tone frequency={TONE} rate=48000\nset-default-source tone\n"
    )
    environment = {**os.environ, "HOME": str(home), "XDG_RUNTIME_DIR": str(home), "PULSE_SERVER": address}
    server = subprocess.Popen(
        [
            "pulseaudio",
            "-n",
            "-F",
            home / "default.pa",
            "--daemonize=no",
            "--exit-idle-time=-1",
            "--use-pid-file=no",
            "--disable-shm=yes",
        ],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 20
        while subprocess.run(["pactl", "info"], env=environment, capture_output=True).returncode != 0:
            if time.monotonic() > deadline:
                raise SystemExit("the sound server does not answer")
            time.sleep(0.05)
        note = directory / "long.opus"
        begun = time.monotonic()
        process = subprocess.Popen(
            [binary, "voice", "--yes", "--json", "--no-trim", "--duration", str(seconds), "-o", note],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        process.stdout.readline()
        line = process.stdout.readline()
        took = time.monotonic() - begun
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0 or not line:
            raise SystemExit(f"recording failed: {process.stderr.read()}")
        recorded = json.loads(line)
    finally:
        server.terminate()
        server.wait()
    jumps, worst = phase_jumps(note)
    return (
        "\n".join(
            [
                f"### Recording {seconds} s from a sound server that keeps time\n",
                "| | |",
                "|---|---|",
                f"| length of the note | {recorded['seconds']:.3f} s |",
                f"| on the clock, with starting and ending | {took:.1f} s |",
                f"| samples lost | {recorded['lost_samples']} |",
                f"| places where the tone's phase jumps | {jumps} (largest change in 20 ms: {worst:.3f} of a turn) |",
                f"| CPU | {(usage.ru_utime + usage.ru_stime) / seconds * 100:.1f} % of one core |",
                f"| largest memory | {usage.ru_maxrss / 1024:.0f} MiB |",
            ]
        )
        + "\n"
    )


def phase_jumps(note):
    """Mixes the tone down to its phase, every 20 ms, and counts where it does not go on."""
    import numpy

    rate = 48000
    window = rate // 50
    decoder = subprocess.Popen(
        ["ffmpeg", "-v", "error", "-i", note, "-f", "s16le", "-ac", "1", "-ar", str(rate), "-"], stdout=subprocess.PIPE
    )
    phases = []
    position = 0
    block = window * 500
    while piece := decoder.stdout.read(block * 2):
        samples = numpy.frombuffer(piece, dtype="<i2").astype(float)
        samples = samples[: len(samples) // window * window]
        if len(samples) == 0:
            break
        turns = numpy.exp(-2j * numpy.pi * TONE * (numpy.arange(len(samples)) + position) / rate)
        phases.append(numpy.angle((samples * turns).reshape(-1, window).sum(axis=1)))
        position += len(samples)
    decoder.wait()
    # The first and the last packets fade.
    phase = numpy.concatenate(phases)[5:-5]
    steps = numpy.abs(numpy.angle(numpy.exp(1j * numpy.diff(phase)))) / (2 * numpy.pi)
    # One sample of 16,000 a second is 0.062 of a turn at this pitch.
    return int((steps > 0.03).sum()), float(steps.max())


def make_speech(path):
    one = path.with_suffix(".one.wav")
    words = "The quick brown fox jumps over the lazy dog, and the train to the north leaves at eight. " * 10
    subprocess.run(["espeak-ng", "-w", one, words], check=True)
    subprocess.run(
        [
            "ffmpeg",
            "-v",
            "error",
            "-stream_loop",
            "-1",
            "-i",
            one,
            "-t",
            str(SPEECH_MINUTES * 60),
            "-ac",
            "1",
            "-ar",
            "16000",
            "-y",
            path,
        ],
        check=True,
    )
    one.unlink()


if __name__ == "__main__":
    print(report(pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2]), int(sys.argv[3])))
