//! Platforms: the pool of processing elements and their links.

use std::collections::BTreeMap;

use crate::{FileError, Kind};

/// Upper limit on processing elements.
pub const MOST_PES: usize = 4_096;

/// A processing element: a core or a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Pe {
    /// Kind.
    pub kind: Kind,
    /// Name in results: `Core 1`, `FFT 1`, …, numbered from 1 within its kind.
    pub name: String,
    /// Name in files: `cpu-0`, …, numbered from 0 within its kind.
    pub id: String,
    /// Work per unit of time, W0; 1 if the model has none.
    pub work: f64,
    /// Vector length per instruction, W1; 1 if the model has none.
    pub vector: f64,
}

/// Links between processing elements, for the model `work`.
#[derive(Clone, Debug, PartialEq)]
pub enum Links {
    /// All pairs are linked with this bandwidth, in bytes per unit of time.
    Uniform(f64),
    /// Only these links, in both directions.
    Some(Vec<Link>),
}

/// A link between two processing elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// One end, by position.
    pub a: usize,
    /// The other end.
    pub b: usize,
    /// Bytes per unit of time.
    pub bandwidth: f64,
}

/// Message cost between (or within) processor types, for the model `parallel`: startup + units × perUnit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Communication {
    /// S.
    pub startup: f64,
    /// 1/R.
    pub per_unit: f64,
}

/// Transfer cost of a task's arguments to and from a kind of device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfer {
    /// Nanoseconds per transfer.
    pub fixed_ns: u64,
    /// Nanoseconds per KiB.
    pub ns_per_kib: f64,
}

impl Transfer {
    /// Nanoseconds for `bytes`.
    pub fn nanoseconds(&self, bytes: u64) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        #[expect(clippy::cast_precision_loss, reason = "defined in double precision")]
        let moved = (self.ns_per_kib * bytes as f64 / 1024.0).floor() as u64;
        self.fixed_ns.saturating_add(moved)
    }
}

/// Costs of the runtime itself, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Per dispatch of a task.
    pub assign: u64,
    /// Per evaluation of a processing element or kind.
    pub look: u64,
    /// Per comparison of a sort.
    pub compare: u64,
    /// Minimum time from dispatch to start.
    pub dispatch: u64,
    /// The cores that host accelerators.
    pub host_cores: HostCores,
}

impl Costs {
    /// No costs.
    pub const FREE: Self = Self { assign: 0, look: 0, compare: 0, dispatch: 0, host_cores: HostCores::Own };
    /// The board ZCU102, fitted to the sweep published by CEDR's authors.
    pub const ZCU102: Self =
        Self { assign: 1_000, look: 85, compare: 100, dispatch: 56_000, host_cores: HostCores::Shared };
}

/// The core that hosts an accelerator's worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostCores {
    /// A dedicated core outside the pool.
    #[default]
    Own,
    /// A core of the pool, occupied during the dispatch.
    Shared,
}

/// The pool and its links.
#[derive(Clone, Debug, PartialEq)]
pub struct Platform {
    pes: Vec<Pe>,
    /// Links, for the model `work`.
    pub links: Option<Links>,
    /// Message costs by pair of types, lower first, for the model `parallel`.
    pub communication: BTreeMap<(Kind, Kind), Communication>,
    /// Transfer costs of arguments, for the model `measured`.
    pub transfer: BTreeMap<Kind, Transfer>,
    /// Costs of the runtime, for the model `measured`.
    pub costs: Costs,
}

/// A group of equal processing elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Kind.
    pub kind: Kind,
    /// Number of processing elements.
    pub count: usize,
    /// W0 of each.
    pub work: f64,
    /// W1 of each.
    pub vector: f64,
}

impl Group {
    /// `count` of `kind`, without work or vectors.
    pub fn new(kind: Kind, count: usize) -> Self {
        Self { kind, count, work: 1.0, vector: 1.0 }
    }
}

impl Platform {
    /// A pool without links and costs: cores, FFT, MMULT, GPU, then other kinds by name; within a kind in given order.
    pub fn new(groups: &[Group]) -> Result<Self, FileError> {
        let mut ordered: Vec<&Group> = groups.iter().collect();
        ordered.sort_by(|a, b| a.kind.cmp(&b.kind));
        let count = groups.iter().fold(0_usize, |sum, group| sum.saturating_add(group.count));
        if count == 0 || count > MOST_PES {
            return Err(FileError::new(
                "pes",
                format!("{count} processing elements"),
                format!("a platform has 1 to {MOST_PES}"),
            ));
        }
        let mut pes: Vec<Pe> = Vec::with_capacity(count);
        for group in ordered {
            for _ in 0..group.count {
                let number = pes.iter().rev().take_while(|pe| pe.kind == group.kind).count();
                pes.push(Pe {
                    name: format!("{} {}", group.kind.title(), number + 1),
                    id: format!("{}-{number}", group.kind),
                    kind: group.kind.clone(),
                    work: group.work,
                    vector: group.vector,
                });
            }
        }
        Ok(Self {
            pes,
            links: None,
            communication: BTreeMap::new(),
            transfer: BTreeMap::new(),
            costs: Costs::FREE,
        })
    }

    /// The pool; its order is the tie-break.
    pub fn pes(&self) -> &[Pe] {
        &self.pes
    }

    /// Position of a processing element, by its name in results or in files.
    pub fn pe(&self, name: &str) -> Option<usize> {
        self.pes.iter().position(|pe| pe.name == name || pe.id == name)
    }

    /// The kinds in the pool with their counts, in order.
    pub fn kinds(&self) -> Vec<(Kind, usize)> {
        let mut kinds: Vec<(Kind, usize)> = Vec::new();
        for pe in &self.pes {
            match kinds.last_mut() {
                Some((kind, count)) if *kind == pe.kind => *count += 1,
                _ => kinds.push((pe.kind.clone(), 1)),
            }
        }
        kinds
    }

    /// Message cost between two types, in either order.
    pub fn communication(&self, a: &Kind, b: &Kind) -> Option<Communication> {
        let pair = if a <= b { (a, b) } else { (b, a) };
        self.communication.get(&(pair.0.clone(), pair.1.clone())).copied()
    }
}
