"""nginx with TLS 1.3 on loopback, the plain rival of several benchmarks."""

import os
import pwd
import shutil
import subprocess

import limits

# The programs that start it, and fetch from it.
TOOLS = ("nginx", "curl", "openssl")


def missing_tools():
    return [tool for tool in TOOLS if not shutil.which(tool)]


def make_certificate(home, *algorithm):
    """Writes `key` and `cert`, of the algorithm in openssl's words."""
    words = ["openssl", "req", "-x509", "-newkey", *algorithm, "-nodes", "-days", "2", "-subj", "/CN=bench"]
    subprocess.run(
        [*words, "-keyout", str(home / "key"), "-out", str(home / "cert")],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def start(home, port, stack, *, http, server, log="/dev/null"):
    """Serves until the stack is left, with the certificate in the folder. `http` and `server` are the directives of the two
    blocks besides those of TLS."""
    (home / "conf").write_text(
        f"user {pwd.getpwuid(os.getuid()).pw_name};\ndaemon off;\npid {home}/pid;\nerror_log {log};\nevents {{}}\n"
        f"http {{ access_log off; {http}\n"
        f"server {{ listen 127.0.0.1:{port} ssl; ssl_protocols TLSv1.3; ssl_certificate {home}/cert;\n"
        f"ssl_certificate_key {home}/key; {server} }} }}\n"
    )
    process = subprocess.Popen(["nginx", "-c", str(home / "conf")], stderr=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    limits.wait_for_port(port)
