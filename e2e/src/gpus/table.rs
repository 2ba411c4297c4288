//! The comparison: one row for each GPU and quantity.

use std::collections::{BTreeMap, BTreeSet};

use super::{Moment, clinfo, normal_address};

/// The cell of a missing value.
const NOTHING: &str = "–";

/// A quantity that one or both report.
struct Quantity {
    title: &'static str,
    /// Its name in `nvidia-smi`; empty if it has none.
    field: &'static str,
    unit: &'static str,
    from: From,
}

/// Its source in the agent's metrics.
enum From {
    /// A label of `cairn_device_info`.
    Label(&'static str),
    /// A series, one of its labels, and the divisor that gives the unit.
    Series(&'static str, Option<(&'static str, &'static str)>, f64),
    /// The rate of the energy between the two moments, or the power if no energy is counted.
    Power,
}

const MIB: f64 = 1_048_576.0;

#[rustfmt::skip]
const QUANTITIES: [Quantity; 15] = {
    use From::{Label, Power, Series};
    const fn row(title: &'static str, field: &'static str, unit: &'static str, from: From) -> Quantity {
        Quantity { title, field, unit, from }
    }
    [
        row("UUID", "uuid", "", Label("uuid")),
        row("PCI address", "pci.bus_id", "", Label("pci_bus_id")),
        row("name", "name", "", Label("model")),
        row("driver", "driver_version", "", Label("driver")),
        row("memory", "memory.total", "MiB", Series("cairn_memory_space_capacity_bytes", None, MIB)),
        row("memory used", "memory.used", "MiB", Series("cairn_device_memory_used_bytes", None, MIB)),
        row("utilisation", "utilization.gpu", "%", Series("cairn_device_utilization_ratio", None, 0.01)),
        row("utilisation of memory", "utilization.memory", "%", Series("cairn_device_memory_utilization_ratio", None, 0.01)),
        row("power", "power.draw", "W", Power),
        row("limit of power", "enforced.power.limit", "W", Series("cairn_device_power_limit_watts", None, 1.0)),
        row("energy", "", "J", Series("cairn_device_energy_joules_total", None, 1.0)),
        row("temperature", "temperature.gpu", "°C", Series("cairn_device_temperature_celsius", Some(("sensor", "core")), 1.0)),
        row("temperature of memory", "temperature.memory", "°C", Series("cairn_device_temperature_celsius", Some(("sensor", "memory")), 1.0)),
        row("clock", "clocks.current.sm", "MHz", Series("cairn_device_clock_hertz", Some(("domain", "compute")), 1e6)),
        row("clock of memory", "clocks.current.memory", "MHz", Series("cairn_device_clock_hertz", Some(("domain", "memory")), 1e6)),
    ]
};

/// One GPU, as reported by all tools.
struct GpuRow<'a> {
    /// Its id and labels with the agent.
    agent: Option<(&'a str, &'a BTreeMap<String, String>)>,
    smi: Option<&'a super::Gpu>,
    smi_before: Option<&'a super::Gpu>,
    opencl: Option<&'a clinfo::OpenClDevice>,
}

/// A cell: a number or a text.
#[derive(Clone, Debug, PartialEq)]
enum Cell {
    Number(f64),
    Words(String),
}

/// The page with the table.
pub fn page(first: &Moment, last: &Moment, opencl: &clinfo::OpenClDevices, commit: &str) -> String {
    let with_agent: BTreeMap<_, _> = last
        .agent
        .gpus()
        .map(|(id, labels)| (labels.get("uuid").cloned().unwrap_or_default(), (id, labels)))
        .collect();
    let of = |moment: &'_ Moment, uuid: &str| {
        moment.smi.iter().position(|gpu| gpu.get("uuid").is_some_and(|it| it == uuid))
    };
    let with_smi = last.smi.iter().filter_map(|gpu| gpu.get("uuid").cloned());
    let uuids: BTreeSet<String> = with_agent.keys().cloned().chain(with_smi).collect();
    let mut rows = String::new();
    let mut both = 0;
    for (number, uuid) in uuids.iter().enumerate() {
        let smi = of(last, uuid).map(|at| &last.smi[at]);
        let agent = with_agent.get(uuid).copied();
        both += usize::from(smi.is_some() && agent.is_some());
        let address = smi.and_then(|gpu| gpu.get("pci.bus_id")).map(|it| normal_address(it));
        let address = address.or_else(|| agent.and_then(|(_, labels)| labels.get("pci_bus_id").cloned()));
        let gpu = GpuRow {
            agent,
            smi,
            smi_before: of(first, uuid).map(|at| &first.smi[at]),
            opencl: address.and_then(|address| opencl.get(&address)),
        };
        rows.extend(QUANTITIES.iter().filter_map(|quantity| row(number, quantity, &gpu, first, last)));
    }
    format!(
        "# GPU values: node agent against nvidia-smi\n\n\
         {} GPUs, of which the agent and nvidia-smi both list {both}. Both are read at two moments {:.1} s apart; values are those of the\n\
         second. The agent's power is the rate of its energy counter between the two; nvidia-smi's is the mean of its two values.\n\
         Values that vary differ by what changed between two driver calls. `clinfo` reports the memory a program can allocate. {NOTHING}: not reported.\n\n\
         | GPU | quantity | agent | nvidia-smi | clinfo | difference |\n|---:|---|---|---|---|---|\n{rows}\n\
         Made at {commit} by `make bench`, which runs `cairn-e2e gpus`.\n",
        uuids.len(),
        (last.at - first.at).as_secs_f64(),
    )
}

