//! Kinds of cores of machines with heterogeneous cores.

use hwlocality::{Topology, cpu::cpuset::CpuSet};

/// The capacity of the fastest core, on the scale of Linux' `cpu_capacity`, if the system reports only frequencies.
const MAX_CAPACITY: u64 = 1024;

/// Cores of one name and nearly equal frequencies or capacity.
pub struct Kind {
    /// The name, such as `IntelAtom`, if the system reports one.
    pub name: Option<String>,
    /// The smallest capacity of its cores.
    pub capacity: i32,
    /// Its processing units.
    pub cpus: CpuSet,
    /// The base frequency in MHz, if known.
    base: Option<u64>,
}

/// A kind as hwloc reports it.
struct Report {
    name: Option<String>,
    /// Linux' `cpu_capacity`.
    capacity: Option<u64>,
    megahertz: Option<u64>,
    base: Option<u64>,
    cpus: CpuSet,
}

/// The kinds of cores, the slowest first; empty if all cores are equal, or if their capacities are unknown.
///
/// hwloc reports a kind for each maximum frequency, but favoured cores are only a few percent faster. Capacities that
/// differ by at most a tenth form one kind, unless the base frequencies differ by more.
pub fn read(topology: &Topology) -> Vec<Kind> {
    let Ok(kinds) = topology.cpu_kinds() else { return Vec::new() };
    let reports = kinds.map(|kind| {
        let info = |key: &str| {
            let info = kind.infos.iter().find(|info| info.name().to_str() == Ok(key))?;
            info.value().to_str().ok()
        };
        let number = |key: &str| info(key)?.parse::<u64>().ok().filter(|number| *number > 0);
        Report {
            name: info("CoreType").map(str::to_owned),
            capacity: number("LinuxCapacity"),
            megahertz: number("FrequencyMaxMHz").or_else(|| number("FrequencyBaseMHz")),
            base: number("FrequencyBaseMHz"),
            cpus: kind.cpuset.clone(),
        }
    });
    merge(reports.collect())
}

fn merge(mut reports: Vec<Report>) -> Vec<Kind> {
    reports.retain(|report| !report.cpus.is_empty());
    let fastest = reports.iter().filter_map(|report| report.megahertz).max();
    let by_capacity = reports.iter().all(|report| report.capacity.is_some());
    let capacity = |report: &Report| {
        let of_frequency = || Some(report.megahertz?.saturating_mul(MAX_CAPACITY) / fastest?);
        let capacity = if by_capacity { report.capacity } else { of_frequency() };
        i32::try_from(capacity?).ok().filter(|it| (1..=65_536).contains(it))
    };
    let capacities: Option<Vec<_>> = reports.iter().map(capacity).collect();
    let Some(capacities) = capacities else { return Vec::new() };
    let mut measured: Vec<_> = capacities.into_iter().zip(reports).collect();
    measured.sort_by_key(|(capacity, _)| *capacity);
    let mut kinds = Vec::<Kind>::new();
    for (capacity, report) in measured {
        let is_same = |kind: &&mut Kind| {
            kind.name == report.name
                && i64::from(capacity) * 10 <= i64::from(kind.capacity) * 11
                && is_near(kind.base, report.base)
        };
        match kinds.iter_mut().rev().find(is_same) {
            Some(kind) => kind.cpus |= &report.cpus,
            None => kinds.push(Kind { name: report.name, capacity, cpus: report.cpus, base: report.base }),
        }
    }
    if kinds.len() > 1 { kinds } else { Vec::new() }
}

/// Whether two base frequencies differ by at most a tenth, or one is unknown.
fn is_near(one: Option<u64>, other: Option<u64>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return true };
    u128::from(one.max(other)) * 10 <= u128::from(one.min(other)) * 11
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kinds of reports such as `IntelAtom - 3800 1400`: name, capacity, maximum and base frequency; one processing
    /// unit each.
    fn kinds(reports: &[&str]) -> String {
        let report = |(unit, text): (usize, &&str)| {
            let mut parts = text.split_whitespace().map(|part| Some(part).filter(|part| *part != "-"));
            let mut next = || parts.next().flatten();
            let mut cpus = CpuSet::new();
            cpus.set(hwlocality::bitmap::BitmapIndex::try_from(unit).unwrap());
            let name = next().map(str::to_owned);
            let mut number = || next().map(|text| text.parse().unwrap());
            Report { name, capacity: number(), megahertz: number(), base: number(), cpus }
        };
        let kinds = merge(reports.iter().enumerate().map(report).collect());
        let shown = kinds.iter().map(|kind| {
            format!(
                "{} {} {}",
                kind.name.as_deref().unwrap_or("-"),
                kind.capacity,
                kind.cpus.weight().unwrap()
            )
        });
        shown.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn capacities_that_differ_by_at_most_a_tenth_are_one_kind() {
        for (reports, expected) in [
            // two microarchitectures, whose cores differ by a few percent
            (
                &["- 700 2800", "- 715 2800", "- 980 3900", "- 1000 3900", "- 1024 3900"][..],
                "- 700 2, - 980 3",
            ),
            (
                &["IntelAtom - 3800", "IntelCore - 5200", "IntelCore - 5400"],
                "IntelAtom 720 1, IntelCore 986 2",
            ),
            // different names are different kinds
            (&["IntelAtom - 4000", "IntelCore - 4100"], "IntelAtom 999 1, IntelCore 1024 1"),
            // favoured cores of an ordinary processor
            (&["- - 4900", "- - 5000", "- - 5100"], ""),
            (&["- - 4900 3000", "- - 5000 3100", "- - 5100"], ""),
            // Lakefield: nearly equal maximum, but different base frequencies
            (&["- - 2800 1400", "- - 3000 2000"], "- 955 1, - 1024 1"),
            (&["- 1024 3000"], ""),
            // unknown capacities
            (&["IntelAtom - -", "IntelCore - -"], ""),
            (&[], ""),
        ] {
            assert_eq!(kinds(reports), expected, "{reports:?}");
        }
    }
}
