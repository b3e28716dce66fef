"""The machine of the Bluetooth tests where it cannot start: the reason, and 125 (Tests/Radio/machine.py)."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

MACHINE = pathlib.Path(__file__).resolve().parents[1] / "Radio" / "machine.py"
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


if __name__ == "__main__":
    unittest.main()
