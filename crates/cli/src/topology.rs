//! `topology`: prints the devices of a node and the links between them.

use std::sync::Arc;

use crds::{Device, Health, NodeTopology};
use kube::ResourceExt;
use world::{DeviceAvailability, Index, PublishedDevice};

use crate::args::{TopologyArgs, TopologyOutput};
use crate::error::CliError;
use crate::style::{Style, Tone};
use crate::table::Table;
use crate::{Outcome, cluster, plan, print, read};

/// Runs the command.
pub fn run(args: &TopologyArgs) -> Result<Outcome, CliError> {
    let objects = if args.files.is_empty() {
        cluster::devices(&args.cluster, &args.node)?
    } else {
        read::dump(&args.files)?
    };
    let published = Index::of(&objects).published_devices(&args.node);
    if objects.topologies.iter().all(|topology| topology.name_any() != args.node)
        && !published.is_empty()
        && matches!(args.output, TopologyOutput::Table)
    {
        let style = Style::of_stdout();
        let name = style.paint(Tone::Heading, &args.node);
        print(&format!("{name}  no NodeTopology\n\n{}", claimable(&published, style)))?;
        return Ok(Outcome::Ok);
    }
    let topology = find(&objects.topologies, &args.node)?;
    print(&match args.output {
        TopologyOutput::Json => plan::json(&topology.spec),
        TopologyOutput::Yaml => plan::yaml(&topology.spec),
        TopologyOutput::Hicr => format!("{:#}\n", hicr::Topology::from(&topology.spec).to_json()),
        TopologyOutput::Table => render(topology, &published, Style::of_stdout()),
    })?;
    Ok(Outcome::Ok)
}

fn find<'a>(topologies: &'a [Arc<NodeTopology>], node: &str) -> Result<&'a NodeTopology, CliError> {
    let found = topologies.iter().find(|topology| topology.name_any() == node);
    found.map(AsRef::as_ref).ok_or_else(|| {
        let known: Vec<String> = topologies.iter().map(|topology| topology.name_any()).collect();
        let known = match known.len() {
            0 => "no node has one; check that the node agents run".to_owned(),
            _ => format!("nodes with a NodeTopology: {}", world::suggestions(&known, node)),
        };
        CliError::Usage(format!("node {node} has no NodeTopology; {known}"))
    })
}

fn render(topology: &NodeTopology, published: &[PublishedDevice], style: Style) -> String {
    let name = style.paint(Tone::Heading, &topology.name_any());
    let summary = match topology.spec.summary() {
        empty if empty.is_empty() => "no devices".to_owned(),
        summary => summary,
    };
    let mut page = vec![format!("{name}  {summary}\n")];
    if !topology.spec.devices.is_empty() {
        page.push(devices(&topology.spec.devices, style));
    }
    if !topology.spec.links.is_empty() {
        page.push(links(topology, style));
    }
    if !published.is_empty() {
        page.push(claimable(published, style));
    }
    page.join("\n")
}

fn devices(devices: &[Device], style: Style) -> String {
    let headings =
        ["DEVICE", "TYPE", "VENDOR", "MODEL", "NUMA", "PART OF", "HEALTH", "COMPUTE RESOURCES", "MEMORY"];
    let mut table = Table::new(&headings);
    for device in devices {
        let plain = |text: &str| (text.to_owned(), Tone::Plain);
        let or_empty = |text: &Option<String>| plain(text.as_deref().unwrap_or_default());
        let computes = device.compute_resources.iter().map(|r| match r.kinds.len() {
            0 | 1 => format!("{} {}", r.count, r.type_),
            kinds => format!("{} {} of {kinds} kinds", r.count, r.type_),
        });
        let memory = device.memory_spaces.iter().map(|m| format!("{} {}", size(m.size_bytes), m.type_));
        let tone = if device.health == Health::Ok { Tone::Good } else { Tone::Bad };
        table.row([
            plain(&device.id),
            plain(&device.type_),
            or_empty(&device.vendor),
            or_empty(&device.model),
            plain(&device.numa_node.map(|numa| numa.to_string()).unwrap_or_default()),
            or_empty(&device.parent),
            (device.health.to_string(), tone),
            plain(&computes.collect::<Vec<_>>().join(", ")),
            plain(&memory.collect::<Vec<_>>().join(", ")),
        ]);
    }
    table.render(style)
}

/// Devices that drivers publish for resource claims.
fn claimable(published: &[PublishedDevice], style: Style) -> String {
    let mut table =
        Table::new(&["CLAIMABLE", "DRIVER", "MODEL", "NUMA", "MEMORY", "DEVICE", "STATE", "CLAIMED BY"]);
    for device in published {
        let plain = |text: String| (text, Tone::Plain);
        let tone = if device.availability == DeviceAvailability::Usable { Tone::Good } else { Tone::Bad };
        table.row([
            plain(device.key.device.clone()),
            plain(device.key.driver.clone()),
            plain(device.model.clone().unwrap_or_default()),
            plain(device.numa_node.map(|numa| numa.to_string()).unwrap_or_default()),
            plain(
                device
                    .memory_mib
                    .map(|memory| size(i64::try_from(memory << 20).unwrap_or(i64::MAX)))
                    .unwrap_or_default(),
            ),
            plain(device.described_as.clone().unwrap_or_default()),
            (device.availability.to_string(), tone),
            plain(device.claims.join(", ")),
        ]);
    }
    table.render(style)
}

fn links(topology: &NodeTopology, style: Style) -> String {
    let mut table = Table::new(&["LINK FROM", "TO", "KIND", "BANDWIDTH", "RELATIVE LATENCY"]);
    for link in &topology.spec.links {
        let bandwidth = link.bandwidth_bytes_per_second.map(|bytes| format!("{}/s", size(bytes)));
        let latency = link.relative_latency.map(|latency| latency.to_string());
        let cells = [
            link.source.clone(),
            link.destination.clone(),
            link.kind.clone(),
            bandwidth.unwrap_or_default(),
            latency.unwrap_or_default(),
        ];
        table.row(cells.map(|cell| (cell, Tone::Plain)));
    }
    table.render(style)
}

/// A size in the largest binary unit in which it is at least 1, with at most one decimal.
fn size(bytes: i64) -> String {
    let units = [(1i64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) if bytes % unit == 0 => format!("{} {name}", bytes / unit),
        Some((unit, name)) => {
            let tenths = i128::from(bytes) * 10 / i128::from(unit);
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_have_binary_units() {
        let shown = [0, 1023, 1024, 1536, 16 << 30, 40_536_870_912, i64::MAX].map(size);
        assert_eq!(shown, ["0 B", "1023 B", "1 KiB", "1.5 KiB", "16 GiB", "37.7 GiB", "8388607.9 TiB"]);
    }
}
