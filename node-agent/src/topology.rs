//! Prints topologies: as a table, as a manifest, or as HiCR's JSON.

use std::fmt::Write;

use crds::{Device, Health, NodeTopology, NodeTopologySpec};

use crate::{args::Form, hardware::reading::DeviceReading, source::Reading};

/// Why nothing is printed.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// Nothing could be read; the collectors' messages.
    #[error("{0}")]
    Nothing(String),
    /// It cannot be serialized as YAML.
    #[error("cannot write it as YAML: {0}")]
    Yaml(#[from] serde_yaml::Error),
    /// HiCR's format describes a single machine.
    #[error("{0} machines are described, and HiCR's JSON is that of one: name a file that describes one")]
    Several(usize),
}

/// Formats the topologies of a reading, with device readings in the table.
pub fn render(reading: &Reading, counters: &[DeviceReading], form: Form) -> Result<String, RenderError> {
    if reading.topologies.is_empty() {
        let problems = reading.problems.iter().map(|(place, problem)| format!("{place}: {problem}"));
        let is_reported = |message: &str| reading.problems.values().any(|problem| problem.message == message);
        let states =
            reading.collectors.iter().filter(|it| !it.message.is_empty() && !is_reported(&it.message));
        let all: Vec<_> = problems.chain(states.map(|it| format!("{}: {}", it.name, it.message))).collect();
        return Err(RenderError::Nothing(if all.is_empty() {
            "there is nothing".to_owned()
        } else {
            all.join("\n")
        }));
    }
    if form == Form::Hicr && reading.topologies.len() > 1 {
        return Err(RenderError::Several(reading.topologies.len()));
    }
    let mut text = String::new();
    for (node, spec) in &reading.topologies {
        match form {
            Form::Hicr => {
                let _ = writeln!(text, "{:#}", hicr::Topology::from(&**spec).to_json());
            }
            Form::Tree => tree(&mut text, node, spec),
            Form::Yaml => {
                if !text.is_empty() {
                    text.push_str("---\n");
                }
                text.push_str(&serde_yaml::to_string(&NodeTopology::new(node, (**spec).clone()))?);
            }
        }
    }
    if form == Form::Tree {
        for DeviceReading { device, quantities } in counters {
            for (quantity, value) in quantities {
                let _ = writeln!(text, "  {device} {quantity} {value}");
            }
        }
        for collector in reading.collectors.iter().filter(|it| !it.message.is_empty()) {
            let _ = writeln!(
                text,
                "({} {}: {})",
                collector.name,
                <&str>::from(collector.state),
                collector.message
            );
        }
        for problem in reading.problems.values() {
            let _ = writeln!(text, "({problem})");
        }
    }
    Ok(text)
}

/// The host name of the machine.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Some(name.trim()).filter(|name| !name.is_empty()).unwrap_or("localhost").to_owned()
}

/// Devices indented below their parents, one per line; then the links.
fn tree(text: &mut String, node: &str, spec: &NodeTopologySpec) {
    let _ = writeln!(text, "{node}");
    let ids: Vec<&str> = spec.devices.iter().map(|device| device.id.as_str()).collect();
    let above = |device: &Device| -> Option<String> {
        let near = device.numa_node.map(|numa| format!("numa-{numa}")).filter(|near| *near != device.id);
        device.parent.clone().or(near).filter(|above| ids.contains(&above.as_str()))
    };
    let roots: Vec<_> = spec.devices.iter().filter(|device| above(device).is_none()).collect();
    for device in roots {
        branch(text, spec, device, 1, &above);
    }
    for link in &spec.links {
        let _ = write!(text, "  {} - {}  {}", link.source, link.destination, link.kind);
        if let Some(bandwidth) = link.bandwidth_bytes_per_second {
            let _ = write!(text, "  {}", gigabytes(bandwidth));
        }
        if let Some(latency) = link.relative_latency {
            let _ = write!(text, "  latency {latency}");
        }
        text.push('\n');
    }
}

/// Bytes per second as GB/s.
fn gigabytes(bytes: i64) -> String {
    format!("{}.{} GB/s", bytes / 1_000_000_000, bytes / 100_000_000 % 10)
}

fn branch(
    text: &mut String,
    spec: &NodeTopologySpec,
    device: &Device,
    depth: usize,
    above: &impl Fn(&Device) -> Option<String>,
) {
    let mut line = format!("{}{}  {}", "  ".repeat(depth), device.id, device.type_);
    for part in [&device.vendor, &device.model, &device.uuid].into_iter().flatten() {
        let _ = write!(line, "  {part}");
    }
    for resource in &device.compute_resources {
        let _ = write!(line, "  {} {}", resource.count, resource.type_);
        let kinds = resource.kinds.iter().map(|kind| {
            let name = kind.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
            format!("{}{name} of capacity {}", kind.count, kind.relative_capacity)
        });
        if !resource.kinds.is_empty() {
            let _ = write!(line, " ({})", kinds.collect::<Vec<_>>().join(", "));
        }
    }
    for space in &device.memory_spaces {
        let _ = write!(line, "  {} MiB {}", space.size_bytes >> 20, space.type_);
    }
    if let Some(bandwidth) = device.network_bandwidth_bytes_per_second {
        let _ = write!(line, "  {}", gigabytes(bandwidth));
    }
    if let Some(memory) = &device.nearest_memory {
        let _ = write!(line, "  nearest memory {memory}");
    }
    if !device.aliases.is_empty() {
        let _ = write!(line, "  also {}", device.aliases.join(" "));
    }
    if device.health != Health::Ok {
        let _ = write!(line, "  ({})", device.health);
    }
    text.push_str(&line);
    text.push('\n');
    // A device has one parent, which is not below it; the depth is bounded anyway.
    if depth < 8 {
        for below in spec.devices.iter().filter(|it| above(it).as_deref() == Some(&device.id)) {
            branch(text, spec, below, depth + 1, above);
        }
    }
}
