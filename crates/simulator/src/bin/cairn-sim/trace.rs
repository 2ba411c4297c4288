//! `cairn-sim trace KIND`: generate a trace.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use simulator::trace::{Hotspot, Kind, Phold, Surveillance, write_file};

use crate::Failure;

#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    kind: Which,
    /// The file to write.
    #[arg(long, value_name = "FILE", global = true, default_value = "trace.csv")]
    out: PathBuf,
}

#[derive(Subcommand)]
enum Which {
    /// Actors that send to nobody else (scenario A of the APO paper).
    NonConnected(Size),
    /// To the right neighbour every 10 (scenario B).
    Ring(Size),
    /// To the right neighbour every 2.
    Chain(Size),
    /// To a random other actor with a probability.
    Phold {
        #[command(flatten)]
        size: Size,
        /// How likely an actor sends at each time.
        #[arg(long, default_value_t = 0.125)]
        probability: f64,
        /// Decides who sends to whom.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Two actors crop, five classify, one localizes; uniform and hot phases take turns.
    Surveillance {
        /// The number of frames.
        #[arg(long, default_value_t = 20_000)]
        end: u32,
        /// The length of a phase in frames.
        #[arg(long, default_value_t = 4_000)]
        phase: u32,
        /// Decides where single tiles go.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Balanced phases and phases in which few actors get everything.
    Hotspot {
        /// How many actors.
        #[arg(long, default_value_t = 64)]
        actors: u32,
        /// The end in logical time.
        #[arg(long, default_value_t = 1000.0)]
        end: f64,
        /// The length of a balanced phase.
        #[arg(long, default_value_t = 200.0)]
        balanced: f64,
        /// The length of an imbalanced phase.
        #[arg(long, default_value_t = 200.0)]
        imbalanced: f64,
        /// The part of the actors that is hot.
        #[arg(long, default_value_t = 0.1)]
        hot: f64,
        /// Tasks per actor and unit of logical time.
        #[arg(long, default_value_t = 12.0)]
        rate: f64,
        /// Other actors are hot in each imbalanced phase.
        #[arg(long)]
        moving: bool,
        /// Work goes where tasks are sent: cold actors have nothing to do.
        #[arg(long)]
        relayed: bool,
        /// Decides who sends to whom, and when.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
}

#[derive(Args)]
struct Size {
    /// How many actors.
    #[arg(long, default_value_t = 8)]
    actors: u32,
    /// The first logical time that is not generated any more.
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
