//! The limit of open files: counting for pods takes thousands, but containers start with a limit of a thousand.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use crate::tool::program;

/// The address of an API server that does not exist.
const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: 'http://127.0.0.1:9'}}]
contexts: [{name: none, context: {cluster: none, user: none}}]
current-context: none
users: [{name: none, user: {}}]
";

/// The limits of open files of a process, soft and hard.
fn limits(process: u32) -> (String, String) {
    let text = fs::read_to_string(format!("/proc/{process}/limits")).expect("the process runs");
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files")).expect("the limit");
    let mut columns = line.split_whitespace().map(str::to_owned);
    (columns.next().expect("a soft limit"), columns.next().expect("a hard limit"))
}

#[test]
fn the_soft_limit_of_open_files_is_raised_to_the_hard_one_where_pods_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = folder.path().join("kubeconfig");
    fs::write(&kubeconfig, KUBECONFIG).expect("the file is written");
    let hard = limits(std::process::id()).1;
    for (perf, expected) in [("true", hard.as_str()), ("false", "256")] {
        let agent = program();
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -S -n 256 && exec \"$0\" \"$@\""]).arg(agent.get_program());
        for (name, _) in agent.get_envs() {
            shell.env_remove(name);
        }
        shell.env("KUBECONFIG", &kubeconfig).env("CAIRN_PERF", perf);
        shell.args(["--node-name=node-a", "--listen=127.0.0.1:0", "--probe-listen=127.0.0.1:0"]);
        let mut child = shell.stderr(Stdio::piped()).spawn().expect("the shell starts");
        let log = BufReader::new(child.stderr.take().expect("stderr is piped"));
        // logged at the end of the setup
        let mut log = log.lines().map_while(Result::ok);
        let started = log.find(|line| line.contains("started"));
        let limits = started.as_ref().map(|_| limits(child.id()));
        child.kill().expect("the agent runs");
        child.wait().expect("the agent exits");
        assert!(started.is_some(), "the agent does not start");
        assert_eq!(limits, Some((expected.to_owned(), hard.clone())), "CAIRN_PERF={perf}");
    }
}
