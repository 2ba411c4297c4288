//! Measures the runtime: `measure [--out FOLDER] [--commit ID] [NAME…]` runs the named commands of `bench.list`
//! (`jacobi*` is a prefix; without names, all), and writes their output to `measured.json`, and derived from that
//! `tables.md` and `scaling.svg`.
//!
//! Commands already measured at this commit are skipped, so an interrupted run can be resumed. Measurements at other
//! commits are kept with their commit. Programs are found in the directory of this one.

#[path = "programs/measure/chart.rs"]
mod chart;
#[path = "programs/measure/tables.rs"]
mod tables;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use runtime::Error;
use serde::{Deserialize, Serialize};

/// A program's output and the circumstances of its run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Measured {
    /// The shell command.
    pub command: String,
    /// The commit of the sources.
    pub commit: String,
    /// Number of processors.
    pub processors: usize,
    /// Load averages over one minute, at start and end.
    pub load: [f64; 2],
    /// The lines of its output.
    #[serde(rename = "said")]
    pub output: Vec<String>,
}

/// Measurements by name in the list.
pub type All = BTreeMap<String, Measured>;

/// Names and commands, in order.
fn list() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = include_str!("bench.list").lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' '))
}

/// Whether `asked` is this name, or a prefix of it followed by `*`.
fn is_asked(name: &str, asked: &str) -> bool {
    asked.strip_suffix('*').map_or(name == asked, |begin| name.starts_with(begin))
}

fn main() -> Result<(), Error> {
    let (mut out, mut commit) = (PathBuf::from("docs/results/runtime"), "unknown".to_owned());
    let mut names = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let refuse = |why: &str| Error::misuse("read the arguments", format!("{argument:?} {why}"));
        match argument.as_str() {
            "--out" => out = arguments.next().ok_or_else(|| refuse("wants a folder after it"))?.into(),
            "--commit" => commit = arguments.next().ok_or_else(|| refuse("wants a commit after it"))?,
            asked if list().any(|(name, _)| is_asked(name, asked)) => names.push(argument),
            _ => return Err(refuse("is no name in bench.list")),
        }
    }
    std::fs::create_dir_all(&out)
        .map_err(|error| Error::system(&format!("make {}", out.display()), error))?;
    let file = out.join("measured.json");
    let mut all = match std::fs::read(&file) {
        Ok(text) => serde_json::from_slice(&text)
            .map_err(|error| Error::misuse("go on", format!("{}: {error}; delete it", file.display())))?,
        Err(_) => All::new(),
    };
    let wanted = |name: &str| names.is_empty() || names.iter().any(|asked| is_asked(name, asked));
    for (name, command) in list().filter(|(name, _)| wanted(name)) {
        if all.get(name).is_some_and(|row| row.commit == commit && row.command == command) {
            println!("{name}: measured at {commit}");
            continue;
        }
        println!("\n== {name}\n   {command}");
        all.insert(name.to_owned(), measure(command, &commit)?);
        write(&file, &serde_json::to_string_pretty(&all).unwrap_or_default())?;
    }
    all.retain(|name, _| list().any(|(known, _)| known == name));
    write(&out.join("tables.md"), &tables::page(&all, list()))?;
    write(
        &out.join("scaling.svg"),
        &chart::bars("Jacobi's method: strong and weak scaling", &tables::scaling(&all)),
    )
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|error| Error::system(&format!("write {}", path.display()), error))
}

/// Runs a command in the examples' directory, with the runtime's programs on the path.
fn measure(command: &str, commit: &str) -> Result<Measured, Error> {
    let this = std::env::current_exe().map_err(|error| Error::system("find the examples", error))?;
    let examples = this.parent().unwrap_or(Path::new("."));
    let programs = examples.parent().unwrap_or(examples).display();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap_or_default());
    let before = load();
    let output = Command::new("sh")
        .args(["-c", command])
        .current_dir(examples)
        .env("PATH", path)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Error::system("start a shell", error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    if !output.status.success() {
        return Err(Error::misuse("measure", format!("{command:?} ended with {}", output.status)));
    }
    Ok(Measured {
        command: command.to_owned(),
        commit: commit.to_owned(),
        processors: std::thread::available_parallelism().map_or(1, Into::into),
        load: [before, load()],
        output: text.lines().map(str::to_owned).collect(),
    })
}

fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(f64::NAN)
}
