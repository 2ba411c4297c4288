//! The GPUs, their partitions, and their links.

use std::collections::{BTreeMap, BTreeSet};

use crds::{ComputeResource, Device, Health, Link, MemorySpace, NodeTopologySpec};
use nvml_wrapper::{
    Device as Handle, Nvml, error::NvmlError, structs::device::FieldId, sys_exports::field_id,
};

use crate::hardware::hwloc::{is_address, normal_address};

/// The devices and links that NVML lists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NvmlDevices {
    /// GPUs and their partitions.
    pub devices: Vec<Device>,
    /// NVLinks between them, and C2C links to the processors.
    pub links: Vec<Link>,
    /// GPUs whose list of partitions is incomplete.
    pub incomplete: BTreeSet<String>,
    /// The number of GPUs that NVML counts but returns no handle for.
    pub withheld: usize,
}

/// The maximum number of links of a GPU.
pub const LINKS: u32 = 18;

/// A GPU that NVML has a handle for.
pub struct Gpu<'nvml> {
    /// Its id in the NodeTopology.
    pub id: String,
    /// Its address on the PCI bus.
    pub address: String,
    /// Its handle.
    pub handle: Handle<'nvml>,
    /// Its partitions, with their ids.
    pub partitions: Vec<(String, Handle<'nvml>)>,
    /// Whether that list is complete.
    pub are_all: bool,
}

/// Every GPU with an identity, and the number of those without.
///
/// An error other than a lost GPU does not mean that the GPU is gone. A GPU without an address cannot be distinguished from
/// the others.
pub fn list(nvml: &Nvml) -> Result<(Vec<Gpu<'_>>, usize), NvmlError> {
    let (mut gpus, mut withheld) = (Vec::new(), 0);
    for index in 0..nvml.device_count()? {
        let handle = match nvml.device_by_index(index) {
            Ok(handle) => handle,
            // It is lost, or was removed since they were counted.
            Err(
                NvmlError::GpuLost | NvmlError::ResetRequired | NvmlError::NotFound | NvmlError::InvalidArg,
            ) => continue,
            Err(_) => {
                withheld += 1;
                continue;
            }
        };
        let Some((id, address)) = place(&handle) else {
            withheld += usize::from(!is_lost(&handle));
            continue;
        };
        let (partitions, are_all) = partitions(&handle);
        gpus.push(Gpu { id, address, handle, partitions, are_all });
    }
    Ok((gpus, withheld))
}

/// The id of a GPU and its PCI address, if it reports one.
pub fn place(gpu: &Handle<'_>) -> Option<(String, String)> {
    let address = normal_address(&gpu.pci_info().ok()?.bus_id);
    is_address(&address).then(|| (format!("gpu-{address}"), address))
}

/// The partitions (MIG devices) of a GPU, and whether the list is complete: after an error it is not.
fn partitions<'nvml>(gpu: &Handle<'nvml>) -> (Vec<(String, Handle<'nvml>)>, bool) {
    match gpu.mig_mode() {
        Ok(mode) if mode.current == 1 => {}
        // It has no partitions, or does not support them, or the library is older than MIG.
        Ok(_)
        | Err(NvmlError::NotSupported | NvmlError::FunctionNotFound | NvmlError::FailedToLoadSymbol(_)) => {
            return (Vec::new(), true);
        }
        Err(_) => return (Vec::new(), false),
    }
    let Ok(most) = gpu.mig_device_count() else { return (Vec::new(), false) };
    let (mut partitions, mut are_all) = (Vec::new(), true);
    for index in 0..most.min(64) {
        let found = gpu.mig_device_by_index(index);
        match found.and_then(|handle| Ok((handle.uuid()?.to_lowercase(), handle))) {
            // The UUID is the name that device plugins use, and is stable while the partition exists.
            Ok(named) => partitions.push(named),
            // There is no partition with this number.
            Err(NvmlError::NotFound | NvmlError::InvalidArg) => {}
            Err(_) => are_all = false,
        }
    }
    (partitions, are_all)
}

/// Whether a device has fallen off the bus, or is unusable before a reset.
pub fn is_lost(handle: &Handle<'_>) -> bool {
    // Energy and names are cached and are answered by a lost GPU; memory and power are not.
    let lost = |error: NvmlError| matches!(error, NvmlError::GpuLost | NvmlError::ResetRequired);
    handle.memory_info().is_err_and(lost) || handle.temperature_of_core().is_err_and(lost)
}

/// Calls that are used in more than one place.
trait Asked {
    fn temperature_of_core(&self) -> Result<u32, NvmlError>;
}

impl Asked for Handle<'_> {
    fn temperature_of_core(&self) -> Result<u32, NvmlError> {
        self.temperature(nvml_wrapper::enum_wrappers::device::TemperatureSensor::Gpu)
    }
}

