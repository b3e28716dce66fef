#!/usr/bin/env python3
"""nearshare beside what people would use instead: the same files, one run, taking turns; medians and ratios.

Everything goes over loopback and through memory (tmpfs), and, as root, over a cable with delay and loss between two network
namespaces. Servers of the rivals are started here, on free ports, with keys of their own, and ended again. What is not
installed or not possible is left out, visibly."""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import pwd
import resource
import shutil
import statistics
import subprocess
import tempfile
import time

import cable
import limits
import nginx
import voice

CHUNK = 1 << 20


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--nearshare", type=pathlib.Path, default=pathlib.Path(".build/fixed/release/nearshare"))
    options.add_argument(
        "--frames",
        type=pathlib.Path,
        default=pathlib.Path(".build/release/frames-benchmark"),
        help="measures the packets of the mesh; left out where it is not built",
    )
    options.add_argument(
        "--mesh",
        type=pathlib.Path,
        default=pathlib.Path(".build/release/mesh-benchmark"),
        help="measures a node of the mesh; left out where it is not built",
    )
    options.add_argument("--runs", type=int, default=7)
    options.add_argument("--wait", type=int, default=300, help="limit on the seconds to wait for a quiet machine")
    options.add_argument("--only", choices=["file", "tree", "small", "cable", "voice"], help="one of the pieces of work")
    options.add_argument("--size", type=int, default=1 << 30, help="bytes of the large file")
    options.add_argument(
        "--recording", type=int, default=60, help="seconds of the voice note that is recorded; 3600 for all of it"
    )
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="nearshare-bench-") as place, contextlib.ExitStack() as stack:
        bench = Bench(pathlib.Path(place), arguments, stack)
        print(bench.heading())
        for work in ("file", "tree", "small", "cable"):
            if arguments.only in (None, work):
                print(getattr(bench, work)(), flush=True)
        if arguments.only in (None, "voice"):
            print(voice.report(bench.binary, arguments.runs, arguments.recording), flush=True)
        if arguments.only is None:
            print(mesh_figures("The packets of the mesh, one core", arguments.frames), flush=True)
            print(mesh_figures("A node of the mesh, one core", arguments.mesh), flush=True)


def mesh_figures(title, binary):
    if not binary.exists():
        return f"{title}: left out, there is no {binary}\n"
    return f"{title}\n" + subprocess.run([binary], capture_output=True, text=True, check=True).stdout


