#!/usr/bin/env python3
"""Runs a command on a real Linux Bluetooth or Wi-Fi stack without a radio.

Boots Debian's own kernel under QEMU. The machine sees the host's files (an overlay receives writes and is dropped), and
has a system bus; N virtual Bluetooth controllers in range of each other (air.c), and bluetoothd; and M simulated Wi-Fi
devices (mac80211_hwsim). It runs the command as root in this directory and powers off. Output and exit status are the
command's.

125: the machine did not start, died or was silent.  124: the command was out of time, and got SIGABRT.  A command that ends
with one of these looks the same, but for the line "radio: …" on standard error.
"""

import argparse
import errno
import hashlib
import inspect
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import typing

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "nearshare-radio"
MODULES = [
    "net",
    "crypto",
    "lib",
    "arch",
    "fs/9p",
    "fs/netfs",
    "fs/fscache",
    "fs/overlayfs",
    "drivers/virtio",
    "drivers/bluetooth",
    "drivers/char",
    "drivers/hid",
    "drivers/input/misc",
    "drivers/net/wireless/*mac80211_hwsim.ko*",
]
# Of the kernel's package.
PARTS = ["./boot/vmlinuz-*", "./lib/modules/*/modules.*", *(f"./lib/modules/*/kernel/{part}" for part in MODULES)]
FIRST_MODULES = ["virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay"]
OUT_OF_TIME, FAILED = 124, 125


class Limits(typing.NamedTuple):
    """How long the machine may take, in seconds: several times what it needs on a busy host."""

    start: int = 300
    silence: int = 180
    end: int = 60


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("-n", "--controllers", type=int, default=0, help="Bluetooth controllers")
    options.add_argument("-w", "--wifi", type=int, default=0, help="Wi-Fi devices")
    options.add_argument("-t", "--time", type=int, default=300, help="seconds for the command")
    options.add_argument("-k", "--keep", action="store_true", help="keep console and logs, and say where")
    options.add_argument("-v", "--verbose", action="store_true", help="let bluetoothd tell all, which makes it slow")
    options.add_argument("-s", "--share", type=pathlib.Path, help="a directory in which the machine may write")
    options.add_argument("command", nargs="+")
    arguments = options.parse_args()
    # The virtual machine ends with this process, as on a keyboard interrupt.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        machine = prepare()
        sys.exit(run_in(machine, arguments))
    except FileNotFoundError as error:
        fail(f"{error.filename} is missing")
    except subprocess.CalledProcessError as error:
        fail(f"{shlex.join(map(str, error.cmd))} ended with {error.returncode}")


def run_in(machine, arguments):
    run = pathlib.Path(tempfile.mkdtemp(prefix="nearshare-radio-"))
    try:
        return boot(machine, run, arguments)
    finally:
        if arguments.keep:
            print(f"radio: kept {run}", file=sys.stderr)
        else:
            shutil.rmtree(run, ignore_errors=True)


def fail(text):
    """Ends the process because the machine cannot start."""
    print(f"radio: {text}", file=sys.stderr)
    sys.exit(FAILED)


# What is needed once ------------------------------------------------------------------------------------------------


def prepare():
    """Unpacks kernel, modules and initial file system into the cache. Installs no package; may renew apt's lists."""
    package = kernel_package()
    machine = place_of(package) if package else None
    if machine and machine.exists():
        return machine
    # The package lists are missing on a fresh machine, or name a kernel that was replaced. Only root may renew them.
    updated = subprocess.run(["apt-get", "-qq", "update"]).returncode == 0
    package = kernel_package()
    if package is None:
        advice = "" if updated else "; run `apt-get update` as root"
        fail(f"apt knows no package linux-image-amd64, whose kernel is needed{advice}")
    machine = place_of(package)
    if machine.exists():
        return machine
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as place:
        new = pathlib.Path(place) / "machine"
        new.mkdir()
        subprocess.run(["apt-get", "-q", "download", package], cwd=new, check=True, stdout=subprocess.DEVNULL)
        (archive,) = new.glob("*.deb")
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE) as unpacked:
            subprocess.run(["tar", "-x", "-C", new, "--wildcards", *PARTS], stdin=unpacked.stdout, check=True)
        if unpacked.returncode != 0:
            fail(f"dpkg-deb could not unpack {archive}")
        archive.unlink()
        version = package.removeprefix("linux-image-")
        subprocess.run(["/sbin/depmod", "-b", new, version], check=True)
        (new / "boot" / f"vmlinuz-{version}").rename(new / "kernel")
        make_initramfs(new, version)
        try:
            new.rename(machine)
        except OSError as error:
            # Another run was faster.
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
    return machine


