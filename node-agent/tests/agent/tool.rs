//! Runs the program as people do.

use std::{
    path::PathBuf,
    process::{Command, ExitStatus},
};

/// The folder of described machines.
pub fn machines_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("machines")
}

/// The program, to be run with what is set here and nothing of what the caller of the test has set.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cairn-node-agent"));
    for name in ["NODE_NAME", "CAIRN_SIMULATE", "CAIRN_TOPOLOGY_FILE", "CAIRN_NVML_LIBRARY", "HWLOC_FSROOT"] {
        command.env_remove(name);
    }
    command
}

/// A library that stands in for a driver's: it is built with the tests and lies beside them.
pub fn stub(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test has a file");
    let folder = test.parent().expect("it lies in a folder");
    let file = format!("libstub_{name}.so");
    let places = [folder.join(&file), folder.join("..").join(&file)];
    let found = places.iter().find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{file} is not beside the tests: `cargo build -p stub-{name}`")).clone()
}

/// Runs `cairn-node-agent`; how it ended, and what it wrote to standard output and standard error.
pub fn agent(arguments: &[&str]) -> (ExitStatus, String, String) {
    let mut command = program();
    let output = command.args(arguments).output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("it writes text");
    (output.status, text(output.stdout), text(output.stderr))
}
