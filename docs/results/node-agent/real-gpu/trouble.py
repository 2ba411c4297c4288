#!/usr/bin/env python3
"""Records what the node agent publishes for a real GPU while its driver is released, unreachable, slow or failing.

    trouble.py BIN BETWEEN CRASH      as root, on a machine with an NVIDIA GPU and driver

BIN is a folder with etcd, kube-apiserver and cairn-node-agent; BETWEEN is between.c, compiled; CRASH is crash.cu, compiled. It starts an
API server and an agent for the node gpu-node, and prints every change of its NodeTopology with its delay. Devices are not touched: the
driver is made unreachable inside the agent's mount namespace only.
"""

import glob
import json
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request

BIN, BETWEEN, CRASH = sys.argv[1:4]
MANIFESTS = pathlib.Path(__file__).resolve().parents[4] / "crds" / "manifests"
WORK = pathlib.Path(tempfile.mkdtemp(prefix="cairn-gpu-"))
SSL = ssl._create_unverified_context()
BEGAN = time.monotonic()
started = []
seen = {"gpus": None, "version": None, "writes": 0}


def say(*words):
    print(f"{time.monotonic() - BEGAN:7.2f}", *words, flush=True)


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


def start(name, *command, **settings):
    log = open(WORK / f"{name}.log", "a")
    started.append(subprocess.Popen(command, stdout=log, stderr=log, **settings))
    return started[-1]


def api(method, path, body=None, kind="application/json"):
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    headers = {"Authorization": "Bearer secret", "Content-Type": kind}
    request = urllib.request.Request(f"https://127.0.0.1:{API}{path}", method=method, data=data, headers=headers)
    with urllib.request.urlopen(request, context=SSL, timeout=10) as answer:
        return answer.read().decode()


def topology():
    return json.loads(api("GET", "/apis/cairn.dev/v1alpha1/nodetopologies/gpu-node"))


def observe():
    """Prints changes of the node's GPUs."""
    try:
        now = topology()
    except OSError:
        return
    version = now["metadata"]["resourceVersion"]
    seen["writes"] += version != seen["version"]
    seen["version"] = version
    gpus = {it["id"]: it.get("health") for it in now["spec"].get("devices", []) if "GPU" in it["type"]}
    if gpus != seen["gpus"]:
        say("  published:", gpus)
    seen["gpus"] = gpus


def until(what, limit, condition):
    began, problem = time.monotonic(), None
    while time.monotonic() - began < limit:
        try:
            if condition():
                return say(f"{what}: after {time.monotonic() - began:.1f} s")
        except OSError as error:
            problem = error
        observe()
        time.sleep(0.1)
    sys.exit(f"not within {limit} s: {what} ({problem})")


def hold(what, seconds):
    end, before = time.monotonic() + seconds, seen["writes"]
    while time.monotonic() < end:
        observe()
        time.sleep(0.1)
    say(f"{what}, {seconds} s: the NodeTopology was written {seen['writes'] - before} times")


def agent(*before, **environment):
    say("an agent starts", *before[:1], *environment)
    ours = {"KUBECONFIG": str(WORK / "kubeconfig"), "NODE_NAME": "gpu-node"}
    command = [*before, f"{BIN}/cairn-node-agent", f"--listen=127.0.0.1:{PAGES}", "--probe-listen=127.0.0.1:0"]
    return start("agent", *command, env={**os.environ, **ours, **environment})


def collectors():
    with urllib.request.urlopen(f"http://127.0.0.1:{PAGES}/collectors", timeout=5) as answer:
        return [it for it in answer.read().decode().splitlines() if it.startswith(("hwloc", "nvml", "opencl"))]


