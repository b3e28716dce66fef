"""The files for firewalls and the package: well-formed, and with the port and the libraries of the tool."""

import configparser
import pathlib
import re
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"


class Packaging(unittest.TestCase):
    def setUp(self):
        source = (ROOT / "Sources/App/NearshareService/Node/Node+DefaultPort.swift").read_text()
        self.port = re.search(r"defaultPort: UInt16 = (\d+)", source)[1]

    def test_the_profile_of_ufw(self):
        profile = configparser.ConfigParser()
        profile.read_string((PACKAGING / "ufw/nearshare").read_text())
        self.assertEqual(["nearshare", "nearshare-localsend"], profile.sections())
        self.assertEqual("53317/tcp|53317/udp", profile["nearshare-localsend"]["ports"])
        self.assertEqual({"title", "description", "ports"}, set(profile["nearshare"]))
        self.assertEqual({f"{self.port},29743/tcp", "5353/udp"}, set(profile["nearshare"]["ports"].split("|")))

    def test_the_service_of_firewalld(self):
        service = ElementTree.parse(PACKAGING / "firewalld/nearshare.xml").getroot()
        self.assertEqual("service", service.tag)
        ports = [(one.get("protocol"), one.get("port")) for one in service.findall("port")]
        self.assertEqual([("tcp", self.port), ("tcp", "29743")], ports)
        self.assertEqual(["mdns"], [one.get("service") for one in service.findall("include")])
        service = ElementTree.parse(PACKAGING / "firewalld/nearshare-localsend.xml").getroot()
        ports = {(one.get("protocol"), one.get("port")) for one in service.findall("port")}
        self.assertEqual({("tcp", "53317"), ("udp", "53317")}, ports)

    def test_the_package_names_the_libraries_that_are_loaded_at_run_time(self):
        control = (PACKAGING / "debian/control").read_text()
        loaded = {
            name
            for path in (ROOT / "Sources").rglob("*")
            if path.suffix in {".c", ".h"}
            for name in re.findall(r'"lib([\w-]+)\.so\.\d+"', path.read_text())
        }
        self.assertIn("pulse", loaded)
        listed = (ROOT / "Sources/App/NearshareService/Diagnosis/BuildDescription.swift").read_text()
        for name in loaded:
            self.assertRegex(control, rf"(?m)^(Depends|Recommends): .*\blib{name}\d*\b")
            self.assertIn(f'"lib{name}.so.', listed, "`nearshare --version --verbose` says whether it is there")

    def test_both_are_installed_and_removed(self):
        makefile = (ROOT / "Makefile").read_text()
        for path in (
            "/etc/ufw/applications.d/nearshare",
            "/usr/lib/firewalld/services/nearshare.xml",
            "/usr/lib/firewalld/services/nearshare-localsend.xml",
        ):
            self.assertEqual(2, makefile.count(f"$(DESTDIR){path}"))

    def test_the_documents_of_a_package_link_only_to_each_other(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([PACKAGING / "package-documents", folder], check=True)
            pages = list(pathlib.Path(folder).rglob("*.md"))
            self.assertIn(pathlib.Path(folder) / "docs/PROTOCOL.md", pages)
            for page in pages:
                for address in re.findall(r"\]\((?![a-z]+:|#)([^)#\s]+)", page.read_text()):
                    self.assertTrue((page.parent / address).exists(), f"{page} links to {address}")

    def test_the_menus_have_the_icon_that_is_installed(self):
        name = "org.nearshare.nearshare"
        self.assertIn(f"apps/{name}.svg\n", (ROOT / "Makefile").read_text())
        ElementTree.parse(PACKAGING / f"desktop/{name}.svg")
        for path in PACKAGING.glob("desktop/*"):
            if path.suffix not in {".svg", ".py"}:
                self.assertRegex(path.read_text(), rf"(?m)^Icon(-Name)?={name}$", path)


if __name__ == "__main__":
    unittest.main()
