//! Runs the program.

use std::{
    path::PathBuf,
    process::{Command, ExitStatus},
};

/// The folder of described machines.
pub fn machines_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("machines")
}

/// The program, without the agent's environment variables of the calling process.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cairn-node-agent"));
    for name in ["NODE_NAME", "CAIRN_SIMULATE", "CAIRN_TOPOLOGY_FILE", "CAIRN_NVML_LIBRARY", "HWLOC_FSROOT"] {
        command.env_remove(name);
    }
    command
}

/// A stub of a driver's library, which Cargo builds next to the tests.
pub fn stub(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test has an executable");
    let folder = test.parent().expect("the executable has a folder");
    let file = format!("libstub_{name}.so");
    let places = [folder.join(&file), folder.join("..").join(&file)];
    let found = places.iter().find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{file} is missing: run `cargo build -p stub-{name}`")).clone()
}

/// Runs `cairn-node-agent`. Returns its exit status, standard output and standard error.
pub fn agent(arguments: &[&str]) -> (ExitStatus, String, String) {
    let mut command = program();
    let output = command.args(arguments).output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("the output is UTF-8");
    (output.status, text(output.stdout), text(output.stderr))
}