/// The present devices; records in `known` where GPUs were.
pub fn read(nvml: &Nvml, known: &mut BTreeSet<String>) -> Result<NvmlDevices, NvmlError> {
    let driver = nvml.sys_driver_version().ok().map(|version| format!("nvidia {version}"));
    let (gpus, withheld) = list(nvml)?;
    known.extend(gpus.iter().map(|gpu| gpu.address.clone()));
    let mut devices = Vec::new();
    for gpu in &gpus {
        let health = health(&gpu.handle);
        let mut device = Device {
            id: gpu.id.clone(),
            type_: "GPU".to_owned(),
            vendor: Some("nvidia".to_owned()),
            model: gpu.handle.name().ok(),
            pci_bus_id: Some(gpu.address.clone()),
            uuid: gpu.handle.uuid().ok(),
            driver: driver.clone(),
            health,
            ..Device::default()
        };
        device.compute_resources.extend(multiprocessors(&gpu.handle));
        device.memory_spaces.extend(memory(&gpu.handle));
        devices.push(device);
        for (id, handle) in &gpu.partitions {
            let mut partition = Device {
                id: id.clone(),
                type_: "GPU Partition".to_owned(),
                vendor: Some("nvidia".to_owned()),
                model: handle.name().ok(),
                uuid: handle.uuid().ok(),
                driver: driver.clone(),
                health,
                parent: Some(gpu.id.clone()),
                ..Device::default()
            };
            let count = handle.attributes().ok().map(|it| it.multiprocessor_count);
            partition.compute_resources.extend(count.and_then(as_multiprocessors));
            partition.memory_spaces.extend(memory(handle));
            devices.push(partition);
        }
    }
    let incomplete = gpus.iter().filter(|gpu| !gpu.are_all).map(|gpu| gpu.id.clone()).collect();
    let mut links = links(&gpus, known, withheld);
    links.extend(gpus.iter().filter_map(processor_link));
    Ok(NvmlDevices { devices, links, incomplete, withheld })
}

/// The kind of links between a GPU and the processors of its superchip.
pub const C2C: &str = "C2C";
/// Their end at the processors, until [`locate_processor_links`] knows the NUMA domain of the GPU.
const PROCESSORS: &str = "processors";

fn processor_link(gpu: &Gpu<'_>) -> Option<Link> {
    Some(Link {
        source: PROCESSORS.to_owned(),
        destination: gpu.id.clone(),
        kind: C2C.to_owned(),
        bandwidth_bytes_per_second: i64::try_from(nvml_links::processor_bandwidth(&gpu.handle)?).ok(),
        relative_latency: None,
    })
}

/// Names the NUMA domain at the end of each C2C link, and removes links of GPUs whose domain is unknown.
pub fn locate_processor_links(spec: &mut NodeTopologySpec) {
    let is_domain = |id: &String| spec.devices.iter().any(|it| it.id == *id && it.type_ == "NUMA Domain");
    let domain = |gpu: &str| {
        let numa_node = spec.devices.iter().find(|it| it.id == gpu)?.numa_node?;
        Some(format!("numa-{numa_node}")).filter(is_domain)
    };
    spec.links.retain_mut(|link| {
        if link.source == PROCESSORS
            && let Some(domain) = domain(&link.destination)
        {
            link.source = domain;
        }
        link.source != PROCESSORS
    });
}

/// Lost; degraded if failed memory could not be replaced by spare rows; otherwise ok.
fn health(handle: &Handle<'_>) -> Health {
    if is_lost(handle) {
        return Health::Lost;
    }
    let failed = number(handle, field_id::NVML_FI_DEV_REMAPPED_FAILURE).is_some_and(|failed| failed > 0.0);
    if failed { Health::Degraded } else { Health::Ok }
}