def place_of(package):
    """The cache of one kernel. Its name changes with all that its content is made of."""
    recipe = "\n".join(PARTS + FIRST_MODULES) + inspect.getsource(make_initramfs) + (HERE / "guest-first").read_text()
    return CACHE / f"{package}-{hashlib.sha256(recipe.encode()).hexdigest()[:8]}"


def kernel_package():
    shown = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], capture_output=True, text=True).stdout
    return next((line.split()[-1] for line in shown.splitlines() if "Depends: linux-image-" in line), None)


def make_initramfs(new, version):
    root = new / "first"
    (root / "bin").mkdir(parents=True)
    busybox = shutil.which("busybox")
    if busybox is None:
        fail("busybox is missing")
    shutil.copy(busybox, root / "bin/busybox")
    order = []
    for module in FIRST_MODULES:
        shown = output("/sbin/modprobe", "-d", new, "-S", version, "--show-depends", module)
        order += [line.split()[1] for line in shown.splitlines() if line.startswith("insmod")]
    order = list(dict.fromkeys(order))
    for path in order:
        shutil.copy(path, root)
    (root / "order").write_text("".join(f"{pathlib.Path(path).name}\n" for path in order))
    shutil.copy(HERE / "guest-first", root / "init")
    (root / "init").chmod(0o755)
    names = "".join(f"{path.relative_to(root)}\n" for path in root.rglob("*"))
    packed = subprocess.run(
        [root / "bin/busybox", "cpio", "-o", "-H", "newc"],
        cwd=root,
        input=names.encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    ).stdout
    (new / "initrd").write_bytes(packed)


def compiled(source):
    """Returns the compiled program; compiles it when the source has changed."""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    program = CACHE / f"{source.stem}-{digest}"
    if not program.exists():
        with tempfile.TemporaryDirectory(dir=CACHE) as place:
            new = pathlib.Path(place) / source.stem
            subprocess.run(["clang", "-O2", "-Wall", "-Werror", "-o", new, source], check=True)
            new.rename(program)
    return program


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


# One run ------------------------------------------------------------------------------------------------------------


