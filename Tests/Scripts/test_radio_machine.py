"""The machine of the Bluetooth tests where it cannot start or is stuck: the reason, and 125 (Tests/Radio/machine.py)."""

import contextlib
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

MACHINE = pathlib.Path(__file__).resolve().parents[1] / "Radio" / "machine.py"
sys.path.insert(0, str(MACHINE.parent))

import machine  # noqa: E402

KERNEL = "linux-image-9.9.9"
KNOWN = f"echo '  Depends: {KERNEL}'"


class RadioMachineTests(unittest.TestCase):
    """Programs of the system are replaced by those that a test defines: there are no others."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.place = pathlib.Path(scratch.name)

    def start(self, **programs):
        for name, text in programs.items():
            program = self.place / name.replace("_", "-")
            program.write_text(f"#!/bin/sh\n{text}\n")
            program.chmod(0o755)
        variables = {"PATH": str(self.place), "XDG_CACHE_HOME": str(self.place / "cache"), "LC_ALL": "C.UTF-8"}
        command = [sys.executable, MACHINE, "--", "/bin/true"]
        return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60)

    def assert_failed(self, result, reason):
        self.assertEqual((125, f"radio: {reason}\n"), (result.returncode, result.stderr))

    def test_lists_of_packages_that_a_user_may_not_renew(self):
        result = self.start(apt_cache="exit 0", apt_get="exit 100")
        self.assert_failed(
            result,
            "apt knows no package linux-image-amd64, whose kernel is needed; run `apt-get update` as root",
        )

    def test_a_kernel_that_is_in_no_list(self):
        result = self.start(apt_cache="exit 0", apt_get="exit 0")
        self.assert_failed(result, "apt knows no package linux-image-amd64, whose kernel is needed")

    def test_a_kernel_that_cannot_be_fetched(self):
        result = self.start(apt_cache=KNOWN, apt_get="exit 100")
        self.assert_failed(result, f"apt-get -q download {KERNEL} ended with 100")

    def test_a_missing_program(self):
        self.assert_failed(self.start(), "apt-cache is missing")
        fetch = f'test "$1" = -qq || : > {KERNEL}.deb'
        self.assert_failed(self.start(apt_cache=KNOWN, apt_get=fetch), "dpkg-deb is missing")


class WatchTests(unittest.TestCase):
    """A process that never ends instead of the machine, and what the machine writes."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.control = pathlib.Path(scratch.name)

    def watch(self, seconds=0, **limits):
        with subprocess.Popen(["sleep", "60"]) as process:
            try:
                return machine.watch(process, self.control, seconds, machine.Limits()._replace(**limits))
            finally:
                process.kill()

    @contextlib.contextmanager
    def speaking(self):
        """Says again and again that the machine runs."""
        is_over = threading.Event()

        def speak():
            count = 0
            while not is_over.wait(0.1):
                (self.control / "alive").write_text(str(count := count + 1))

        thread = threading.Thread(target=speak)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def test_a_machine_that_is_silent(self):
        (self.control / "started").write_text("1\n")
        self.assertEqual("was silent for 2 s", self.watch(seconds=60, silence=2))

    def test_a_machine_whose_command_does_not_begin(self):
        with self.speaking():
            self.assertEqual("did not start within 4 s", self.watch(silence=2, start=4))

    def test_a_machine_whose_command_does_not_end(self):
        (self.control / "started").write_text("1\n")
        with self.speaking():
            self.assertEqual("did not end its command after 2 s", self.watch(seconds=2, silence=2, end=2))

    def test_a_machine_that_does_not_power_off_after_its_command(self):
        (self.control / "started").write_text("1\n")
        (self.control / "status").write_text("0\n")
        self.assertIsNone(self.watch(silence=1, end=2))


if __name__ == "__main__":
    unittest.main()
