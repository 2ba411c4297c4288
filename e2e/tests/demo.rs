//! What `make demo` shows.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::{
    fs,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use e2e::keeper;

#[test]
fn the_demo_shows_the_optimum_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = Command::new(keeper::executable().unwrap());
    demo.arg("demo")
        .env_remove("DEMO_HOLD")
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .process_group(0);
    let output = demo.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    for part in [
        "8 of 8 actors are placed, and their pods run",
        "[0, 59040, 21] by asp: proven optimal",
        "8 of 8 actors are placed and run again",
        "node cairn-gpu is gone",
        "the proven optimum is [0, 92160, 20]",
        "nothing is left running",
    ] {
        assert!(said.contains(part), "it does not say {part:?}:\n{said}");
    }
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, Vec::<std::path::PathBuf>::new(), "its state is removed");
    assert_eq!(processes_that_name(folder.path().to_str().unwrap()), Vec::<String>::new());
}

/// The command lines that hold this text, of everything that runs.
fn processes_that_name(text: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| fs::read(entry.unwrap().path().join("cmdline")).ok());
    let lines = processes.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(text)).collect()
}
