//! Working, absent, inaccessible, crashing and hanging drivers: the program with stubs of the drivers' libraries.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use crate::tool::{machines_folder, program, stub};
use crds::{Health, NodeTopology, NodeTopologySpec};
use serde_json::Value;

/// The program's output for a machine with eight H100, with the NVML stub in this condition.
pub fn h100s(condition: &str, library: &Path, more: &[&str]) -> String {
    let mut command = program();
    command
        .args(["topology", "--node-name", "h100s", "--topology-file"])
        .arg(machines_folder().join("hgx-h100.xml"));
    command.arg("--nvml-library").arg(library).args(more).env("CAIRN_STUB_NVML", condition);
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{condition}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it writes text")
}

pub fn spec(yaml: &str) -> NodeTopologySpec {
    serde_yaml::from_str::<NodeTopology>(yaml).expect("it is a manifest").spec
}

/// The lines about a GPU, its partitions, and the collector.
fn about(text: &str, gpu: &str) -> String {
    let lines = text
        .lines()
        .filter(|line| line.trim().starts_with(gpu) || line.contains("mig-") || line.starts_with("(nvml"));
    let lines = lines.filter(|line| !line.contains("PCIe"));
    lines.collect::<Vec<_>>().join("\n")
}

const SECOND: &str = "gpu-0000:18:00.0";

#[test]
fn hwloc_and_nvml_describe_one_device() {
    let spec = spec(&h100s("gpus=8", &stub("nvml"), &["-o", "yaml"]));
    let gpus: Vec<_> = spec.devices.iter().filter(|device| device.type_ == "GPU").collect();
    assert_eq!(gpus.len(), 8);
    let second = gpus.iter().find(|gpu| gpu.id == SECOND).unwrap();
    assert_eq!(second.uuid.as_deref(), Some("GPU-00000000-0000-4000-8000-000000000001"));
    assert_eq!(second.driver.as_deref(), Some("nvidia 580.65.06"));
    assert_eq!((second.numa_node, second.health), (Some(0), Health::Ok));
    assert_eq!(second.compute_resources.len(), 1, "CUDA and NVML report the same resource");
    assert_eq!(second.compute_resources[0].count, 132);
    assert_eq!(second.memory_spaces.len(), 1);
    assert_eq!(second.memory_spaces[0].size_bytes, 80 << 30);
    // The stub's two links from each GPU to the next replace those of hwloc's matrix.
    let links: Vec<_> = spec.links.iter().filter(|link| link.kind == "NVLink").collect();
    assert_eq!(links.len(), 7);
    assert!(links.iter().all(|link| link.bandwidth_bytes_per_second == Some(50_000_000_000)));
    assert_eq!(spec.links.iter().filter(|link| link.kind == "PCIe").count(), 8);
}

#[test]
fn a_withheld_gpu_is_not_mistaken_for_a_switch() {
    let spec = spec(&h100s("gpus=8 withheld=1", &stub("nvml"), &["-o", "yaml"]));
    let second = spec.devices.iter().find(|device| device.id == SECOND).unwrap();
    assert_eq!(second.health, Health::Unknown);
    let links = spec.links.iter().filter(|link| link.kind == "NVLink");
    let ends: Vec<_> =
        links.map(|link| format!("{} {}", &link.source[9..11], &link.destination[9..11])).collect();
    assert_eq!(ends, ["20 28", "28 30", "30 38", "38 40", "40 48"]);
}

#[test]
fn a_gpu_says_what_it_can_and_nothing_instead_of_what_it_cannot() {
    let mut all = Vec::new();
    for condition in [
        "gpus=8",
        "gpus=8 old",
        "gpus=8 worn=1",
        "gpus=8 mig=1",
        "gpus=8 lost=1",
        "gpus=8 gone=1",
        "gpus=8 garbage",
    ] {
        let text = h100s(condition, &stub("nvml"), &["--counters"]);
        all.push(format!("== {condition}\n{}", about(&text, SECOND)));
        // A failure of one GPU does not affect the others.
        if condition != "gpus=8 garbage" {
            assert!(text.contains("gpu-0000:20:00.0 memory_used_bytes 3221225472"), "{condition}: {text}");
        }
    }
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn a_driver_that_does_not_start_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let nothing = folder.path().join("libnvidia-ml.so.1");
    let empty = folder.path().join("empty.so");
    fs::write(&empty, "").unwrap();
    let mut all = String::new();
    for (condition, library) in [
        ("no-driver", &stub("nvml")),
        ("denied", &stub("nvml")),
        ("mismatch", &stub("nvml")),
        ("", &nothing),
        ("", &empty),
    ] {
        let text = h100s(condition, library, &["--counters"]);
        let lines = text.lines().filter(|line| line.starts_with("(nvml")).collect::<Vec<_>>().join("\n");
        all.push_str(&lines.replace(folder.path().to_str().unwrap(), "FOLDER"));
        all.push('\n');
        assert!(about(&text, SECOND).contains("unknown"), "hwloc still lists it, {condition}: {text}");
    }
    insta::assert_snapshot!(all);
}