def boot(machine, run, arguments):
    control = run / "control"
    control.mkdir()
    share = arguments.share.resolve() if arguments.share else None
    kept = {key: value for key, value in os.environ.items() if key.isidentifier()}
    settings = {
        "controllers": arguments.controllers,
        "wifi": arguments.wifi,
        "here": HERE,
        "modules": machine / "lib/modules",
        "share": share or "",
        "verbose": "-d" if arguments.verbose else "",
        "seconds": arguments.time,
        # The program that joins the controllers.
        "air": compiled(HERE / "air.c") if arguments.controllers else "",
    }
    lines = [f"{key}={shlex.quote(str(value))}" for key, value in settings.items()]
    (control / "settings").write_text("\n".join(lines) + "\n")
    command = [f"export {key}={shlex.quote(value)}" for key, value in kept.items()]
    command += [f"cd {shlex.quote(os.getcwd())}", "exec " + shlex.join(arguments.command)]
    (control / "command").write_text("\n".join(command) + "\n")
    shutil.copy(HERE / "guest", control / "init")
    pipes = {name: run / name for name in ("out", "err")}
    for pipe in pipes.values():
        os.mkfifo(pipe)
    # Opened for reading and writing, so that opening does not wait for the machine.
    ends = {name: os.open(pipe, os.O_RDWR) for name, pipe in pipes.items()}
    readers = [
        threading.Thread(target=pass_on, args=(pipes["out"], sys.stdout), daemon=True),
        threading.Thread(target=pass_on, args=(pipes["err"], sys.stderr), daemon=True),
    ]
    for reader in readers:
        reader.start()
    with (
        open(run / "qemu.log", "wb") as log,
        subprocess.Popen(
            qemu(machine, run, control, pipes, share), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        ) as process,
    ):
        try:
            trouble = watch(process, control, arguments.time)
        finally:
            process.kill()
    for end in ends.values():
        os.close(end)
    for reader in readers:
        reader.join(5)
    status = written(control / "status")
    if status is None or int(status) == OUT_OF_TIME:
        logs = [run / "qemu.log", run / "console", *sorted(control.glob("*.log"))]
        for log in logs:
            if log.exists() and (lines := log.read_text(errors="replace").splitlines()):
                print(f"radio: the end of {log.name}:", *lines[-25:], sep="\n", file=sys.stderr)
    if status is None:
        print(f"radio: the machine {trouble or 'died'}", file=sys.stderr)
        return FAILED
    if int(status) == OUT_OF_TIME:
        print(f"radio: not done after {arguments.time} s", file=sys.stderr)
    return int(status)


def watch(process, control, seconds, limits=Limits()):  # noqa: B008
    """Waits for the end of the machine, or of its command. Returns what is wrong with a machine that will end neither."""
    begun = time.monotonic()
    # When it last said that it runs, when the command began, and when it had ended: None before.
    alive, started, ended, said = begun, None, None, None
    while True:
        try:
            process.wait(1)
            return None
        except subprocess.TimeoutExpired:
            now = time.monotonic()
        if (latest := written(control / "alive")) != said:
            said, alive = latest, now
        if started is None and written(control / "started"):
            started = now
        if ended is None and written(control / "status"):
            ended = now
        if ended is not None:
            # The status is known, whatever keeps the machine from powering off.
            if now - ended > limits.end:
                return None
        elif now - alive > limits.silence:
            return f"was silent for {limits.silence} s"
        elif started is None:
            if now - begun > limits.start:
                return f"did not start within {limits.start} s"
        elif now - started > seconds + limits.end:
            return f"did not end its command after {seconds} s"


def written(file):
    """The text of a file that the machine may have written; None if it has not."""
    text = file.read_text().strip() if file.exists() else ""
    return text or None


def pass_on(pipe, stream):
    with open(pipe, "rb") as reading:
        while block := reading.read1(65536):
            stream.buffer.write(block)
            stream.buffer.flush()


def qemu(machine, run, control, pipes, share):
    # An emulated processor on every host: slower, but reproducible; /dev/kvm often exists without working.
    command = [
        "qemu-system-x86_64",
        "-accel",
        "tcg,thread=multi,tb-size=512",
        "-cpu",
        "max",
        "-M",
        "q35",
        "-m",
        "2048",
        "-smp",
        "2",
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
        "-serial",
        f"file:{run}/console",
        "-kernel",
        machine / "kernel",
        "-initrd",
        machine / "initrd",
        "-append",
        "console=ttyS0 quiet no_timer_check oops=panic panic=-1 rdinit=/init mitigations=off",
        "-device",
        "virtio-serial-pci",
    ]
    shares = [("root", "/", ",readonly=on"), ("control", control, "")] + ([("share", share, "")] if share else [])
    for tag, path, option in shares:
        command += [
            "-fsdev",
            f"local,id={tag},path={path},security_model=none,multidevs=remap{option}",
            "-device",
            f"virtio-9p-pci,fsdev={tag},mount_tag={tag}",
        ]
    for name, pipe in pipes.items():
        command += ["-chardev", f"file,id={name},path={pipe}", "-device", f"virtserialport,chardev={name},name={name}"]
    return command


if __name__ == "__main__":
    main()