def xid_errors():
    with urllib.request.urlopen(f"http://127.0.0.1:{PAGES}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    return [it for it in lines if it.startswith("cairn_device_xid_errors_total") or it.startswith("cairn_device_errors_total") and "xid" in it]


def nvml_is_ok():
    return "nvml ok" in collectors()


def all_are_ok():
    return seen["gpus"] and set(seen["gpus"].values()) == {"ok"}


def is_released():
    conditions = topology().get("status", {}).get("conditions", [])
    return any(it["type"] == "DriverReleased" and it["status"] == "True" for it in conditions)


def held(process):
    files = [os.readlink(it) for it in glob.glob(f"/proc/{process.pid}/fd/*") if os.path.lexists(it)]
    maps = len(re.findall("libnvidia-ml", pathlib.Path(f"/proc/{process.pid}/maps").read_text()))
    return f"{sum('/dev/nvidia' in it for it in files)} NVIDIA devices are open, {maps} mappings of NVML"


def label(value):
    patch = {"metadata": {"labels": {"cairn.dev/gpu-driver": value}}}
    api("PATCH", "/api/v1/nodes/gpu-node", patch, "application/merge-patch+json")


def set_fault(name, number=None):
    """Sets the fault file of the injection library, or removes it."""
    path = pathlib.Path(f"/tmp/cairn-{name}")
    path.unlink(missing_ok=True)
    if number is not None:
        (WORK / "new").write_text(str(number))
        os.rename(WORK / "new", path)


def end(process, how=signal.SIGTERM):
    process.send_signal(how)
    process.wait()


ETCD, PEERS, API, PAGES = (free_port() for _ in range(4))
(WORK / "tokens.csv").write_text("secret,admin,1,system:masters\n")
subprocess.run(["openssl", "genrsa", "-out", WORK / "key", "2048"], check=True, capture_output=True)
user = {"name": "it", "user": {"token": "secret"}}
cluster = {"name": "it", "cluster": {"server": f"https://127.0.0.1:{API}", "insecure-skip-tls-verify": True}}
context = {"name": "it", "context": {"cluster": "it", "user": "it"}}
config = {"apiVersion": "v1", "kind": "Config", "current-context": "it"}
config |= {"clusters": [cluster], "users": [user], "contexts": [context]}
(WORK / "kubeconfig").write_text(json.dumps(config))
start("etcd", f"{BIN}/etcd", f"--data-dir={WORK}/etcd", "--log-level=error",
      f"--listen-client-urls=http://127.0.0.1:{ETCD}", f"--advertise-client-urls=http://127.0.0.1:{ETCD}",
      f"--listen-peer-urls=http://127.0.0.1:{PEERS}", f"--initial-advertise-peer-urls=http://127.0.0.1:{PEERS}",
      f"--initial-cluster=default=http://127.0.0.1:{PEERS}")
start("kube-apiserver", f"{BIN}/kube-apiserver", f"--etcd-servers=http://127.0.0.1:{ETCD}",
      "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
      f"--secure-port={API}", "--service-cluster-ip-range=10.0.0.0/24", f"--cert-dir={WORK}/pki",
      f"--token-auth-file={WORK}/tokens.csv", "--authorization-mode=RBAC",
      "--service-account-issuer=https://kubernetes.default.svc",
      f"--service-account-key-file={WORK}/key", f"--service-account-signing-key-file={WORK}/key")
try:
    until("the API server answers", 60, lambda: api("GET", "/readyz") == "ok")
    for file in sorted(MANIFESTS.glob("*.yaml")):
        api("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", file.read_bytes(), "application/yaml")
    api("POST", "/api/v1/namespaces", {"metadata": {"name": "cairn-agents"}})
    api("POST", "/api/v1/nodes", {"metadata": {"name": "gpu-node"}})
    until("NodeTopologies are served", 20, lambda: api("GET", "/apis/cairn.dev/v1alpha1/nodetopologies"))

    one = agent()
    until("the GPUs are published as ok", 90, all_are_ok)
    hold("idle", 10)
    say(held(one))

    say("--- the driver is released by the node label, and the label is removed")
    label("released")
    until("the condition DriverReleased is True", 60, is_released)
    say(held(one))
    hold("released", 5)
    label(None)
    until("the GPUs are ok", 60, all_are_ok)
    say(held(one))

    say("--- killed, and restarted without access to the driver")
    end(one, signal.SIGKILL)
    covered = 'for it in /dev/nvidia*; do [ -d $it ] || mount --bind /dev/null $it; done; exec "$@"'
    one = agent("unshare", "-m", "sh", "-c", covered, "sh")
    until("the agent answers", 20, collectors)
    hold("the driver is unreachable", 20)
    say(collectors())
    end(one)
    one = agent()
    until("restarted with the driver: NVML answers", 60, nvml_is_ok)
    hold("after the restart", 8)
    end(one)

    say("--- a slow or failing driver")
    for name in ("slow-once", "slow", "fails-once", "fails"):
        set_fault(name)
    one = agent(CAIRN_NVML_LIBRARY=BETWEEN)
    until("NVML answers", 60, nvml_is_ok)
    hold("after the restart", 3)
    set_fault("slow-once", 8)
    hold("one call takes 8 s", 12)
    set_fault("fails-once", 15)
    hold("one call reports the GPU lost", 8)
    set_fault("fails", 15)
    hold("every call reports the GPU lost", 8)
    set_fault("fails")
    until("calls succeed again: the GPUs are ok", 30, all_are_ok)
    set_fault("slow", 60)
    hold("every call takes 60 s", 20)
    say(collectors())
    set_fault("slow")
    until("calls are fast again: the GPUs are ok", 75, all_are_ok)
    end(one)

    say("--- programs that access invalid memory")
    one = agent()
    until("NVML answers", 60, nvml_is_ok)
    hold("after the restart", 3)
    say(xid_errors())
    for crash in range(3):
        broken = subprocess.run([CRASH], capture_output=True, text=True, timeout=60)
        say(f"program {crash}: {broken.returncode}, {broken.stdout.strip()}")
    until("the driver's XID errors are counted", 20, lambda: any(" 3" in it[it.rindex("}"):] for it in xid_errors()))
    say(xid_errors())
    hold("after three crashes", 10)
    all_are_ok() or sys.exit("the GPU is no longer ok, though it is")
    end(one)
finally:
    for process in reversed(started):
        process.kill()
