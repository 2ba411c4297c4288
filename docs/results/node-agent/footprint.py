#!/usr/bin/env python3
"""What the node agent costs, beside Debian's prometheus-node-exporter: memory, processor time, scrapes, series.

    footprint.py AGENT NVML_STUB [SECONDS]

AGENT is cairn-node-agent, NVML_STUB the stand-in for NVIDIA's library (target/debug/deps/lib*nvml*.so). The agent sees
eight GPUs and no API server; both are scraped every 15 s, and 200 times in a row at the end.
"""
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

INTERVAL = 15


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def seconds_of(pid):
    """Processor time of a process and of its children that have ended."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid):
    with open(f"/proc/{pid}/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return int(lines["VmRSS"].split()[0]) / 1024


def scrape(port):
    start = time.monotonic()
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
    return time.monotonic() - start, sum(1 for line in text.splitlines() if line and line[0] != "#")


def measure(name, command, environment, port, seconds):
    started = time.monotonic()
    process = subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                scrape(port)
                break
            except OSError:
                if process.poll() is not None:
                    sys.exit(f"{name} has ended with {process.returncode}")
                time.sleep(0.01)
        first = time.monotonic() - started
        time.sleep(INTERVAL)
        begin, spent = time.monotonic(), seconds_of(process.pid)
        memory = []
        while time.monotonic() - begin < seconds:
            scrape(port)
            memory.append(resident_mib(process.pid))
            time.sleep(INTERVAL)
        cores = (seconds_of(process.pid) - spent) / (time.monotonic() - begin)
        took, series = zip(*(scrape(port) for _ in range(200)))
        took = sorted(took)
        files = len(os.listdir(f"/proc/{process.pid}/fd"))
        print(f"| {name} | {max(memory):.1f} | {memory[-1] - memory[0]:+.1f} | {cores * 1000:.1f} | "
              f"{took[100] * 1000:.1f} | {took[197] * 1000:.1f} | {series[-1]} | {files} | {first:.2f} |", flush=True)
    finally:
        process.kill()
        process.wait()


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    if not shutil.which("prometheus-node-exporter"):
        sys.exit("prometheus-node-exporter is not installed; on Debian: apt-get install prometheus-node-exporter")
    agent, stub = sys.argv[1:3]
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 600
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.abspath(stub), f"{folder}/libnvidia-ml.so.1")
        nowhere = f"{folder}/kubeconfig"
        with open(nowhere, "w") as file:
            file.write("apiVersion: v1\nkind: Config\ncurrent-context: a\n"
                       "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n"
                       "contexts: [{name: a, context: {cluster: a, user: a}}]\nusers: [{name: a, user: {}}]\n")
        print("| | memory MiB | over the run | millicores | scrape, median ms | p99 ms | series | open files | first answer s |")
        print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
        port = free_port()
        measure("cairn-node-agent", [agent, "--node-name", "here", "--listen", f"127.0.0.1:{port}"],
                {"LD_LIBRARY_PATH": folder, "CAIRN_STUB_NVML": "gpus=8", "KUBECONFIG": nowhere}, port, seconds)
        port = free_port()
        measure("prometheus-node-exporter", ["prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{port}"],
                {}, port, seconds)


if __name__ == "__main__":
    main()
