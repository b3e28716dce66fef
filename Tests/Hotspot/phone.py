"""A phone with one Wi-Fi device in a network namespace of its own: it joins what a QR code names, as any device does."""

import contextlib
import os
import pathlib
import re
import subprocess
import time
import traceback

# In seconds: an emulated machine on a busy host is slow.
TIMEOUT = int(os.environ.get("RADIO_TIMEOUT", 120))
# The exit status of a machine that died (Tests/Radio/machine.py).
MACHINE_FAILED = 125


def run(*command, timeout=TIMEOUT, **options):
    """Returns the output of a command that has to succeed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=timeout, **options)
    if done.returncode:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def output(*command, timeout=30, **options):
    """Returns the output of a command that may fail; what it has said so far if it does not end in time."""
    words = [str(word) for word in command]
    try:
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=timeout, **options).stdout
    except subprocess.TimeoutExpired as error:
        return (error.stdout or b"").decode(errors="replace")


@contextlib.contextmanager
def preparing():
    """Fails the machine, so that its tests run once more, if what they need does not start: no test has run by then."""
    try:
        yield
    except Exception:
        traceback.print_exc()
        os._exit(MACHINE_FAILED)


def wait_until(test, what, timeout):
    end = time.monotonic() + timeout
    while not (found := test()):
        if time.monotonic() > end:
            raise AssertionError(f"waited {timeout} s for {what}")
        time.sleep(0.2)
    return found


def fields(text):
    """The fields of the text of a Wi-Fi QR code, as a phone reads them."""
    if not text.startswith("WIFI:") or not text.endswith(";;"):
        raise AssertionError(f"no text of a Wi-Fi QR code: {text!r}")
    found = {}
    for name, value in re.findall(r"([A-Z]):((?:[^\\;]|\\.)*);", text[5:-1]):
        found[name] = re.sub(r"\\(.)", r"\1", value)
    return found


class Phone:
    def __init__(self, name, device, place):
        self.name, self.device, self.place = name, device, pathlib.Path(place)
        self.processes = []
        run("ip", "netns", "add", name)
        phy = pathlib.Path(f"/sys/class/net/{device}/phy80211/name").read_text().strip()
        run("iw", "phy", phy, "set", "netns", "name", name)
        self.run("ip", "link", "set", "lo", "up")

    def within(self, *command):
        return ["ip", "netns", "exec", self.name, *map(str, command)]

    def run(self, *command, **options):
        return run(*self.within(*command), **options)

    def start(self, *command, **options):
        log = open(self.place / f"{self.name}-{pathlib.Path(str(command[0])).name}.log", "ab")  # noqa: SIM115
        process = subprocess.Popen(self.within(*command), stdin=subprocess.DEVNULL, stdout=log, stderr=log, **options)
        log.close()
        self.processes.append(process)
        return process

    def supplicate(self, network):
        """Starts wpa_supplicant with one network."""
        configuration = self.place / f"{self.name}.conf"
        lines = "\n".join(f"    {key}={value}" for key, value in network.items())
        control = self.place / f"{self.name}-control"
        configuration.write_text(f"ctrl_interface={control}\nap_scan=1\nnetwork={{\n{lines}\n}}\n")
        self.control = control
        return self.start("/sbin/wpa_supplicant", "-i", self.device, "-D", "nl80211", "-c", configuration)

    def serve(self, name, passphrase):
        """Is the access point of a network."""
        self.supplicate(
            {"ssid": f'"{name}"', "mode": 2, "frequency": 2437, "key_mgmt": "WPA-PSK", "proto": "RSN", "psk": f'"{passphrase}"'}
        )

    def join(self, text, timeout):
        """Joins the network of a QR code, and gets an address."""
        code = fields(text)
        self.supplicate({"ssid": f'"{code["S"]}"', "psk": f'"{code["P"]}"', "key_mgmt": "WPA-PSK", "proto": "RSN"})
        wait_until(lambda: self.status().get("wpa_state") == "COMPLETED", f"{self.name} to join", timeout)
        script = self.place / "udhcpc.sh"
        script.write_text('#!/bin/sh\n[ "$1" != bound ] || ip addr add "$ip/$mask" dev "$interface"\n')
        script.chmod(0o755)
        # In the foreground until there is an address.
        self.run("/run/busybox", "udhcpc", "-i", self.device, "-q", "-n", "-t", 30, "-T", 1, "-s", script, timeout=timeout)

    def status(self):
        shown = output(*self.within("/sbin/wpa_cli", "-p", self.control, "-i", self.device, "status"))
        return dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)

    def is_connected(self):
        return "Connected to" in self.run("iw", "dev", self.device, "link")

    def leave(self):
        for process in self.processes:
            process.terminate()
            process.wait()
        self.processes = []
        self.run("ip", "addr", "flush", "dev", self.device)
