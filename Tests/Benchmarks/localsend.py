#!/usr/bin/env python3
"""Times one file over LocalSend on loopback, to and from a plain TLS peer, beside these among themselves: curl sends to
nginx, nearshare sends to nginx, which answers as a LocalSend device does, and curl sends to `nearshare receive
--localsend`. The ways take turns; medians and ratios. As root it runs in a network namespace of its own.

localsend.py [--nearshare BINARY] [--runs N] [--size BYTES] [--wait SECONDS]
"""

import argparse
import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse

import limits
import nginx

ROOT = pathlib.Path(__file__).resolve().parents[2]
PORT = 53317
ISOLATED = "NEARSHARE_BENCH_ISOLATED"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nearshare", type=pathlib.Path, default=ROOT / ".build/fixed/release/nearshare")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--size", type=int, default=1 << 30)
    parser.add_argument("--wait", type=int, default=300, help="limit on the seconds to wait for a quiet machine")
    arguments = parser.parse_args()
    missing = nginx.missing_tools()
    if missing:
        print(f"One file over LocalSend: left out, {' and '.join(missing)} not installed\n")
        return
    if os.geteuid() == 0 and ISOLATED not in os.environ:
        words = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable, *sys.argv]
        os.execvpe(words[0], words, {**os.environ, ISOLATED: "1"})
    with contextlib.ExitStack() as stack:
        place = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm", prefix="nearshare-localsend-")))
        print(LocalSendBench(place, arguments, stack).report(arguments.runs, limits.wait_until_quiet(seconds=arguments.wait)))


class LocalSendBench:
    def __init__(self, place, arguments, stack):
        self.place, self.size = place, arguments.size
        self.binary = arguments.nearshare.resolve()
        self.source = place / "large"
        with open(self.source, "wb") as file:
            for start in range(0, self.size, 1 << 20):
                file.write(os.urandom(min(1 << 20, self.size - start)))
        self.start_nginx(stack)
        self.inbox = place / "inbox"
        words = ["receive", "--json", "--localsend", "--accept", "all", "--adapter", "none", "--inbox", self.inbox]
        environment = self.environment("receiver")
        receiver = subprocess.Popen(
            [self.binary, *words], env=environment, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        stack.callback(receiver.wait)
        stack.callback(receiver.kill)
        self.receiver_port = next(event["port"] for event in map(json.loads, receiver.stdout) if event["event"] == "localsend")

    def environment(self, name):
        home = self.place / name
        home.mkdir(exist_ok=True)
        return {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_STATE_HOME": str(home / "state")}

    def start_nginx(self, stack):
        """nginx as a LocalSend device that accepts one file, and stores its content."""
        home = self.place / "nginx"
        self.bodies = home / "bodies"
        self.bodies.mkdir(parents=True)
        nginx.make_certificate(home, "rsa:2048")
        der = ssl.PEM_cert_to_DER_cert((home / "cert").read_text())
        info = {"alias": "nginx", "version": "2.1", "fingerprint": hashlib.sha256(der).hexdigest()}
        answer = {"sessionId": "s", "files": {"0": "t"}}
        stored = limits.free_port()
        prefix = "/api/localsend/v2"
        nginx.start(
            home,
            PORT,
            stack,
            log=home / "log",
            http=f"client_max_body_size 0; client_body_temp_path {self.bodies};\n"
            f"client_body_buffer_size 256k; proxy_temp_path {home}/proxy; keepalive_requests 1000;\n"
            f"server {{ listen 127.0.0.1:{stored}; location / {{ return 200; }} }}",
            server="default_type application/json;\n"
            f"location {prefix}/info {{ return 200 '{json.dumps(info)}'; }}\n"
            f"location {prefix}/prepare-upload {{ return 200 '{json.dumps(answer)}'; }}\n"
            f"location {prefix}/cancel {{ return 200; }}\n"
            f"location {prefix}/upload {{ client_body_in_file_only on; proxy_pass_request_body off;\n"
            f"proxy_set_header Content-Length 0; proxy_pass http://127.0.0.1:{stored}/; }}",
        )

    # The ways.

    def curl_to_nginx(self):
        took = timed(self.curl, PORT, {"sessionId": "s", "fileId": "0", "token": "t"})
        self.check_body()
        return took

    def nearshare_to_nginx(self):
        words = [self.binary, "send", "--quiet", "--via", "lan", "--to", f"127.0.0.1:{PORT}", self.source]
        took = timed(run, words, env=self.environment("sender"))
        self.check_body()
        return took

    def curl_to_nearshare(self):
        answer = self.offer()
        query = {"sessionId": answer["sessionId"], "fileId": "0", "token": answer["files"]["0"]}
        took = timed(self.curl, self.receiver_port, query)
        self.check(self.inbox / "large")
        return took

    def curl(self, port, query):
        url = f"https://127.0.0.1:{port}/api/localsend/v2/upload?{urllib.parse.urlencode(query)}"
        run(["curl", "-skf", "--http1.1", "-X", "POST", "-T", self.source, "-o", "/dev/null", url])

    def offer(self):
        device = {"alias": "curl", "version": "2.1", "fingerprint": "0", "port": PORT, "protocol": "https"}
        file = {"id": "0", "fileName": "large", "size": self.size, "fileType": "application/octet-stream"}
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", self.receiver_port, context=context)
        connection.request("POST", "/api/localsend/v2/prepare-upload", json.dumps({"info": device, "files": {"0": file}}))
        response = connection.getresponse()
        body = response.read()
        connection.close()
        if response.status != 200:
            sys.exit(f"localsend.py: the offer got {response.status}: {body}")
        return json.loads(body)

    def check_body(self):
        (body,) = [path for path in self.bodies.rglob("*") if path.is_file()]
        self.check(body)

    def check(self, path):
        run(["cmp", path, self.source])
        path.unlink()

    def report(self, runs, load):
        ways = {
            "curl to nginx": self.curl_to_nginx,
            "**nearshare to nginx**": self.nearshare_to_nginx,
            "**curl to nearshare**": self.curl_to_nearshare,
        }
        times = {name: [] for name in ways}
        for number in range(runs + 1):
            limits.touch_memory(self.place, self.size)
            for name, way in ways.items():
                took = way()
                # The first round warms up.
                if number > 0:
                    times[name].append(took)
        rival = statistics.median(times["curl to nginx"])
        lines = [
            f"One file of {self.size / 2**30:.3g} GiB over LocalSend, medians of {runs} rounds; {load}",
            "",
            "| way | time | MB/s | of curl and nginx |",
            "|---|---|---|---|",
        ]
        for name, each in times.items():
            middle = statistics.median(each)
            lines.append(f"| {name} | {middle:.3f} s | {self.size / middle / 1e6:.0f} | {rival / middle:.2f} |")
        walls = {name: [(took, 0) for took in each] for name, each in times.items()}
        return "\n".join(lines) + "\n" + limits.remark({name.strip("*"): each for name, each in walls.items()})


def timed(action, *arguments, **more):
    begun = time.monotonic()
    action(*arguments, **more)
    return time.monotonic() - begun


def run(words, **more):
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL, **more)


if __name__ == "__main__":
    main()
