//! Runs the program as people do.

use std::{
    path::PathBuf,
    process::{Command, ExitStatus},
};

/// The folder of described machines.
pub fn machines_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("machines")
}

/// Runs `cairn-node-agent`; how it ended, and what it wrote to standard output and standard error.
pub fn agent(arguments: &[&str]) -> (ExitStatus, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cairn-node-agent"));
    for name in ["NODE_NAME", "CAIRN_SIMULATE", "CAIRN_TOPOLOGY_FILE", "HWLOC_FSROOT"] {
        command.env_remove(name);
    }
    let output = command.args(arguments).output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("it writes text");
    (output.status, text(output.stdout), text(output.stderr))
}
