//! The agent compared with `nvidia-smi`, with fake GPUs and a fake tool.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use e2e::keeper;

/// The fake tool's output for the two fake GPUs; the second is hotter than the agent reports.
const NVIDIA_SMI: &str = r#"#!/bin/sh
case "$*" in
  --help-query-gpu) printf '"uuid" or "gpu_uuid"\n"pci.bus_id"\n"memory.total"\n"memory.used"\n"temperature.gpu"\n"name"\n' ;;
  "--format=csv,noheader,nounits --query-gpu=uuid,pci.bus_id,memory.total,memory.used,temperature.gpu,name")
    echo "GPU-00000000-0000-4000-8000-000000000000, 00000000:10:00.0, 81920, 1024, 40, NVIDIA H100 80GB HBM3"
    echo "GPU-00000000-0000-4000-8000-000000000001, 00000000:18:00.0, 81920, [N/A], 43, NVIDIA H100 80GB HBM3" ;;
  *) echo "unknown: $*" >&2; exit 2 ;;
esac
"#;

/// Runs `cairn-e2e gpus` with these programs first on the PATH and with a results folder.
fn gpus(path: &str, results: &Path) -> std::process::Output {
    let mut command = Command::new(keeper::executable().expect("it is built"));
    command.args(["gpus", "--seconds=0", "--results"]).arg(results).env("PATH", path);
    command.env("CAIRN_NVML_LIBRARY", keeper::built("libstub_nvml.so").expect("it is built"));
    command.env("CAIRN_STUB_NVML", "gpus=2").output().expect("it starts")
}

#[test]
fn the_table_shows_differences() {
    let folder = tempfile::tempdir().unwrap();
    let tool = folder.path().join("nvidia-smi");
    fs::write(&tool, NVIDIA_SMI).unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    let output = gpus(folder.path().to_str().unwrap(), folder.path());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_to_string(folder.path().join("node-agent/gpus.md")).unwrap(), text);
    for row in [
        "| 0 | UUID | GPU-00000000-0000-4000-8000-000000000000 | GPU-00000000-0000-4000-8000-000000000000 | – | same |",
        "| 0 | memory, MiB | 81920 | 81920 | – | 0 |",
        "| 0 | memory used, MiB | 1024 | 1024 | – | 0 |",
        "| 0 | temperature, °C | 40 | 40 | – | 0 |",
        "| 1 | PCI address | 0000:18:00.0 | 0000:18:00.0 | – | same |",
        "| 1 | memory used, MiB | 2048 | – | – | – |",
        "| 1 | temperature, °C | 41 | 43 | – | -2 |",
        "| 1 | clock, MHz | 1981 | – | – | – |",
        "| 1 | power, W | 0 | – | – | – |",
    ] {
        assert!(text.lines().any(|line| line == row), "no {row} in\n{text}");
    }
}

#[test]
fn a_missing_nvidia_smi_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let output = gpus(folder.path().to_str().unwrap(), folder.path());
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "error: there is no nvidia-smi here: this compares the agent with it, so it needs a machine with a GPU of NVIDIA and its \
         driver\n"
    );
    assert!(!folder.path().join("node-agent").exists());
}
