//! `cairn-sim best-static`: the best static assignment.

use std::path::PathBuf;

use clap::Args;
use simulator::best_static::best_static;
use simulator::config::Config;
use simulator::run::allowed;
use simulator::trace;

use crate::progress::Progress;
use crate::{Failure, Output, print};

#[derive(Args)]
pub struct Arguments {
    /// The configuration file.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The trace.
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Number of windows over which an assignment's mean throughput is measured.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..))]
    windows: u64,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (config, platform) = Config::read(&arguments.config)?;
    let trace = trace::read_file(&arguments.trace)?;
    let allowed = allowed(&config, &platform, trace.actors())?;
    let progress = Progress::new("assignments");
    let tried = best_static(&platform, &trace, config.world, &allowed, arguments.windows, &|done, all| {
        progress.report(done, all);
    });
    progress.end();
    let tried = tried?;
    let ((best, most), (worst, least)) = (&tried.best, &tried.worst);
    match arguments.output {
        Output::Json => {
            let object = serde_json::json!({
                "assignments": tried.count,
                "windows": arguments.windows,
                "best": {"mean": most, "assignment": best},
                "worst": {"mean": least, "assignment": worst},
                "mean": tried.mean,
            });
            print(&format!("{object}\n"))
        }
        Output::Table => print(&format!(
            "{} assignments, mean of the first {} windows, tasks/ms\nbest  {most} {}\nworst {least} {}\nmean  {}\n",
            tried.count,
            arguments.windows,
            crate::list(best),
            crate::list(worst),
            tried.mean
        )),
    }
}
