//! The devices that OpenCL computes on here, opened once.

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
/// The type of their compute resources: each is a device as a whole.
pub const PROCESSING_UNIT: &str = "OpenCL Processing Unit";
/// The type of their memory.
pub const RAM: &str = "OpenCL Device RAM";

pub(crate) const NAME: &str = "opencl";
/// What OpenCL answers when it has no library, and when the library finds no driver.
const ABSENT: [i32; 2] = [-2000, -1001];

/// A device, and what is needed to speak to it.
pub(crate) struct Place {
    pub described: hicr::Device,
    pub context: Context,
    pub device: Device,
    /// For copies; each processing unit has another one.
    pub queue: CommandQueue,
    /// Programs, by their text: compiled once.
    pub programs: Mutex<BTreeMap<String, Arc<Program>>>,
}

/// An error of OpenCL, and what was being done.
pub(crate) fn wrong(what: &str, error: &ClError) -> Error {
    Error::system(what, format!("OpenCL says {error}"))
}

/// All devices of this process: opened once, as contexts of one device beside each other are more than drivers are
/// tested with.
static PLACES: Mutex<Option<Arc<Vec<Place>>>> = Mutex::new(None);

/// Opens all devices, once.
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

/// The lock, also after somebody panicked with it.
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

/// A queue of a device, in order.
pub(crate) fn new_queue(context: &Context, device: &Device) -> Result<CommandQueue, ClError> {
    // SAFETY: the device is that of which the context was made; no properties: in order.
    unsafe { CommandQueue::create(context, device.id(), 0) }
}

/// What OpenCL computes on here.
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
