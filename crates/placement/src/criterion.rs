//! The list of criteria.

use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};
use strum::IntoEnumIterator;

/// Passes the list of criteria to a macro: description, name, and module in `criteria`.
macro_rules! each_criterion {
    ($then:ident) => {
        $then! {
            /// Largest minus smallest overload of the units (APO III-B, M1).
            Overload in overload;
            /// Messages between units, each at its exchange cost (APO III-B, M2).
            Communication in communication;
            /// Drag of separated pairs (APO III-C, M3).
            Annoyance in annoyance;
            /// Drag of pairs that share a unit.
            Interference in interference;
            /// The cost of moving actors off their unit.
            Migration in migration;
            /// Penalties of the policy and of `prefer`.
            Policy in policy;
            /// The most loaded unit: work over capacity, in thousandths.
            Bottleneck in bottleneck;
            /// Units that host anything.
            Consolidate in consolidate;
            /// Power in watts.
            Energy in energy;
            /// Actors of one group in one zone.
            Spread in spread;
            /// The longest path of messages, by cost.
            Latency in latency;
            /// The price of nodes that host anything.
            Licence in licence;
            /// The busiest unit: work and sent messages over capacity, in thousandths.
            Busiest in busiest;
            /// Messages above the capacity of links that units share.
            Congestion in congestion;
            /// Actors in grandfathered violations; no level names it, it precedes all levels if there are any.
            Excused in excused;
        }
    };
}

pub(crate) use each_criterion;

macro_rules! criteria {
    ($($(#[doc = $doc:literal])+ $name:ident in $module:ident;)*) => {
        /// A criterion by which placements are compared; less is better.
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
    /// Criteria that a level can name.
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