/// The row of a quantity, if a tool reports it.
fn row(
    number: usize,
    quantity: &Quantity,
    gpu: &GpuRow<'_>,
    first: &Moment,
    last: &Moment,
) -> Option<String> {
    let (ours, theirs) = (ours(quantity, gpu, first, last), theirs(quantity, gpu));
    let opencl = opencl(quantity, gpu);
    if ours.is_none() && theirs.is_none() {
        return None;
    }
    let unit = if quantity.unit.is_empty() { String::new() } else { format!(", {}", quantity.unit) };
    let difference = difference(ours.as_ref(), theirs.as_ref());
    let [ours, theirs, opencl] = [ours, theirs, opencl].map(|cell| shown(cell.as_ref()));
    Some(format!("| {number} | {}{unit} | {ours} | {theirs} | {opencl} | {difference} |\n", quantity.title))
}

fn ours(quantity: &Quantity, gpu: &GpuRow<'_>, first: &Moment, last: &Moment) -> Option<Cell> {
    let (id, labels) = gpu.agent?;
    let number = match &quantity.from {
        From::Label(label) => {
            let words = labels.get(*label).filter(|words| !words.is_empty())?;
            return Some(Cell::Words(words.clone()));
        }
        From::Series(name, label, divisor) => last.agent.of(id, name, *label)? / divisor,
        From::Power => {
            let energy = |moment: &Moment| moment.agent.of(id, "cairn_device_energy_joules_total", None);
            match (energy(first), energy(last)) {
                (Some(before), Some(now)) => (now - before) / (last.at - first.at).as_secs_f64(),
                _ => last.agent.of(id, "cairn_device_power_watts", None)?,
            }
        }
    };
    Some(Cell::Number(number))
}

fn theirs(quantity: &Quantity, gpu: &GpuRow<'_>) -> Option<Cell> {
    let value = gpu.smi?.get(quantity.field)?;
    if let From::Label(label) = quantity.from {
        return Some(Cell::Words(match label {
            "pci_bus_id" => normal_address(value),
            "driver" => format!("nvidia {value}"),
            _ => value.clone(),
        }));
    }
    let now: f64 = value.parse().ok()?;
    let before = gpu.smi_before.and_then(|gpu| gpu.get(quantity.field)?.parse::<f64>().ok());
    Some(Cell::Number(match quantity.from {
        From::Power => f64::midpoint(before.unwrap_or(now), now),
        _ => now,
    }))
}

fn opencl(quantity: &Quantity, gpu: &GpuRow<'_>) -> Option<Cell> {
    let device = gpu.opencl?;
    #[expect(clippy::cast_precision_loss, reason = "memory in MiB")]
    match quantity.title {
        "name" => device.name.clone().map(Cell::Words),
        "memory" => device.memory.map(|bytes| Cell::Number(bytes as f64 / MIB)),
        _ => None,
    }
}

fn shown(cell: Option<&Cell>) -> String {
    match cell {
        None => NOTHING.to_owned(),
        // a bar would end the cell
        Some(Cell::Words(words)) => words.replace('|', "\\|"),
        Some(Cell::Number(number)) => plain(*number),
    }
}