#[test]
fn a_missing_driver_is_no_error_without_a_gpu() {
    let folder = tempfile::tempdir().unwrap();
    let nothing = folder.path().join("libnvidia-ml.so.1");
    for (machine, library, condition) in
        [("fpga-u250.xml", &nothing, ""), ("fpga-u250.xml", &stub("nvml"), "no-driver")]
    {
        let mut command = program();
        command.args(["topology", "--topology-file"]).arg(machines_folder().join(machine));
        command.arg("--nvml-library").arg(library).env("CAIRN_STUB_NVML", condition);
        let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert!(text.contains("(nvml absent: there is no NVIDIA GPU)"), "{text}");
    }
}

/// Old drivers lack functions. Only the values of missing functions are absent.
#[test]
fn a_function_that_is_missing_costs_what_it_would_say() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libnvidia-ml.so.1");
    let mut bytes = fs::read(stub("nvml")).unwrap();
    // Renames symbols in place, so that they are not found.
    for name in ["nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetMemoryInfo_v2"] {
        let mut count = 0;
        for at in 0..bytes.len() - name.len() {
            if &bytes[at..at + name.len()] == name.as_bytes() {
                bytes[at] = b'x';
                count += 1;
            }
        }
        assert!(count > 0, "{name} is in the library");
    }
    fs::write(&library, bytes).unwrap();
    let text = h100s("gpus=8", &library, &["--counters"]);
    insta::assert_snapshot!(about(&text, SECOND));
}

#[test]
fn a_hanging_driver_blocks_no_other_collector() {
    let text = h100s("gpus=8 hang", &stub("nvml"), &["--counters"]);
    assert!(text.contains("(nvml error: no response within 2s: the driver hangs"), "{text}");
    assert!(text.contains("numa-1  NUMA Domain") && about(&text, SECOND).contains("unknown"), "{text}");
}

#[test]
fn a_crashing_driver_does_not_affect_the_agent() {
    for moment in ["start", "memory", "events"] {
        let text = h100s(&format!("gpus=8 crash={moment}"), &stub("nvml"), &["--counters"]);
        let error = "(nvml error: a library crashed: the probe process ended with signal: 11 (SIGSEGV)";
        let remedy = "(see `dmesg`, and whether `nvidia-smi -q` succeeds); the trial is retried within 120s";
        assert!(text.contains(error) && text.contains(remedy), "{moment}: {text}");
        assert!(about(&text, SECOND).contains("unknown"), "{moment}: {text}");
        assert!(!text.contains("memory_used_bytes"), "{moment}: {text}");
    }
}

#[test]
fn a_trial_of_the_driver_says_whether_it_can_be_loaded() {
    let ask = |condition| {
        let mut command = program();
        command.arg("probe-nvml").env("CAIRN_STUB_NVML", condition);
        let (is_ok, response) =
            probe(command, &serde_json::to_string(&Some(stub("nvml").into_os_string())).unwrap());
        format!("{condition}: {}, {response}", if is_ok { "succeeded" } else { "crashed" })
    };
    let conditions = ["gpus=8", "mig=1 old", "lost=1", "garbage", "no-driver", "mismatch", "crash=events"];
    insta::assert_snapshot!(conditions.map(ask).join("\n"));
}

/// The output lines of a running program.
struct Lines {
    child: Child,
    lines: Receiver<String>,
}

