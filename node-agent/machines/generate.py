#!/usr/bin/env python3
"""Writes the machines of this folder, in hwloc's XML. Run it here after a change: python3 generate.py

They are made up: what is known of such machines in public, with fewer cores, so that they stay small. Addresses,
bandwidths and matrices have the form that hwloc's own back-ends give them.
"""

from pathlib import Path

GIB = 1 << 30


class Machine:
    """A tree of hwloc's objects; cores get their numbers as they are added."""

    def __init__(self, info=()):
        self.gp = 0
        self.pus = 0
        self.root = self.make("Machine", info=info, os_index=0)
        self.nodes = {}
        self.distances = []
        self.kinds = []

    def make(self, type_, info=(), **attributes):
        self.gp += 1
        return {"type": type_, "gp": self.gp, "info": list(info), "attributes": attributes, "memory": [], "normal": [],
                "io": [], "cpus": 0, "nodeset": 0}

    def package(self, vendor=None, model=None, **more):
        info = [("CPUVendor", vendor), ("CPUModel", model)]
        package = self.make("Package", [pair for pair in info if pair[1]], os_index=len(self.root["normal"]), **more)
        self.root["normal"].append(package)
        return package

    def group(self, parent):
        group = self.make("Group", kind=0, subkind=0)
        parent["normal"].append(group)
        return group

    def numa(self, parent, gib, index=None, subtype=None, info=()):
        index = len(self.nodes) if index is None else index
        more = {"subtype": subtype} if subtype else {}
        node = self.make("NUMANode", info, os_index=index, local_memory=int(gib * GIB), **more)
        parent["memory"].append(node)
        self.nodes[index] = node
        return node

    def cores(self, parent, count, threads=2):
        for _ in range(count):
            core = self.make("Core", os_index=self.pus // threads)
            parent["normal"].append(core)
            self.threads(core, threads)

    def threads(self, parent, count):
        for _ in range(count):
            pu = self.make("PU", os_index=self.pus)
            pu["cpus"] = 1 << self.pus
            self.pus += 1
            parent["normal"].append(pu)

    def bridge(self, parent, bus, last=None):
        bridge = self.make("Bridge", bridge_type="0-1", depth=0, bridge_pci=f"0000:[{bus:02x}-{last or bus:02x}]")
        parent["io"].append(bridge)
        return bridge

    def port(self, bridge, address, first, last, speed):
        """A bridge below a host's: a port of the processor, or of a switch."""
        port = self.make("Bridge", bridge_type="1-1", depth=bridge["attributes"]["depth"] + 1,
                         bridge_pci=f"0000:[{first:02x}-{last:02x}]", pci_busid=address,
                         pci_type="0604 [8086:347a] [0000:0000] 04", pci_link_speed=f"{speed:.6f}")
        bridge["io"].append(port)
        return port

    def pci(self, bridge, address, class_, ids, speed=0.0, vendor=None, model=None):
        info = [("PCIVendor", vendor), ("PCIDevice", model)]
        device = self.make("PCIDev", [pair for pair in info if pair[1]], pci_busid=address,
                           pci_type=f"{class_:04x} [{ids}] [0000:0000] 00", pci_link_speed=f"{speed:.6f}")
        bridge["io"].append(device)
        return device

    def os(self, parent, name, type_, subtype=None, **info):
        more = {"subtype": subtype} if subtype else {}
        device = self.make("OSDev", list(info.items()), name=name, osdev_type=type_, **more)
        parent["io"].append(device)
        return device

    def cuda(self, pci, index, model, mib, sms, nvml=True):
        """What hwloc's CUDA and NVML back-ends say of a GPU."""
        self.os(pci, f"cuda{index}", 5, "CUDA", Backend="CUDA", GPUVendor="NVIDIA Corporation", GPUModel=model,
                CUDAGlobalMemorySize=mib * 1024, CUDAMultiProcessors=sms, CUDACoresPerMP=64)
        if nvml:
            uuid = f"GPU-00000000-0000-4000-8000-{index:012x}"
            return self.os(pci, f"nvml{index}", 1, "NVML", Backend="NVML", GPUVendor="NVIDIA Corporation",
                           GPUModel=model, NVIDIAUUID=uuid)
        return None

    def matrix(self, name, kind, objects, value):
        gp = not all(it["type"] == "NUMANode" for it in objects)
        self.distances.append((name, kind, objects, gp, [[value(a, b) for b in range(len(objects))]
                                                         for a in range(len(objects))]))

    def slit(self, rows):
        self.matrix("NUMALatency", 5, list(self.nodes.values()), lambda a, b: rows[a][b])

    # -- writing

    def settle(self, it, near):
        """Sets of processors and memory: from below, and for memory from what it hangs on."""
        for child in it["normal"]:
            self.settle(child, near + it["memory"])
            it["cpus"] |= child["cpus"]
            it["nodeset"] |= child["nodeset"]
        it["absent"] = it["attributes"].pop("absent", 0)
        for node in it["memory"]:
            node["absent"] = 0
            node["nodeset"] = 1 << node["attributes"]["os_index"]
            node["cpus"] = it["cpus"]
            it["nodeset"] |= node["nodeset"]
        is_bare = it["attributes"].pop("bare", False)
        if not it["nodeset"] and not is_bare:
            for node in near:
                it["nodeset"] |= 1 << node["attributes"]["os_index"]
        for child in it["normal"]:
            it["absent"] |= child["absent"]
            if not child["nodeset"] and not is_bare and not child["bare"]:
                child["nodeset"] = it["nodeset"]
        it["bare"] = is_bare

    def xml(self):
        self.settle(self.root, [])
        lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<!DOCTYPE topology SYSTEM "hwloc2.dtd">',
                 '<topology version="2.0">']
        self.write(lines, self.root, 1)
        for name, kind, objects, gp, values in self.distances:
            length = len(objects)
            ids = [str(it["gp"] if gp else it["attributes"]["os_index"]) for it in objects]
            types = {it["type"] for it in objects}
            if len(types) == 1:
                lines.append(f'  <distances2 type="{types.pop()}" nbobjs="{length}" kind="{kind}" name="{name}" '
                             f'indexing="{"gp" if gp else "os"}">')
            else:
                lines.append(f'  <distances2hetero nbobjs="{length}" kind="{kind}" name="{name}">')
                ids = [f'{it["type"]}:{it["gp"]}' for it in objects]
            for tag, words in [("indexes", ids), *(("u64values", [str(v) for v in row]) for row in values)]:
                text = " ".join(words) + " "
                lines.append(f'    <{tag} length="{len(text)}">{text}</{tag}>')
            lines.append("  </distances2hetero>" if types else "  </distances2>")
        for cpus, info in self.kinds:
            lines.append(f'  <cpukind cpuset="{mask(cpus)}" forced_efficiency="-1">')
            lines.extend(f'    <info name="{name}" value="{value}"/>' for name, value in info)
            lines.append("  </cpukind>")
        lines.append("</topology>")
        return "\n".join(lines) + "\n"

    def write(self, lines, it, depth):
        indent = "  " * depth
        words = [f'type="{it["type"]}"']
        order = ["os_index", "name", "subtype"]
        attributes = it["attributes"]
        words += [f'{key}="{attributes[key]}"' for key in order if key in attributes]
        if it["type"] not in ("Bridge", "PCIDev", "OSDev"):
            cpus, nodes = mask(it["cpus"]), mask(it["nodeset"])
            words += [f'cpuset="{cpus}"', f'complete_cpuset="{cpus}"']
            if it["type"] == "Machine":
                words.append(f'allowed_cpuset="{cpus}"')
            words += [f'nodeset="{nodes}"', f'complete_nodeset="{mask(it["nodeset"] | it.get("absent", 0))}"']
            if it["type"] == "Machine":
                words.append(f'allowed_nodeset="{nodes}"')
        words.append(f'gp_index="{it["gp"]}"')
        words += [f'{key}="{value}"' for key, value in attributes.items() if key not in order]
        # hwloc wants the memory of a place in the order of its numbers.
        below = sorted(it["memory"], key=lambda node: node["attributes"]["os_index"]) + it["normal"] + it["io"]
        if not below and not it["info"]:
            lines.append(f'{indent}<object {" ".join(words)}/>')
            return
        lines.append(f'{indent}<object {" ".join(words)}>')
        lines.extend(f'{indent}  <info name="{name}" value="{value}"/>' for name, value in it["info"])
        for child in below:
            self.write(lines, child, depth + 1)
        lines.append(f"{indent}</object>")


