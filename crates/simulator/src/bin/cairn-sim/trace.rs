//! `cairn-sim trace KIND`: generate a trace.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use simulator::trace::{Hotspot, Kind, Phold, Surveillance, write_file};

use crate::Failure;

#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    kind: Which,
    /// The trace file to write.
    #[arg(long, value_name = "FILE", global = true, default_value = "trace.csv")]
    out: PathBuf,
}

#[derive(Subcommand)]
enum Which {
    /// Independent actors (scenario A of the APO paper).
    NonConnected(Size),
    /// Messages to the right neighbour, period 10 (scenario B).
    Ring(Size),
    /// Messages to the right neighbour, period 2.
    Chain(Size),
    /// Messages to a random other actor with a given probability.
    Phold {
        #[command(flatten)]
        size: Size,
        /// Probability of a message at each time.
        #[arg(long, default_value_t = 0.125)]
        probability: f64,
        /// Seed of the receivers.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Two actors crop, five classify, one localizes; uniform and hot phases alternate.
    Surveillance {
        /// Number of frames.
        #[arg(long, default_value_t = 20_000)]
        end: u32,
        /// Length of a phase in frames.
        #[arg(long, default_value_t = 4_000)]
        phase: u32,
        /// Seed of the receivers of single tiles.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// PHOLD: balanced phases alternate with phases in which only hot actors receive messages.
    Hotspot {
        /// Number of actors.
        #[arg(long, default_value_t = 64)]
        actors: u32,
        /// End of the trace in logical time.
        #[arg(long, default_value_t = 1000.0)]
        end: f64,
        /// Length of a balanced phase.
        #[arg(long, default_value_t = 200.0)]
        balanced: f64,
        /// Length of an imbalanced phase.
        #[arg(long, default_value_t = 200.0)]
        imbalanced: f64,
        /// Fraction of hot actors.
        #[arg(long, default_value_t = 0.1)]
        hot: f64,
        /// Tasks per actor and unit of logical time.
        #[arg(long, default_value_t = 12.0)]
        rate: f64,
        /// Draw new hot actors in each imbalanced phase.
        #[arg(long)]
        moving: bool,
        /// Work moves with the messages: cold actors are idle.
        #[arg(long)]
        relayed: bool,
        /// Seed of receivers and times.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
}

#[derive(Args)]
struct Size {
    /// Number of actors.
    #[arg(long, default_value_t = 8)]
    actors: u32,
    /// End of the trace in logical time, exclusive.
    #[arg(long, default_value_t = 500_000)]
    end: u32,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let kind = match &arguments.kind {
        Which::NonConnected(Size { actors, end }) => Kind::NonConnected { actors: *actors, end: *end },
        Which::Ring(Size { actors, end }) => Kind::Ring { actors: *actors, end: *end },
        Which::Chain(Size { actors, end }) => Kind::Chain { actors: *actors, end: *end },
        Which::Phold { size: Size { actors, end }, probability, seed } => {
            Kind::Phold(Phold { actors: *actors, end: *end, probability: *probability, seed: *seed })
        }
        Which::Surveillance { end, phase, seed } => {
            Kind::Surveillance(Surveillance { end: *end, phase: *phase, seed: *seed })
        }
        Which::Hotspot { actors, end, balanced, imbalanced, hot, rate, moving, relayed, seed } => {
            Kind::Hotspot(Hotspot {
                actors: *actors,
                end: *end,
                balanced: *balanced,
                imbalanced: *imbalanced,
                hot: *hot,
                rate: *rate,
                moving: *moving,
                relayed: *relayed,
                seed: *seed,
            })
        }
    };
    write_file(&arguments.out, kind.rows()?)?;
    Ok(())
}
