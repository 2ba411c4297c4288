//! The OpenCL devices of this machine, opened once.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use opencl3::{
    command_queue::CommandQueue,
    context::Context,
    device::{CL_DEVICE_TYPE_ALL, Device},
    error_codes::ClError,
    platform::get_platforms,
    program::Program,
};
use runtime::{
    Capability, Error, TopologyManager,
    hicr::{self, ComputeResource, MemorySpace, Topology},
};
use serde_json::{Map, Value};

/// The type of these devices.
pub const DEVICE: &str = "OpenCL Device";
/// The type of their compute resources, one per device.
pub const PROCESSING_UNIT: &str = "OpenCL Processing Unit";
/// The type of their memory.
pub const RAM: &str = "OpenCL Device RAM";

pub(crate) const NAME: &str = "opencl";
/// Error codes for a missing library and for a missing driver.
const ABSENT: [i32; 2] = [-2000, -1001];

/// A device with its context and queue.
pub(crate) struct Place {
    pub described: hicr::Device,
    pub context: Context,
    pub device: Device,
    /// For copies; each processing unit has its own.
    pub queue: CommandQueue,
    /// Compiled programs by source.
    pub programs: Mutex<BTreeMap<String, Arc<Program>>>,
}

/// An OpenCL error with the operation that failed.
pub(crate) fn wrong(what: &str, error: &ClError) -> Error {
    Error::system(what, format!("OpenCL error {error}"))
}

/// All devices of this process. They are opened once, since drivers are hardly tested with several contexts per
/// device.
static PLACES: Mutex<Option<Arc<Vec<Place>>>> = Mutex::new(None);

/// Opens all devices once.
pub(crate) fn places() -> Result<Arc<Vec<Place>>, Error> {
    let mut kept = lock(&PLACES);
    if let Some(places) = &*kept {
        return Ok(Arc::clone(places));
    }
    let platforms = match get_platforms() {
        Err(ClError(code)) if ABSENT.contains(&code) => Vec::new(),
        platforms => platforms.map_err(|error| wrong("list the platforms of OpenCL", &error))?,
    };
    let mut places = Vec::new();
    for platform in platforms {
        for id in platform.get_devices(CL_DEVICE_TYPE_ALL).unwrap_or_default() {
            places.push(place(Device::new(id), places.len())?);
        }
    }
    Ok(Arc::clone(kept.insert(Arc::new(places))))
}

/// Locks a mutex and ignores poisoning.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn place(device: Device, number: usize) -> Result<Place, Error> {
    let failed = |error: ClError| wrong("open a device", &error);
    let text = |text: Result<String, ClError>| text.unwrap_or_default().trim().to_owned();
    let numbered = || Map::from_iter([("Device Id".to_owned(), Value::from(number))]);
    let size = device.global_mem_size().map_err(failed)?;
    let mut more = numbered();
    more.insert("Name".to_owned(), text(device.name()).into());
    more.insert("Vendor".to_owned(), text(device.vendor()).into());
    let described = hicr::Device {
        type_: DEVICE.to_owned(),
        compute_resources: vec![ComputeResource {
            type_: PROCESSING_UNIT.to_owned(),
            count: 1,
            more: numbered(),
        }],
        memory_spaces: vec![MemorySpace { type_: RAM.to_owned(), size, more: numbered() }],
        more,
    };
    let context = Context::from_device(&device).map_err(failed)?;
    let queue = new_queue(&context, &device).map_err(failed)?;
    Ok(Place { described, context, device, queue, programs: Mutex::default() })
}

/// Creates an in-order queue of a device.
pub(crate) fn new_queue(context: &Context, device: &Device) -> Result<CommandQueue, ClError> {
    // SAFETY: the context was created for the device; without properties the queue is in order.
    unsafe { CommandQueue::create(context, device.id(), 0) }
}

/// Reports the OpenCL devices.
#[derive(Clone)]
pub struct Devices(Arc<Vec<Place>>);

impl Devices {
    pub(crate) fn new(places: Arc<Vec<Place>>) -> Self {
        Self(places)
    }
}

impl TopologyManager for Devices {
    fn name(&self) -> &'static str {
        NAME
    }

    fn supports(&self, _capability: Capability) -> bool {
        false
    }

    fn query(&self) -> Result<Topology, Error> {
        let devices = self.0.iter().map(|place| place.described.clone()).collect();
        Ok(Topology { devices, ..Topology::default() })
    }
}
