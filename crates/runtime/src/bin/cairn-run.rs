//! Starts a program as several Instances, on this machine or on several.
//!
//! `cairn-run -n N [--parts M] [--hosts FILE] [--listen ADDRESS] [--oversubscribe] [--tcp] PROGRAM [ARGUMENTS]`

use std::{ffi::OsString, process::ExitCode};

use runtime::{
    Error, TopologyManager,
    backends::{
        host::HostTopology,
        processes::{Hosts, Launch, launch},
    },
};

const USAGE: &str = "\
cairn-run -n N [--parts M] [--hosts FILE] [--listen ADDRESS] [--oversubscribe] [--tcp] PROGRAM [ARGUMENTS]

Starts PROGRAM as N Instances. The machine is divided into M parts (default: N); the parts beyond N are for Instances
that the program creates. With --hosts, FILE is a JSON list of topologies, one per Instance. No resource is assigned
twice without --oversubscribe. With --tcp, Instances communicate over TCP, as required between machines.

Besides its devices, a host in FILE may have \"Launch\", the command prefix that starts a program on it, such as
[\"ssh\", \"-tt\", \"blue\"], and \"Address\", at which peers reach it. PROGRAM must exist on it under the same name. Such
hosts need --tcp and --listen with an address of this machine that they reach. Traffic is not encrypted: use a private
network.";

fn main() -> ExitCode {
    match run(std::env::args_os().skip(1)) {
        Ok(code) => ExitCode::from(u8::try_from(code.clamp(0, 255)).unwrap_or(1)),
        Err(error) => {
            eprintln!("cairn-run: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(mut arguments: impl Iterator<Item = OsString>) -> Result<i32, Error> {
    let wrong = |why: String| Error::misuse("launch", format!("{why}\n\n{USAGE}"));
    let (mut instances, mut parts, mut hosts, mut oversubscribe, mut tcp) = (1, None, None, false, false);
    let mut listen = None;
    let program = loop {
        let Some(argument) = arguments.next() else { return Err(wrong("no program is given".into())) };
        let mut number = |name: &str| {
            let value = arguments.next().and_then(|value| value.to_str()?.parse::<usize>().ok());
            value
                .filter(|number| *number > 0)
                .ok_or_else(|| wrong(format!("{name} takes a number of at least 1")))
        };
        match argument.to_str() {
            Some("-n") => instances = number("-n")?,
            Some("--parts") => parts = Some(number("--parts")?),
            Some("--hosts") => {
                let file = arguments.next().ok_or_else(|| wrong("--hosts takes a file".into()))?;
                let what = format!("read {}", file.to_string_lossy());
                hosts = Some(std::fs::read_to_string(file).map_err(|error| Error::system(&what, error))?);
            }
            Some("--listen") => {
                let address = arguments.next().and_then(|address| address.into_string().ok());
                listen =
                    Some(address.ok_or_else(|| wrong("--listen takes an address of this machine".into()))?);
            }
            Some("--oversubscribe") => oversubscribe = true,
            Some("--tcp") => tcp = true,
            Some("--help" | "-h") => {
                println!("{USAGE}");
                return Ok(0);
            }
            Some(option) if option.starts_with('-') => {
                return Err(wrong(format!("{option} is not an option")));
            }
            _ => break argument,
        }
    };
    let hosts = match hosts {
        Some(text) => Hosts::read(&text, oversubscribe)?,
        None => Hosts::share(
            &HostTopology::new()?.query()?,
            parts.unwrap_or(instances).max(instances),
            oversubscribe,
        )?,
    };
    launch(Launch { instances, hosts, program, tcp, arguments: arguments.collect(), listen })
}
