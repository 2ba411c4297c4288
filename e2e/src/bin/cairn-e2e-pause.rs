//! `cairn-e2e-pause`: prints its environment and waits for a signal to end.
//!
//! Images of the harness are made of it: the one that holds a pod's namespaces, and stand-ins for actors.

use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // process 1 of a container ends only by signals that it listens to
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        eprintln!("cannot listen for signals");
        return ExitCode::FAILURE;
    };
    for (name, value) in std::env::vars_os() {
        println!("{}={}", name.display(), value.display());
    }
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    ExitCode::SUCCESS
}