/// A number with as many digits as matter.
fn plain(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn difference(ours: Option<&Cell>, theirs: Option<&Cell>) -> String {
    match (ours, theirs) {
        (Some(Cell::Number(ours)), Some(Cell::Number(theirs))) => match plain(ours - theirs).as_str() {
            "0" | "-0" => "0".to_owned(),
            text if text.starts_with('-') => text.to_owned(),
            text => format!("+{text}"),
        },
        (Some(ours), Some(theirs)) => if ours == theirs { "same" } else { "other" }.to_owned(),
        _ => NOTHING.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;
    use crate::gpus::{agent::ScrapedSeries, smi};

    /// The metrics of a GPU with an energy counter, and of one that no other tool reports.
    fn scrape(joules: u32) -> ScrapedSeries {
        ScrapedSeries::read(&format!(
            "cairn_device_info{{device=\"gpu-0000:3b:00.0\",driver=\"nvidia 580.65.06\",kind=\"gpu\",model=\"NVIDIA H100\",\
             pci_bus_id=\"0000:3b:00.0\",uuid=\"GPU-1\",vendor=\"nvidia\"}} 1\n\
             cairn_memory_space_capacity_bytes{{device=\"gpu-0000:3b:00.0\",memory_space=\"0\"}} 85899345920\n\
             cairn_device_memory_used_bytes{{device=\"gpu-0000:3b:00.0\"}} 1048576\n\
             cairn_device_utilization_ratio{{device=\"gpu-0000:3b:00.0\"}} 0.5\n\
             cairn_device_energy_joules_total{{device=\"gpu-0000:3b:00.0\"}} {joules}\n\
             cairn_device_info{{device=\"gpu-0000:ff:00.0\",kind=\"gpu\",uuid=\"GPU-9\",vendor=\"nvidia\"}} 1\n\
             cairn_device_power_watts{{device=\"gpu-0000:ff:00.0\"}} 71.5\n"
        ))
    }

    fn listed(power: &str) -> Vec<crate::gpus::Gpu> {
        let fields =
            ["uuid", "pci.bus_id", "memory.total", "memory.used", "utilization.gpu", "power.draw", "name"];
        let csv = format!(
            "GPU-1, 00000000:3B:00.0, 81559, 1, 60, {power}, NVIDIA H100\nGPU-2, 00000000:86:00.0, 40960, 0, [N/A], 50, Half | a GPU"
        );
        smi::read(&fields, &csv).unwrap()
    }

    #[test]
    fn missing_values_are_dashes() {
        let at = Instant::now();
        let first = Moment { at, agent: scrape(1000), smi: listed("100") };
        let last = Moment { at: at + Duration::from_secs(5), agent: scrape(1600), smi: listed("110.5") };
        let device = clinfo::OpenClDevice { name: Some("NVIDIA H100".into()), memory: Some(80 << 30) };
        let text = page(&first, &last, &[("0000:3b:00.0".to_owned(), device)].into(), "0123456789ab");
        assert!(text.contains("3 GPUs, of which the agent and nvidia-smi both list 1."), "{text}");
        assert!(text.contains("two moments 5.0 s apart"), "{text}");
        let rows: Vec<_> = text.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
        assert_eq!(
            rows,
            [
                "| 0 | UUID | GPU-1 | GPU-1 | – | same |",
                "| 0 | PCI address | 0000:3b:00.0 | 0000:3b:00.0 | – | same |",
                "| 0 | name | NVIDIA H100 | NVIDIA H100 | NVIDIA H100 | same |",
                "| 0 | driver | nvidia 580.65.06 | – | – | – |",
                "| 0 | memory, MiB | 81920 | 81559 | 81920 | +361 |",
                "| 0 | memory used, MiB | 1 | 1 | – | 0 |",
                "| 0 | utilisation, % | 50 | 60 | – | -10 |",
                "| 0 | power, W | 120 | 105.25 | – | +14.75 |",
                "| 0 | energy, J | 1600 | – | – | – |",
                "| 1 | UUID | – | GPU-2 | – | – |",
                "| 1 | PCI address | – | 0000:86:00.0 | – | – |",
                "| 1 | name | – | Half \\| a GPU | – | – |",
                "| 1 | memory, MiB | – | 40960 | – | – |",
                "| 1 | memory used, MiB | – | 0 | – | – |",
                "| 1 | power, W | – | 50 | – | – |",
                "| 2 | UUID | GPU-9 | – | – | – |",
                "| 2 | power, W | 71.5 | – | – | – |",
            ]
        );
    }
}
