//! The list of criteria.

use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};
use strum::IntoEnumIterator;

/// Hands the list of criteria to a macro: what each is, its name, its module in `criteria`.
macro_rules! each_criterion {
    ($then:ident) => {
        $then! {
            /// Largest minus smallest overload of the units (APO III-B, M1).
            Overload in overload;
            /// Messages between units, each times its exchange cost (APO III-B, M2).
            Communication in communication;
            /// Drag of pairs that are apart (APO III-C, M3).
            Annoyance in annoyance;
            /// Drag of pairs that share a unit.
            Interference in interference;
            /// The price of what leaves its unit.
            Migration in migration;
            /// Penalties of the policy: its own, and those of `prefer`.
            Policy in policy;
            /// The fullest unit: work over capacity, in thousandths.
            Bottleneck in bottleneck;
            /// Units that host anything.
            Consolidate in consolidate;
            /// Watts.
            Energy in energy;
            /// Actors of one group in one zone.
            Spread in spread;
            /// The most expensive path that messages take.
            Latency in latency;
            /// What nodes cost while they host anything.
            Licence in licence;
            /// The busiest unit: work and what its actors send, over capacity, in thousandths.
            Busiest in busiest;
            /// Actors in a breach of the policy that is excused; no level names it, it stands above them where there are such.
            Excused in excused;
        }
    };
}

pub(crate) use each_criterion;

macro_rules! criteria {
    ($($(#[doc = $doc:literal])+ $name:ident in $module:ident;)*) => {
        /// One thing that a placement is judged by; less is better.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(Serialize, strum::Display, strum::EnumCount, strum::EnumIter, strum::IntoStaticStr)]
        #[serde(rename_all = "lowercase")]
        #[strum(serialize_all = "lowercase")]
        pub enum Criterion {
            $($(#[doc = $doc])+ $name,)*
        }
    };
}

each_criterion!(criteria);

impl Criterion {
    /// Those that a level can name.
    pub fn named() -> impl Iterator<Item = Self> {
        Self::iter().filter(|criterion| *criterion != Self::Excused)
    }
}

impl FromStr for Criterion {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Criterion::named().find(|criterion| <&str>::from(criterion) == name).ok_or_else(|| {
            let known: Vec<&str> = Criterion::named().map(Into::into).collect();
            format!("`{name}` is not a criterion; use one of {}", known.join(", "))
        })
    }
}

impl<'de> Deserialize<'de> for Criterion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