fn memory(handle: &Handle<'_>) -> Option<MemorySpace> {
    let bytes = handle.memory_info().ok()?.total;
    let size_bytes = i64::try_from(bytes).ok().filter(|bytes| *bytes > 0)?;
    Some(MemorySpace { type_: "Device RAM".to_owned(), size_bytes })
}

/// NVML counts CUDA cores; their number per multiprocessor depends on the generation.
fn multiprocessors(handle: &Handle<'_>) -> Option<ComputeResource> {
    let capability = handle.cuda_compute_capability().ok()?;
    let each = match (capability.major, capability.minor) {
        (3, _) => 192,
        (6 | 8, 0) | (7, _) => 64,
        (5.., _) => 128,
        _ => return None,
    };
    as_multiprocessors(handle.num_cores().ok()? / each)
}

fn as_multiprocessors(count: u32) -> Option<ComputeResource> {
    let count = i32::try_from(count).ok().filter(|count| *count > 0)?;
    Some(ComputeResource::new("Streaming Multiprocessor", count))
}

/// A supported numeric field of NVML.
pub fn number(handle: &Handle<'_>, field: u32) -> Option<f64> {
    use nvml_wrapper::enums::device::SampleValue;
    let samples = handle.field_values_for(&[FieldId(field)]).ok()?;
    #[expect(clippy::cast_precision_loss, reason = "counters below 2^53 for centuries")]
    match samples.into_iter().next()?.ok()?.value.ok()? {
        SampleValue::F64(value) => value.is_finite().then_some(value),
        SampleValue::U32(value) => Some(f64::from(value)),
        SampleValue::U64(value) => Some(value as f64),
        SampleValue::I64(value) => Some(value as f64),
    }
}

/// The NVLinks of each pair of GPUs as one link with their total bandwidth.
///
/// If they lead to a switch, every pair of GPUs on switches is linked, with the smaller bandwidth of the two. A GPU without a
/// handle could be mistaken for a switch: while there is one, only what NVML declares as a switch counts as one.
fn links(gpus: &[Gpu<'_>], known: &BTreeSet<String>, withheld: usize) -> Vec<Link> {
    let index: BTreeMap<&str, usize> =
        gpus.iter().enumerate().map(|(at, gpu)| (gpu.address.as_str(), at)).collect();
    let mut direct = BTreeMap::<(usize, usize), i64>::new();
    let mut switched = vec![0_i64; gpus.len()];
    for (at, gpu) in gpus.iter().enumerate() {
        let each = link_bandwidth(&gpu.handle);
        for number in 0..LINKS {
            let link = gpu.handle.link_wrapper_for(number);
            if !link.is_active().unwrap_or(false) {
                continue;
            }
            let Ok(remote) = link.remote_pci_info() else { continue };
            let remote = normal_address(&remote.bus_id);
            match index.get(remote.as_str()) {
                Some(&to) if at < to => *direct.entry((at, to)).or_default() += each,
                // Counted from its other end.
                Some(_) => {}
                None if known.contains(&remote) => {}
                None => match nvml_links::leads_to_gpu(&gpu.handle, number) {
                    Some(true) => {}
                    None if withheld > 0 => {}
                    Some(false) | None => switched[at] += each,
                },
            }
        }
    }
    for from in 0..gpus.len() {
        for to in from + 1..gpus.len() {
            let bandwidth = switched[from].min(switched[to]);
            if bandwidth > 0 {
                *direct.entry((from, to)).or_default() += bandwidth;
            }
        }
    }
    let link = |((from, to), bandwidth): ((usize, usize), i64)| {
        let (source, destination) = (gpus[from].id.clone(), gpus[to].id.clone());
        let kind = "NVLink".to_owned();
        Link {
            source,
            destination,
            kind,
            bandwidth_bytes_per_second: Some(bandwidth),
            relative_latency: None,
        }
    };
    direct.into_iter().map(link).collect()
}

/// The bandwidth of one NVLink in one direction, in bytes per second.
fn link_bandwidth(handle: &Handle<'_>) -> i64 {
    let megabytes = number(handle, field_id::NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON);
    #[expect(clippy::cast_possible_truncation, reason = "below a million")]
    let megabytes = megabytes.filter(|it| (1.0..1e6).contains(it)).map(|it| it as i64);
    // Generations 2 to 4 have 25 GB/s.
    megabytes.unwrap_or(25_000) * 1_000_000
}
