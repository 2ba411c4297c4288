//! `cairn-e2e-device-plugin`: gives a kubelet devices that are nothing but names.

use std::{path::PathBuf, process::ExitCode};

use clap::Parser;

/// Registers devices with a kubelet and hands them out until it is killed.
#[derive(Parser)]
struct Args {
    /// The kubelet's folder, as seen from here.
    #[arg(long)]
    kubelet: PathBuf,
    /// The resource that pods request.
    #[arg(long)]
    resource: String,
    /// The names of the devices.
    #[arg(long, value_delimiter = ',', required = true)]
    devices: Vec<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Args { kubelet, resource, devices } = Args::parse();
    let Err(error) = e2e::kubelet_api::serve_devices(&kubelet, &resource, &devices).await else {
        return ExitCode::SUCCESS;
    };
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}