impl Lines {
    fn of(mut command: std::process::Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let out = child.stdout.take().expect("it is piped");
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(out).lines() {
                if line.is_err() || sender.send(line.unwrap_or_default()).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    /// Waits for a printed topology (from one name of the node to the next) that satisfies `predicate`.
    fn wait(&self, what: &str, predicate: impl Fn(&str) -> bool) {
        let mut text = String::new();
        loop {
            let line = self.lines.recv_timeout(Duration::from_mins(2));
            let line = line.unwrap_or_else(|_| panic!("timed out: {what}; last: {text}"));
            if line == "h100s" {
                text.clear();
            }
            text.push_str(&line);
            text.push('\n');
            if predicate(&text) {
                return;
            }
        }
    }
}

/// The machine with eight H100, printed on each change, with a stub whose condition can be changed.
struct Watched {
    folder: tempfile::TempDir,
    lines: Lines,
}

impl Watched {
    fn new(condition: &str) -> Self {
        let folder = tempfile::tempdir().expect("the folder is created");
        let file = folder.path().join("condition");
        fs::write(&file, condition).expect("the file is written");
        let mut command = program();
        command.args(["topology", "--watch", "--counters", "--node-name", "h100s", "--topology-file"]);
        command.arg(machines_folder().join("hgx-h100.xml")).arg("--nvml-library").arg(stub("nvml"));
        command.env("CAIRN_STUB_NVML", format!("@{}", file.display()));
        Self { folder, lines: Lines::of(command) }
    }

    fn set(&self, condition: &str) {
        // atomic, as a partial condition could be a different one
        let draft = self.folder.path().join("draft");
        fs::write(&draft, condition).expect("the file is written");
        fs::rename(&draft, self.folder.path().join("condition")).expect("the file is replaced");
    }

    fn wait(&self, what: &str, predicate: impl Fn(&str) -> bool) {
        self.lines.wait(what, predicate);
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_crashed_driver_is_retried_and_used_after_its_repair() {
    let machine = Watched::new("gpus=8 crash=start");
    machine.wait("it crashes", |text| text.contains("(nvml error: a library crashed"));
    machine.set("gpus=8");
    machine.wait("it is repaired", |text| text.contains("gpu-0000:48:00.0 memory_used_bytes"));
}

#[test]
fn a_gpu_that_is_lost_is_noticed_and_silent_and_one_that_comes_back_is_there_again() {
    let machine = Watched::new("gpus=8");
    let reading = format!("{SECOND} energy_joules");
    let end = "gpu-0000:48:00.0 memory_used_bytes";
    let end_of_board = "gpu-0000:48:00.0  GPU";
    machine.wait("all are healthy", |text| text.contains(&reading) && text.contains(end));
    let xids = format!("{SECOND} errors xid");
    machine.set("gpus=8 xids=2");
    machine.wait("two of them", |text| text.contains(&format!("{xids} 2\n")) && text.contains(end));
    machine.set("gpus=8 xids=3 lost=1");
    let event = [format!("{xids} 3\n"), format!("{SECOND} xid_errors 79 1\n")];
    machine.wait("the event of its loss", |text| event.iter().all(|it| text.contains(it)));
    for condition in ["gpus=8 lost=1", "gpus=8 gone=1"] {
        machine.set(condition);
        machine.wait(condition, |text| {
            let is_lost = text.lines().any(|line| line.contains(SECOND) && line.ends_with("(lost)"));
            is_lost && text.contains(&event[0]) && text.contains(end) && !text.contains(&reading)
        });
        machine.set("gpus=8");
        machine.wait("it is back", |text| {
            !text.contains("(lost)") && text.contains(&reading) && text.contains(end)
        });
    }
    machine.set("gpus=8 hang");
    machine.wait("a slow response does not change the health", |text| {
        text.contains("(nvml error") && text.contains(end_of_board) && !text.contains("(unknown)")
    });
    machine.wait("it hangs", |text| text.contains("(nvml error") && text.contains("(unknown)"));
    machine.set("gpus=8");
    machine.wait("it responds again", |text| {
        !text.contains("(unknown)") && text.contains(&reading) && text.contains(end)
    });
}

#[test]
fn partitions_are_kept_until_the_driver_reports_their_removal() {
    let parts = [0, 1].map(|part| format!("mig-00000000-0000-5000-800{part}-000000000001"));
    let counted = format!("{} memory_used_bytes", parts[0]);
    let end = "gpu-0000:48:00.0 memory_used_bytes";
    // whether the GPU and both partitions are listed with this health
    let are = |text: &str, health: &str| {
        let is = |start: String| {
            let mut lines = text.lines().map(str::trim).filter(|line| line.starts_with(&start));
            lines.any(|line| {
                line.contains("MiB Device RAM")
                    && line.contains('(') != health.is_empty()
                    && line.ends_with(health)
            })
        };
        is(format!("{SECOND}  GPU")) && parts.iter().all(|part| is(format!("{part}  GPU Partition")))
    };
    let machine = Watched::new("gpus=8 mig=1");
    // whether the partitions are below their GPU's domain and have its link
    let placed = |text: &str| {
        let is = |part: &String| {
            text.contains(&format!("numa-0 - {part}  PCIe"))
                && text.contains(&format!("\n      {part}  GPU Partition"))
        };
        parts.iter().all(is)
    };
    machine.wait("all are healthy", |text| {
        are(text, "") && placed(text) && text.contains(&counted) && text.contains(end)
    });
    // the change of health shows that there were probes since
    machine.set("gpus=8 mig=1 mig-fails=mode worn=1");
    machine.wait("its MIG mode is unknown", |text| {
        are(text, "(degraded)") && !text.contains(&counted) && text.contains(end)
    });
    machine.set("gpus=8 mig=1 lost=1");
    machine.wait("it is lost", |text| are(text, "(lost)") && text.contains(end));
    machine.set("gpus=8 mig=1 mig-fails=list");
    machine.wait("its partitions cannot be listed", |text| {
        are(text, "") && !text.contains(&counted) && text.contains(end)
    });
    machine.set("gpus=8 mig=1 gone=1");
    machine.wait("it is not listed", |text| are(text, "(lost)") && text.contains(end));
    machine.set("gpus=8 mig=1");
    machine.wait("it is back", |text| are(text, "") && text.contains(&counted) && text.contains(end));
    machine.set("gpus=8");
    machine.wait("it is no longer partitioned", |text| !text.contains("GPU Partition") && text.contains(end));
}

/// The result of the OpenCL probe with the stub in this condition.
fn opencl(condition: &str) -> (bool, Value) {
    opencl_of(&stub("opencl"), condition)
}

fn opencl_of(library: &Path, condition: &str) -> (bool, Value) {
    let mut command = program();
    command.arg("probe-opencl").env("OPENCL_DYLIB_PATH", library).env("CAIRN_STUB_OPENCL", condition);
    command.env("LD_LIBRARY_PATH", library.parent().expect("a file is in a folder"));
    probe(command, "null")
}

/// Whether a probe process succeeded, and its response to this request.
fn probe(mut command: std::process::Command, request: &str) -> (bool, Value) {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the process starts");
    std::io::Write::write_all(&mut child.stdin.take().expect("it is piped"), request.as_bytes())
        .expect("the process reads its input");
    let output = child.wait_with_output().expect("the process exits");
    (output.status.success(), serde_json::from_slice(&output.stdout).unwrap_or_default())
}

#[test]
fn a_card_that_only_opencl_lists_is_found() {
    let (_, found) = opencl("");
    let card = &found["found"][0];
    assert_eq!(found["found"].as_array().unwrap().len(), 1, "the processor is not listed: {found}");
    assert_eq!((&card["id"], &card["vendor"]), (&"accelerator-opencl0d0".into(), &"xilinx".into()));
    assert_eq!(card["memorySpaces"][0]["sizeBytes"], 64_u64 << 30);
    let (_, found) = opencl("board=0000:3b:00.0");
    assert_eq!(found["found"][0]["pciBusId"], "0000:3b:00.0");
}

#[test]
fn opencl_may_be_missing_crash_or_send_garbage() {
    // An invalid library hides the machine's own.
    let folder = tempfile::tempdir().unwrap();
    let nothing = folder.path().join("libOpenCL.so.1");
    fs::write(&nothing, "").unwrap();
    let remedy = "for those, mount libOpenCL.so.1, /etc/OpenCL/vendors and the libraries that it names";
    for (library, condition, state, message) in [
        (&nothing, "", "absent", "OpenCL is not installed: "),
        (&stub("opencl"), "none", "absent", "no driver for OpenCL is installed: "),
        (&stub("opencl"), "refuse", "failed", "OpenCL does not list its platforms"),
        (&stub("opencl"), "mute", "failed", "OpenCL does not list the devices of platform Xilinx"),
    ] {
        let (is_ok, response) = opencl_of(library, condition);
        let reason = response[state].as_str().unwrap_or_else(|| panic!("{condition}: {response}"));
        assert!(is_ok && reason.starts_with(message), "{reason}");
        assert!(state != "absent" || reason.contains(remedy), "{reason}");
    }
    let (is_ok, response) = opencl("crash");
    assert!(!is_ok && response.is_null(), "the process crashed: {response}");
    let (is_ok, response) = opencl("garbage");
    assert!(is_ok && response["found"].is_array(), "{response}");
    let (is_ok, response) = opencl("empty");
    assert!(is_ok && response["found"].as_array().is_some_and(Vec::is_empty), "{response}");

    // The agent reports the state, and the devices of other collectors.
    for (condition, message) in [
        ("none", "(opencl absent: no driver for OpenCL is installed: "),
        ("crash", "(opencl error: a library crashed: the probe process ended with signal: 6"),
        ("hang", "(opencl error: no response within 10s: a driver hangs)"),
    ] {
        let mut command = program();
        command.arg("topology").env("OPENCL_DYLIB_PATH", stub("opencl")).env("CAIRN_STUB_OPENCL", condition);
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains("numa-0") && text.contains(message), "{text}");
    }
}

#[test]
fn a_failed_opencl_probe_is_retried() {
    let folder = tempfile::tempdir().unwrap();
    let condition = folder.path().join("condition");
    fs::write(&condition, "refuse").unwrap();
    let mut command = program();
    command.args(["topology", "--watch", "--node-name", "h100s"]).env("OPENCL_DYLIB_PATH", stub("opencl"));
    command.env("CAIRN_STUB_OPENCL", format!("@{}", condition.display()));
    let lines = Lines::of(command);
    lines.wait("it fails", |text| text.contains("(opencl error: OpenCL does not list its platforms"));
    fs::write(&condition, "").unwrap();
    lines.wait("it is repaired", |text| text.contains("accelerator-opencl0d0"));
}

/// A copy of a machine's `/sys` with an FPGA of the kernel's class.
#[test]
fn a_machine_under_another_root_is_probed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let write = |file: &str, text: &str| {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    for cpu in 0..2 {
        let cpu = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        write(&format!("{cpu}/core_cpus"), "3");
        write(&format!("{cpu}/package_cpus"), "3");
        write(&format!("{cpu}/physical_package_id"), "0");
        write(&format!("{cpu}/core_id"), "0");
    }
    write("sys/devices/system/cpu/online", "0-1");
    write("sys/devices/system/cpu/possible", "0-1");
    // the initialized memory, and all memory
    write("sys/devices/system/node/online", "0\n");
    write("sys/devices/system/node/node0/cpumap", "3\n");
    write("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:        2097152 kB\n");
    write("proc/meminfo", "MemTotal:        8388608 kB\n");
    let manager = "sys/devices/soc/f8007000.devcfg/fpga_manager/fpga0";
    write(&format!("{manager}/name"), "Xilinx Zynq FPGA Manager\n");
    write(&format!("{manager}/state"), "operating\n");
    fs::create_dir_all(root.join("sys/class/fpga_manager")).unwrap();
    std::os::unix::fs::symlink(root.join(manager), root.join("sys/class/fpga_manager/fpga0")).unwrap();
    // a network card with a virtual function, as Linux lists them
    for (address, class) in [("0000:03:00.0", "0x020000"), ("0000:03:00.2", "0x020000")] {
        let device = format!("sys/devices/pci0000:00/{address}");
        for (file, text) in [("class", class), ("vendor", "0x15b3"), ("device", "0x101d")] {
            write(&format!("{device}/{file}"), &format!("{text}\n"));
        }
        fs::create_dir_all(root.join("sys/bus/pci/devices")).unwrap();
        std::os::unix::fs::symlink(root.join(&device), root.join("sys/bus/pci/devices").join(address))
            .unwrap();
    }
    let physical = root.join("sys/devices/pci0000:00/0000:03:00.2/physfn");
    std::os::unix::fs::symlink("../0000:03:00.0", physical).unwrap();
    let output = program().args(["topology", "-o", "yaml"]).env("HWLOC_FSROOT", root).output().unwrap();
    let spec = spec(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(spec.summary(), "1 FPGA, 1 NIC, 1 NUMA Domain");
    assert!(spec.devices.iter().any(|device| device.id == "nic-0000:03:00.0"), "{:?}", spec.devices);
    let fpga = spec.devices.iter().find(|device| device.id == "fpga-fpga0").unwrap();
    assert_eq!(fpga.model.as_deref(), Some("Xilinx Zynq FPGA Manager"));
    let domain = spec.devices.iter().find(|device| device.id == "numa-0").unwrap();
    assert_eq!(domain.memory_spaces.iter().map(|it| it.size_bytes).collect::<Vec<_>>(), [8 << 30]);
    let units = &domain.compute_resources;
    assert_eq!(
        units.iter().map(|it| (it.type_.as_str(), it.count)).collect::<Vec<_>>(),
        [("Core", 1), ("Processing Unit", 2)]
    );
}