def mask(bits):
    """A bitmap as hwloc writes it: 32 bits at a time, highest first."""
    parts = []
    while True:
        parts.append(f"0x{bits & 0xffffffff:08x}")
        bits >>= 32
        if not bits:
            return ",".join(reversed(parts))


INTEL = ("GenuineIntel", "Intel(R) Xeon(R) Platinum 8480+")
EPYC = ("AuthenticAMD", "AMD EPYC 7742 64-Core Processor")


def sockets(count, cpu=INTEL, cores=4, gib=64, domains=1):
    """Packages with so many NUMA domains each, and the places where devices can hang."""
    machine, places = Machine(), []
    for _ in range(count):
        package = machine.package(*cpu)
        for _ in range(domains):
            place = machine.group(package) if domains > 1 else package
            machine.numa(place, gib)
            machine.cores(place, cores)
            places.append(place)
    return machine, places


def slit(count, near, far, group):
    return [[10 if a == b else near if a // group == b // group else far for b in range(count)] for a in range(count)]


def all_to_all(machine, name, objects, megabytes):
    machine.matrix(name, 8 | 2, objects, lambda a, b: 1000000 if a == b else megabytes)


def dgx_a100():
    machine, places = sockets(2, EPYC, cores=4, gib=128, domains=4)
    buses = [(3, 0x07), (3, 0x0F), (1, 0x47), (1, 0x4E), (7, 0x87), (7, 0x90), (5, 0xB7), (5, 0xBD)]
    ends = []
    for index, (place, bus) in enumerate(buses):
        bridge = machine.bridge(places[place], bus, bus + 4)
        gpu = machine.pci(bridge, f"0000:{bus:02x}:00.0", 0x0302, "10de:20b0", 31.507692)
        ends.append(machine.cuda(gpu, index, "NVIDIA A100-SXM4-40GB", 40960, 108))
        nic = machine.pci(bridge, f"0000:{bus + 1:02x}:00.0", 0x0207, "15b3:101b", 31.507692, "Mellanox Technologies",
                          "MT28908 Family [ConnectX-6]")
        machine.os(nic, f"mlx5_{index}", 3)
    all_to_all(machine, "NVLinkBandwidth", ends, 300000)
    machine.slit(slit(8, 12, 32, 4))
    return machine


def gpus(model, ids, mib, sms, per_socket, count=2, nvlink=None, driver=True, class_=0x0302, speed=15.753846):
    machine, places = sockets(count)
    ends = []
    for index in range(per_socket * count):
        bus = 0x10 + 8 * index
        bridge = machine.bridge(places[index // per_socket], bus)
        gpu = machine.pci(bridge, f"0000:{bus:02x}:00.0", class_, ids, speed, "NVIDIA Corporation", model)
        if driver:
            ends.append(machine.cuda(gpu, index, f"NVIDIA {model}", mib, sms))
    if nvlink:
        all_to_all(machine, "NVLinkBandwidth", ends, nvlink)
    if count > 1:
        machine.slit(slit(count, 21, 21, 1))
    return machine


def pcie_switches():
    """Two sockets, each with two ports to a switch, below each of which are two GPUs and a NIC."""
    machine, places = sockets(2)
    for socket, place in enumerate(places):
        host = 0x10 + 0x40 * socket
        bridge = machine.bridge(place, host, host + 0x20)
        for nth in range(2):
            bus = host + 1 + 8 * nth
            root = machine.port(bridge, f"0000:{host:02x}:{1 + 2 * nth:02x}.0", bus, bus + 4, 63.015385)
            switch = machine.port(root, f"0000:{bus:02x}:00.0", bus + 1, bus + 4, 63.015385)
            for slot in range(3):
                below = bus + 2 + slot
                port = machine.port(switch, f"0000:{bus + 1:02x}:{slot:02x}.0", below, below, 31.507692)
                if slot < 2:
                    gpu = machine.pci(port, f"0000:{below:02x}:00.0", 0x0302, "10de:26b9", 31.507692,
                                      "NVIDIA Corporation", "L40S")
                    machine.cuda(gpu, 4 * socket + 2 * nth + slot, "NVIDIA L40S", 46068, 142)
                else:
                    nic = machine.pci(port, f"0000:{below:02x}:00.0", 0x0200, "15b3:101d", 31.507692,
                                      "Mellanox Technologies", "MT2892 Family [ConnectX-6 Dx]")
                    machine.os(nic, f"enp{below}s0", 2)
    machine.slit(slit(2, 21, 21, 1))
    return machine


def workstation():
    """A GPU for computing, one in the processor, the picture of the console, a disk, sound."""
    machine, [place] = sockets(1, ("GenuineIntel", "13th Gen Intel(R) Core(TM) i7-13700"))
    bridge = machine.bridge(place, 0x00, 0x04)
    igpu = machine.pci(bridge, "0000:00:02.0", 0x0300, "8086:a780", 0, "Intel Corporation", "Raptor Lake-S GT1")
    machine.os(igpu, "card0", 1)
    machine.pci(bridge, "0000:00:1f.3", 0x0403, "8086:7a50", 0)
    gpu = machine.pci(bridge, "0000:01:00.0", 0x0300, "10de:2684", 31.507692)
    machine.os(gpu, ":0.0", 1, "Display", Backend="GL", GPUVendor="NVIDIA Corporation", GPUModel="GeForce RTX 4090")
    machine.cuda(gpu, 0, "NVIDIA GeForce RTX 4090", 24564, 128, nvml=False)
    machine.os(gpu, "opencl0d0", 5, "OpenCL", Backend="OpenCL", OpenCLDeviceType="GPU",
               GPUVendor="NVIDIA Corporation", GPUModel="NVIDIA GeForce RTX 4090", OpenCLComputeUnits=128,
               OpenCLGlobalMemorySize=25153536)
    machine.pci(bridge, "0000:01:00.1", 0x0403, "10de:22ba", 31.507692)
    nvme = machine.pci(bridge, "0000:02:00.0", 0x0108, "144d:a80c", 7.876923)
    machine.os(nvme, "nvme0n1", 0, "Disk")
    eth = machine.pci(bridge, "0000:03:00.0", 0x0200, "8086:125c", 0.5, "Intel Corporation", "I226-V")
    machine.os(eth, "enp3s0", 2)
    machine.pci(bridge, "0000:04:00.0", 0x0300, "1a03:2000", 0, "ASPEED Technology, Inc.", "ASPEED Graphics Family")
    return machine


def mi250x():
    machine, places = sockets(1, ("AuthenticAMD", "AMD EPYC 7A53 64-Core Processor"), domains=4, gib=128)
    ends = []
    for index in range(8):
        bus = 0xC1 + 4 * index
        bridge = machine.bridge(places[index // 2], bus)
        gpu = machine.pci(bridge, f"0000:{bus:02x}:00.0", 0x0380, "1002:7408", 31.507692,
                          "Advanced Micro Devices, Inc. [AMD/ATI]", "Aldebaran")
        ends.append(machine.os(gpu, f"rsmi{index}", 1, "RSMI", Backend="RSMI", GPUVendor="AMD",
                               GPUModel="AMD Instinct MI250X", AMDUUID=f"{0xAB00 + index:x}", RSMIVRAMSize=67092480))
        machine.os(gpu, f"opencl0d{index}", 5, "OpenCL", Backend="OpenCL", OpenCLDeviceType="GPU",
                   GPUVendor="Advanced Micro Devices, Inc.", GPUModel="gfx90a", OpenCLComputeUnits=110)
    machine.matrix("XGMIBandwidth", 8 | 2, ends,
                   lambda a, b: 1000000 if a == b else 200000 if a // 2 == b // 2 else 50000 if (a ^ b) in (2, 4) else 0)
    machine.slit(slit(4, 12, 12, 4))
    return machine


def ponte_vecchio():
    """Level Zero speaks of a device and of its two tiles."""
    machine, places = sockets(2)
    ends = []
    for index, place in enumerate(places):
        bus = 0x29 + 0x40 * index
        gpu = machine.pci(machine.bridge(place, bus), f"0000:{bus:02x}:00.0", 0x0380, "8086:0bd5", 63.015385,
                          "Intel Corporation", "Ponte Vecchio XT")
        ze = machine.os(gpu, f"ze{index}", 5, "LevelZero", Backend="LevelZero", GPUVendor="Intel(R) Corporation",
                        GPUModel="Intel(R) Data Center GPU Max 1550", LevelZeroHBMSize=134217728, LevelZeroNumSlices=2)
        for tile in range(2):
            machine.os(ze, f"ze{index}.{tile}", 5, "LevelZero", Backend="LevelZero", LevelZeroHBMSize=67108864)
        ends.append(ze)
    all_to_all(machine, "XeLinkBandwidth", ends, 26562)
    machine.slit(slit(2, 21, 21, 1))
    return machine


def power9():
    """GPUs whose memory is in the processors' address space, with links to the processors."""
    machine = Machine()
    places, ends, index = [], [], 0
    for socket in range(2):
        package = machine.package(None, "POWER9 (raw), altivec supported")
        machine.numa(package, 256, index=8 * socket)
        machine.cores(package, 4, 4)
        places.append(package)
        bridge = machine.bridge(package, 0x04 + 0x30 * socket, 0x05 + 0x30 * socket)
        for nth in range(2):
            address = f"0000:{0x04 + 0x30 * socket + nth:02x}:00.0"
            machine.numa(package, 16, index=255 - index, subtype="GPUMemory", info=[("PCIBusID", address)])
            gpu = machine.pci(bridge, address, 0x0302, "10de:1db1", 7.876923)
            ends.append(machine.cuda(gpu, index, "Tesla V100-SXM2-16GB", 16128, 80))
            index += 1
    # GPUs of one socket have two links to each other and to the processor.
    objects = ends + places
    near = [0, 0, 1, 1, 0, 1]
    machine.matrix("NVLinkBandwidth", 8 | 2, objects,
                   lambda a, b: 1000000 if a == b else 0 if near[a] != near[b] else 75000)
    machine.slit([[10, 80, 80, 40, 80, 80], [80, 10, 80, 80, 80, 80], [80, 80, 10, 80, 80, 80],
                  [40, 80, 80, 10, 80, 80], [80, 80, 80, 80, 10, 80], [80, 80, 80, 80, 80, 10]])
    return machine


def grace_hopper():
    machine = Machine()
    package = machine.package(None, None)
    machine.numa(package, 480)
    machine.cores(package, 8, 1)
    machine.numa(package, 96, subtype="GPUMemory", info=[("PCIBusID", "00000009:01:00.0")])
    bridge = machine.make("Bridge", bridge_type="0-1", depth=0, bridge_pci="0009:[00-01]")
    package["io"].append(bridge)
    gpu = machine.pci(bridge, "0009:01:00.0", 0x0302, "10de:2342", 63.015385)
    machine.cuda(gpu, 0, "NVIDIA GH200 480GB", 97871, 132)
    machine.slit([[10, 80], [80, 10]])
    return machine


def fpgas():
    machine, places = sockets(2)
    for index, place in enumerate(places):
        bus = 0x3B + 0x40 * index
        bridge = machine.bridge(place, bus)
        card = machine.pci(bridge, f"0000:{bus:02x}:00.0", 0x1200, "10ee:5004", 15.753846, "Xilinx Corporation", "Alveo U250 XDMA")
        machine.os(card, f"opencl0d{index}", 5, "OpenCL", Backend="OpenCL", OpenCLDeviceType="Accelerator",
                   CoProcType="OpenCL", GPUVendor="Xilinx", GPUModel="xilinx_u250_gen3x16_xdma_shell_4_1",
                   OpenCLGlobalMemorySize=67108864)
        machine.pci(bridge, f"0000:{bus:02x}:00.1", 0x1200, "10ee:5005", 15.753846, "Xilinx Corporation")
    machine.slit(slit(2, 21, 21, 1))
    return machine


def fpga_cards(class_, ids, vendor, model):
    machine, [place] = sockets(1)
    machine.pci(machine.bridge(place, 0x5E), "0000:5e:00.0", class_, ids, 7.876923, vendor, model)
    return machine


def dangling():
    """Devices of which nobody knows where they hang: below the machine itself, with and without an address."""
    machine, _ = sockets(2)
    bridge = machine.bridge(machine.root, 0x80)
    gpu = machine.pci(bridge, "0000:80:00.0", 0x0302, "10de:1eb8", 15.753846, "NVIDIA Corporation", "TU104GL [Tesla T4]")
    machine.cuda(gpu, 0, "Tesla T4", 15360, 40)
    for index in range(2):
        machine.os(machine.root, f"opencl0d{index}", 5, "OpenCL", Backend="OpenCL", OpenCLDeviceType="Accelerator",
                   GPUVendor="Xilinx", GPUModel="u250", OpenCLComputeUnits=1)
    machine.os(machine.root, "opencl1d0", 5, "OpenCL", Backend="OpenCL", OpenCLDeviceType="CPU", GPUModel="pthread")
    return machine


def heterogeneous():
    machine, places = sockets(2)
    bridge = machine.bridge(places[0], 0x10, 0x1F)
    gpu = machine.pci(bridge, "0000:10:00.0", 0x0302, "10de:20b5", 31.507692)
    machine.cuda(gpu, 0, "NVIDIA A100 80GB PCIe", 81920, 108)
    machine.pci(bridge, "0000:12:00.0", 0x0380, "1002:738c", 31.507692, "Advanced Micro Devices, Inc. [AMD/ATI]", "Arcturus GL-XL [Instinct MI100]")
    machine.pci(bridge, "0000:14:00.0", 0x1200, "10ee:500c", 15.753846, "Xilinx Corporation", "Alveo U280")
    bridge = machine.bridge(places[1], 0x90, 0x9F)
    machine.pci(bridge, "0000:90:00.0", 0x1200, "1da3:1020", 31.507692, "Habana Labs Ltd.", "HL-2000 AI Training Accelerator [Gaudi]")
    machine.pci(bridge, "0000:92:00.0", 0x0B40, "8086:4940", 15.753846, "Intel Corporation", "4xxx Series QAT")
    machine.pci(bridge, "0000:94:00.0", 0x0200, "15b3:101d", 15.753846, "Mellanox Technologies", "MT2892 Family [ConnectX-6 Dx]")
    machine.slit([[10, 21], [31, 10]])
    return machine


def vector_engines():
    machine, places = sockets(2)
    for index in range(4):
        bus = 0x20 + 0x10 * index
        card = machine.pci(machine.bridge(places[index // 2], bus), f"0000:{bus:02x}:00.0", 0x0B40, "1bcf:001c", 15.753846, "NEC Corporation", "Vector Engine 1.0")
        machine.os(card, f"ve{index}", 5, "VectorEngine", Backend="VectorEngine", VectorEngineModel="1",
                   VectorEngineCores=8, VectorEngineMemorySize=50331648)
    return machine


def xeon_max():
    machine = Machine()
    packages = [machine.package("GenuineIntel", "Intel(R) Xeon(R) CPU Max 9480") for _ in range(2)]
    for package in packages:
        machine.numa(package, 256)
        machine.cores(package, 4)
    for package in packages:
        machine.numa(package, 64, subtype="HBM")
    machine.slit([[10, 21, 13, 23], [21, 10, 23, 13], [13, 23, 10, 23], [23, 13, 23, 10]])
    return machine


def knights_landing():
    machine = Machine()
    package = machine.package("GenuineIntel", "Intel(R) Xeon Phi(TM) CPU 7210 @ 1.30GHz")
    groups = [machine.group(package) for _ in range(4)]
    for group in groups:
        machine.numa(group, 24)
        machine.cores(group, 2, 4)
    for group in groups:
        machine.numa(group, 4, subtype="MCDRAM")
    return machine


def far_memory(subtype, gib):
    """Memory that is as far from all processors: it hangs on the machine."""
    machine, _ = sockets(2)
    machine.numa(machine.root, gib, subtype=subtype)
    machine.slit([[10, 21, 24], [21, 10, 24], [24, 24, 10]])
    return machine


def eight_sockets():
    machine, _ = sockets(8, ("GenuineIntel", "Intel(R) Xeon(R) Platinum 8280L CPU @ 2.70GHz"), cores=2, gib=192)
    machine.slit(slit(8, 16, 22, 4))
    return machine


def many_functions():
    """A network card that shows itself 300 times, and a GPU that must not be lost for it."""
    machine, [place] = sockets(1)
    bridge = machine.bridge(place, 0x10, 0x40)
    for index in range(300):
        machine.pci(bridge, f"0000:{0x10 + index // 8 // 32:02x}:{index // 8 % 32:02x}.{index % 8}", 0x0200, "15b3:101e", 0, "Mellanox Technologies", "ConnectX Family mlx5Gen Virtual Function")
    gpu = machine.pci(bridge, "0000:40:00.0", 0x0302, "10de:2330", 63.015385)
    machine.cuda(gpu, 0, "NVIDIA H100 80GB HBM3", 81559, 132)
    return machine


def virtual_machine():
    machine, [place] = sockets(1, ("GenuineIntel", "Intel Xeon Processor (Icelake)"), cores=2, gib=16)
    bridge = machine.bridge(place, 0x00)
    machine.pci(bridge, "0000:00:01.0", 0x0300, "1234:1111", 0)
    net = machine.pci(bridge, "0000:00:03.0", 0x0200, "1af4:1000", 0, "Red Hat, Inc.", "Virtio network device")
    machine.os(net, "eth0", 2)
    disk = machine.pci(bridge, "0000:00:04.0", 0x0100, "1af4:1001", 0)
    machine.os(disk, "vda", 0, "Disk")
    return machine


def arm():
    machine = Machine()
    package = machine.package(None, None)
    machine.numa(package, 32)
    machine.cores(package, 8, 1)
    return machine


def without_cores():
    machine = Machine()
    package = machine.package(*EPYC)
    machine.numa(package, 16)
    machine.threads(package, 4)
    return machine


def without_memory(machine, place, number=None):
    """Cores without local memory; `number` is that of their memory node, if the system knows it."""
    place["attributes"]["bare"] = True
    if number is not None:
        place["attributes"]["absent"] = 1 << number


def dies_without_memory():
    """Four dies on one board, of which two have memory channels; a device hangs on one that has none."""
    machine = Machine()
    package = machine.package("AuthenticAMD", "AMD Ryzen Threadripper PRO with four dies")
    for number in range(4):
        die = machine.group(package)
        if number % 2 == 0:
            machine.numa(die, 32, index=number)
        else:
            without_memory(machine, die, number)
        machine.cores(die, 4)
    bridge = machine.bridge(package["normal"][3], 0x21)
    machine.pci(bridge, "0000:21:00.0", 0x0302, "10de:2684", 31.5)
    return machine


def offline_memory():
    """Two sockets, the memory of the first of which is offline: the system does not list its node."""
    machine = Machine()
    for number in range(2):
        package = machine.package(*INTEL)
        if number == 1:
            machine.numa(package, 64, index=1)
        else:
            without_memory(machine, package)
        machine.cores(package, 4 + number)
    return machine


def part_without_memory():
    """A socket with a domain for each third of its cores; the system does not list the memory node of the last third."""
    machine = Machine()
    package = machine.package(*INTEL)
    for number in (0, 2):
        place = machine.group(package)
        machine.numa(place, 64, index=number)
        machine.cores(place, 4)
    machine.cores(package, 3)
    return machine


def hybrid(kinds):
    """A processor with several kinds of cores: their number, threads and infos."""
    machine = Machine()
    package = machine.package("GenuineIntel", "a hybrid processor")
    machine.numa(package, 32)
    for count, threads, info in kinds:
        first = machine.pus
        machine.cores(package, count, threads)
        machine.kinds.append(((1 << machine.pus) - (1 << first), info))
    return machine


def accelerators():
    """Devices of class 12 and displays, of which some are not for actors."""
    machine, [place] = sockets(1)
    for bus, (class_, ids) in enumerate([
            (0x1200, "1002:74a1"), (0x1200, "1002:75a0"), (0x1200, "19e5:d803"), (0x1200, "8086:643e"),
            (0x1200, "17cb:a080"), (0x1180, "1022:17f0"), (0x1200, "19e5:a255"), (0x0B40, "8086:4942"),
            (0x0300, "1002:4758"), (0x0300, "1a03:2000"), (0x1200, "1e52:b140"), (0x1200, "abcd:0001"),
            (0x0880, "1d0f:7264"), (0x0B40, "8086:2250")]):
        bridge = machine.bridge(place, 0x10 + bus)
        machine.pci(bridge, f"0000:{0x10 + bus:02x}:00.0", class_, ids, 15.75)
    return machine


MACHINES = {
    "dgx-a100": dgx_a100,
    "hgx-h100": lambda: gpus("H100 80GB HBM3", "10de:2330", 81559, 132, 4, nvlink=450000, speed=63.015385),
    "v100-16": lambda: gpus("Tesla V100-SXM3-32GB", "10de:1db8", 32768, 80, 8, nvlink=150000),
    "t4-4": lambda: gpus("Tesla T4", "10de:1eb8", 15360, 40, 2),
    "l40s-2": lambda: gpus("L40S", "10de:26b9", 46068, 142, 2, count=1),
    "gpus-without-driver": lambda: gpus("GA100 [A100 SXM4 40GB]", "10de:20b0", 0, 0, 2, driver=False),
    "workstation": workstation,
    "mi250x-8": mi250x,
    "ponte-vecchio": ponte_vecchio,
    "power9": power9,
    "grace-hopper": grace_hopper,
    "fpga-u250": fpgas,
    "fpga-intel-pac": lambda: fpga_cards(0x1200, "8086:0b30", "Intel Corporation", "FPGA PAC N3000"),
    "fpga-f1": lambda: fpga_cards(0x0580, "1d0f:f000", "Amazon.com, Inc.", None),
    "fpga-altera": lambda: fpga_cards(0xFF00, "1172:2494", "Altera Corporation", None),
    "pcie-switches": pcie_switches,
    "dangling": dangling,
    "heterogeneous": heterogeneous,
    "vector-engines": vector_engines,
    "xeon-max": xeon_max,
    "knights-landing": knights_landing,
    "cxl-memory": lambda: far_memory("CXL-DRAM", 512),
    "persistent-memory": lambda: far_memory("NVM", 1536),
    "eight-sockets": eight_sockets,
    "many-functions": many_functions,
    "virtual-machine": virtual_machine,
    "arm": arm,
    "without-cores": without_cores,
    "dies-without-memory": dies_without_memory,
    "offline-memory": offline_memory,
    "part-without-memory": part_without_memory,
    "hybrid-intel": lambda: hybrid([
        (4, 2, [("CoreType", "IntelCore"), ("FrequencyMaxMHz", 5200)]),
        (1, 2, [("CoreType", "IntelCore"), ("FrequencyMaxMHz", 5400)]),
        (8, 1, [("CoreType", "IntelAtom"), ("FrequencyMaxMHz", 3900)])]),
    "hybrid-arm": lambda: hybrid([
        (3, 1, [("LinuxCapacity", 512)]), (1, 1, [("LinuxCapacity", 520)]), (2, 1, [("LinuxCapacity", 1024)])]),
    "favoured-cores": lambda: hybrid([
        (6, 2, [("FrequencyMaxMHz", 4900)]), (2, 2, [("FrequencyMaxMHz", 5100)])]),
    "accelerators": accelerators,
}

if __name__ == "__main__":
    for name, make in MACHINES.items():
        Path(__file__).with_name(f"{name}.xml").write_text(make().xml())
