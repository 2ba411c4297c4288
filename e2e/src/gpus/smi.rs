//! Parses the output of `nvidia-smi`.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

/// The queried fields; the last may contain commas, which `nvidia-smi` does not quote.
const FIELDS: [&str; 14] = [
    "uuid",
    "pci.bus_id",
    "driver_version",
    "memory.total",
    "memory.used",
    "utilization.gpu",
    "utilization.memory",
    "power.draw",
    "enforced.power.limit",
    "temperature.gpu",
    "temperature.memory",
    "clocks.current.sm",
    "clocks.current.memory",
    "name",
];

/// One GPU: its known fields.
pub type Gpu = BTreeMap<&'static str, String>;

/// The fields that this version supports, from the output of `nvidia-smi --help-query-gpu`. A query with one unsupported
/// field fails as a whole.
pub fn fields(help: &str) -> Vec<&'static str> {
    let known = |field: &&str| help.contains(&format!("\"{field}\""));
    FIELDS.into_iter().filter(known).collect()
}

/// Parses the CSV output, which has no headers and units.
pub fn read(fields: &[&'static str], csv: &str) -> Result<Vec<Gpu>> {
    let gpu = |line: &str| {
        let values: Vec<_> = line.splitn(fields.len(), ',').map(str::trim).collect();
        ensure!(
            values.len() == fields.len(),
            "nvidia-smi answers {} of {} fields: {line}",
            values.len(),
            fields.len()
        );
        let known = fields.iter().zip(values).filter(|(_, value)| is_known(value));
        Ok(known.map(|(field, value)| (*field, value.to_owned())).collect())
    };
    csv.lines().filter(|line| !line.trim().is_empty()).map(gpu).collect()
}

/// Whether it is a value; `[N/A]`, `N/A`, `[Not Supported]`, `[Unknown Error]` and `[GPU requires reset]` are not.
fn is_known(value: &str) -> bool {
    !(value.is_empty() || value == "N/A" || value.starts_with('['))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "List of valid properties to query for the switch \"--query-gpu\":\n\n\
        \"timestamp\"\nThe timestamp of when the query was made.\n\n\
        \"uuid\" or \"gpu_uuid\"\nThis value is the globally unique identifier of the GPU.\n\n\
        \"pci.bus_id\" or \"gpu_bus_id\"\nPCI bus id as \"domain:bus:device.function\", in hex.\n\n\
        \"name\" or \"gpu_name\"\nThe official product name of the GPU.\n\n\
        \"power.draw\"\nThe last measured power draw for the entire board, in watts.\n\n\
        \"clocks.current.sm\" or \"clocks.sm\"\nCurrent frequency of SM clock.\n";

    #[test]
    fn only_supported_fields_are_queried() {
        assert_eq!(fields(HELP), ["uuid", "pci.bus_id", "power.draw", "clocks.current.sm", "name"]);
        assert_eq!(fields(""), Vec::<&str>::new());
    }

    #[test]
    fn unavailable_fields_are_omitted() {
        let csv = "GPU-1, 00000000:3B:00.0, 69.43, [N/A], NVIDIA H100 80GB HBM3\n\
            GPU-2, 00000000:86:00.0, [Not Supported], 1980, Quadro, of long ago\n\n";
        let gpus = read(&fields(HELP), csv).unwrap();
        let printed = gpus.iter().map(|gpu| format!("{gpu:?}")).collect::<Vec<_>>();
        assert_eq!(
            printed,
            [
                r#"{"name": "NVIDIA H100 80GB HBM3", "pci.bus_id": "00000000:3B:00.0", "power.draw": "69.43", "uuid": "GPU-1"}"#,
                r#"{"clocks.current.sm": "1980", "name": "Quadro, of long ago", "pci.bus_id": "00000000:86:00.0", "uuid": "GPU-2"}"#,
            ]
        );
    }

    #[test]
    fn invalid_output_is_an_error() {
        let refused = read(&fields(HELP), "No devices were found\n").unwrap_err();
        assert_eq!(refused.to_string(), "nvidia-smi answers 1 of 5 fields: No devices were found");
    }
}