class Bench:
    def __init__(self, place, arguments, stack):
        self.place = place
        self.load = limits.wait_until_quiet(seconds=arguments.wait)
        self.stack = stack
        self.runs = arguments.runs
        self.size = arguments.size
        self.binary = arguments.nearshare.resolve()
        self.inbox = place / "inbox"
        self.target = place / "target"
        self.target.mkdir()
        self.receiver = Receiver(self.binary, place / "receiver", self.inbox, stack)
        self.sender = peer_environment(place / "sender")
        self.ssh = SSH.start(place / "ssh", stack)
        self.web = Web.start(place, stack)

    def heading(self):
        model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
        version = subprocess.run([self.binary, "--version"], capture_output=True, text=True, check=True).stdout.strip()
        return (
            f"{datetime.date.today()}, {os.cpu_count()} cores of {model}, Linux {platform.release()}, {version}; "
            f"medians of {self.runs} rounds, each round all in turn; {self.load}\n"
        )

    # The four pieces of work.

    def file(self):
        source = self.place / "large"
        with open(source, "wb") as file:
            for _ in range(self.size // CHUNK):
                file.write(os.urandom(CHUNK))
        rivals = {
            "cp": lambda: run(["cp", source, self.target / "large"]),
            "nearshare": lambda: self.nearshare(source, self.receiver.address),
        }
        pairs = limits.pairs(self.place, source, self.target / "large", limits.free_port())
        rivals |= {name: (lambda pair=pair: pair.run()[:2]) for name, pair in pairs.items()}
        if self.web:
            rivals["nginx https, curl"] = lambda: self.web.fetch("large", self.target / "large")
        if self.ssh:
            rivals["scp"] = lambda: self.ssh.copy(source, self.target)
            if shutil.which("rsync"):
                rivals["rsync over ssh"] = lambda: self.ssh.rsync(source, self.target)
        title = f"One file of {self.size / 2**30:.3g} GiB"
        text = table(title, self.measure(rivals), "nearshare", per_byte=self.size)
        text += f"\nreceiver's largest memory so far: {self.receiver.peak_memory()} MiB\n\n"
        text += limits.costs(self.place, {"**nearshare**": self.own_pair(source)} | pairs, self.size)
        source.unlink()
        return text

    def tree(self):
        source = self.place / "tree"
        for folder in range(200):
            (source / f"folder {folder:03}").mkdir(parents=True)
            for number in range(100):
                (source / f"folder {folder:03}" / f"file {number:02}").write_bytes(os.urandom(4096))
        rivals = {
            "cp -r": lambda: run(["cp", "-r", source, self.target / "tree"]),
            "nearshare": lambda: self.nearshare(source, self.receiver.address),
        }
        pairs = limits.reference_pairs(self.place, source, self.target / "tree", "-tree")
        rivals |= {name: (lambda pair=pair: pair.run()[:2]) for name, pair in pairs.items()}
        if self.ssh:
            rivals["tar, ssh, tar"] = lambda: self.ssh.tar(source, self.target)
            if shutil.which("rsync"):
                rivals["rsync over ssh"] = lambda: self.ssh.rsync(source, self.target)
        return table("A tree of 20,000 files of 4 KiB", self.measure(rivals), "nearshare")

    def small(self):
        source = self.place / "small"
        source.write_bytes(os.urandom(1024))
        rivals = {
            "nearshare, address given": lambda: self.nearshare(source, self.receiver.address),
            "nearshare, found by name": lambda: self.nearshare(source, self.receiver.name),
        }
        if self.ssh:
            rivals["scp"] = lambda: self.ssh.copy(source, self.target)
        return table("One file of 1 KiB, from the command to its end", self.measure(rivals), "nearshare, address given")

    def cable(self):
        """Two machines that are 50 ms apart, and two on a radio link that loses packets."""
        if not cable.is_possible():
            return "(a cable with delay and loss needs root and /dev/net/tun: left out)\n"
        large, small, tree = self.place / "32 MiB", self.place / "1 KiB", self.place / "200 files"
        large.write_bytes(os.urandom(32 << 20))
        small.write_bytes(os.urandom(1024))
        tree.mkdir()
        for number in range(200):
            (tree / f"file {number:03}").write_bytes(os.urandom(4096))
        line = self.stack.enter_context(cable.Cable())
        control = line.use_loss_based_control()
        far = Receiver(self.binary, self.place / "far", self.inbox, self.stack, line.within(0), line.addresses[0])
        ssh = SSH.start(self.place / "far-ssh", self.stack, line.within(0), line.addresses[0])

        def race(title, source, rival, copy, references=None, **more):
            rivals = {"nearshare": lambda: self.nearshare(source, far.address, far, line.within(1))} | (references or {})
            # The first word of a rival is its command.
            if ssh and shutil.which(rival.split()[0]):
                rivals[f"{rival} ({control})"] = lambda: copy(ssh, source, self.target, line.within(1))
            return table(title, self.measure(rivals, more.pop("runs", None)), "nearshare", **more)

        line.delay = 0.025
        texts = [
            race("1 KiB over 50 ms, 100 Mbit/s", small, "scp", SSH.copy),
            race("200 files of 4 KiB over 50 ms, 100 Mbit/s", tree, "rsync over ssh", SSH.rsync),
        ]
        line.delay, line.loss = 0.01, 0.01
        ends = {"receiver": line.within(0), "sender": line.within(1)}
        pairs = limits.reference_pairs(self.place, large, self.target / "large", "", line.addresses[:1])
        references = {f"{name} (bbr)": (lambda pair=pair: pair.run(ends.get)[:2]) for name, pair in pairs.items()}
        title = "32 MiB over 20 ms, 100 Mbit/s, 1 % loss"
        texts.append(race(title, large, "scp", SSH.copy, references, runs=3, per_byte=32 << 20))
        return "\n".join(texts)

    def own_pair(self, source):
        """A receiver for one transfer, and its sender."""
        environment = peer_environment(self.place / "once")
        command = [self.binary, "receive", "--inbox", self.inbox, "--accept", "all", "--once", "--json"]

        def send(receiver):
            return [self.binary, "send", "--quiet", source, "--to", f"127.0.0.1:{limits.port(receiver)}"]

        return limits.Pair(command, send, (environment, self.sender))

    # Measuring.

    def nearshare(self, source, peer, receiver=None, within=()):
        receiver = receiver or self.receiver
        before = receiver.cpu()
        wall, cpu = run([*within, self.binary, "send", "--quiet", source, "--to", peer], env=self.sender)
        return wall, cpu + receiver.cpu() - before

    def measure(self, rivals, runs=None):
        results = {name: [] for name in rivals}
        for round_number in range((runs or self.runs) + 1):
            for name, work in rivals.items():
                self.clear()
                limits.touch_memory(self.place, self.size)
                figures = work()
                # The first round fills caches and is not counted.
                if round_number > 0:
                    results[name].append(figures)
        self.clear()
        return results

    def clear(self):
        for folder in (self.target, self.inbox):
            for path in folder.iterdir() if folder.exists() else []:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def table(title, results, ours, per_byte=None):
    medians = {name: (statistics.median(w for w, _ in r), statistics.median(c for _, c in r)) for name, r in results.items()}
    own = medians[ours][0]
    lines = [
        f"### {title}\n",
        "| | wall | CPU | time of the other : ours |" + (" GB/s |" if per_byte else ""),
        "|---|---|---|---|" + ("---|" if per_byte else ""),
    ]
    for name, (wall, cpu) in sorted(medians.items(), key=lambda item: item[1][0]):
        label = f"**{name}**" if name.startswith("nearshare") else name
        speed = f" {per_byte / wall / 1e9:.3g} |" if per_byte else ""
        lines.append(f"| {label} | {wall * 1000:.0f} ms | {cpu * 1000:.0f} ms | {wall / own:.2f} |{speed}")
    return "\n".join(lines) + "\n" + limits.remark(results)


def run(command, env=None, **more):
    """Seconds on the clock, and of the processors by the command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    subprocess.run([str(word) for word in command], env=env, check=True, stdout=subprocess.DEVNULL, **more)
    wall = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def peer_environment(home):
    home.mkdir()
    return {**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "XDG_CONFIG_HOME": str(home / "config")}


class Receiver:
    def __init__(self, binary, home, inbox, stack, within=(), host="127.0.0.1"):
        self.name = f"bench-{os.getpid()}"
        self.process = subprocess.Popen(
            [*within, binary, "receive", "--inbox", inbox, "--name", self.name, "--accept", "all", "--json"],
            env=peer_environment(home),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        stack.callback(self.stop)
        ready = json.loads(self.process.stdout.readline())
        self.address = f"{host}:{ready['port']}"
        # Nobody reads the events; a full pipe would stop the receiver.
        subprocess_drain(self.process.stdout)

    def cpu(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_memory(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("VmHWM"))

    def stop(self):
        self.process.terminate()
        self.process.wait()


def subprocess_drain(stream):
    import threading

    threading.Thread(target=lambda: [None for _ in stream], daemon=True).start()


class SSH:
    """A server of our own, with keys of its own, as the present user."""

    @classmethod
    def start(cls, place, stack, within=(), host="127.0.0.1"):
        if not (shutil.which("ssh") and pathlib.Path("/usr/sbin/sshd").exists()):
            print("(ssh is not installed: scp, rsync and tar over ssh are left out)")
            return None
        if not shutil.which("rsync"):
            print("(rsync is not installed: left out)")
        return cls(place, stack, within, host)

    def __init__(self, place, stack, within, host):
        place.mkdir(mode=0o700)
        for key in ("host", "user"):
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / key])
        shutil.copy(place / "user.pub", place / "authorized")
        port = limits.free_port()
        (place / "sshd_config").write_text(
            f"Port {port}\nListenAddress {host}\nHostKey {place}/host\nAuthorizedKeysFile {place}/authorized\n"
            f"StrictModes no\nPidFile none\nUsePAM no\nPermitRootLogin yes\nSubsystem sftp internal-sftp\n"
        )
        pathlib.Path("/run/sshd").mkdir(exist_ok=True)
        process = subprocess.Popen([*within, "/usr/sbin/sshd", "-D", "-f", place / "sshd_config"], stderr=subprocess.DEVNULL)
        stack.callback(process.wait)
        stack.callback(process.terminate)
        self.options = [
            "-i",
            str(place / "user"),
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "UserKnownHostsFile=/dev/null",
            "-o",
            "LogLevel=ERROR",
            "-o",
            "ConnectionAttempts=10",
        ]
        self.port = str(port)
        self.host = f"{pwd.getpwuid(os.getuid()).pw_name}@{host}"
        if not within:
            limits.wait_for_port(port)

    def copy(self, source, target, within=()):
        return run([*within, "scp", "-q", "-P", self.port, *self.options, source, f"{self.host}:{target}/"])

    def rsync(self, source, target, within=()):
        shell = " ".join(["ssh", "-p", self.port, *self.options])
        return run([*within, "rsync", "-a", "-e", shell, source, f"{self.host}:{target}/"])

    def tar(self, source, target):
        shell = " ".join(["ssh", "-p", self.port, *self.options, self.host, f"tar -C {target} -xf -"])
        return run(["sh", "-c", f"tar -C {source.parent} -cf - {source.name} | {shell}"])


class Web:
    """nginx with TLS 1.3 and AES-256-GCM, fetched from with curl."""

    @classmethod
    def start(cls, place, stack):
        if nginx.missing_tools():
            print("(nginx, curl or openssl is not installed: https is left out)")
            return None
        return cls(place, stack)

    def __init__(self, place, stack):
        home = place / "web"
        home.mkdir(mode=0o755)
        place.chmod(0o755)
        nginx.make_certificate(home, "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
        self.port = limits.free_port()
        nginx.start(home, self.port, stack, http="sendfile on;", server=f"root {place};")

    def fetch(self, name, target):
        return run(
            ["curl", "-fsk", "--tls13-ciphers", "TLS_AES_256_GCM_SHA384", "-o", target, f"https://127.0.0.1:{self.port}/{name}"]
        )


if __name__ == "__main__":
    main()
