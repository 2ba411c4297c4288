//! HiCR's own form of a topology: its JSON, and its question whether one topology has what another one asks for.
//!
//! A HiCR topology is a list of devices, each with compute resources and memory spaces, listed one by one. Ours says more:
//! what HiCR does not know is written under further keys, which its readers pass over, so that nothing is lost on the way
//! there and back. Links, which HiCR does not have, are the list `Links`.
//!
//! ```json
//! {"Devices": [{"Type": "NUMA Domain", "NUMA Domain Id": 0,
//!               "Compute Resources": [{"Type": "Processing Unit", "Logical Processor Id": 0}],
//!               "Memory Spaces": [{"Type": "RAM", "Size": 18348191744}]}],
//!  "Metadata": null}
//! ```

mod subset;

use serde_json::{Map, Value, json};

/// A topology as HiCR has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    /// The devices, in the order of the text.
    pub devices: Vec<Device>,
    /// What the keys `Devices` and `Metadata` do not hold, as it was found.
    pub more: Map<String, Value>,
    /// What an instance template carries beside its topology; null when there is none.
    pub metadata: Value,
}

/// A device of a HiCR topology.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Device {
    /// What it is, such as `NUMA Domain`: two devices are of one kind when these are equal.
    pub type_: String,
    /// What can compute on it.
    pub compute_resources: Vec<ComputeResource>,
    /// Its memories.
    pub memory_spaces: Vec<MemorySpace>,
    /// What the other keys hold, as it was found.
    pub more: Map<String, Value>,
}

/// A compute resource of a device, such as one core.
#[derive(Clone, Debug, PartialEq)]
pub struct ComputeResource {
    /// What it is.
    pub type_: String,
    /// For how many it stands: 1, but for the key `Count`, by which we write very many.
    pub count: u64,
    /// What the other keys hold, as it was found: numbers, affinity and caches, all of which may be missing.
    pub more: Map<String, Value>,
}

/// A memory space of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct MemorySpace {
    /// What it is.
    pub type_: String,
    /// Its size in bytes.
    pub size: u64,
    /// What the other keys hold, as it was found.
    pub more: Map<String, Value>,
}

/// Why a text is no topology; says where.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is no JSON.
    #[error("it is no JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A value is not what it must be.
    #[error("{place}: {expected}")]
    Expected {
        /// Where, as in `Devices[0].Memory Spaces[1].Size`.
        place: String,
        /// What must be there.
        expected: &'static str,
    },
}

impl Topology {
    /// Reads HiCR's JSON. `{}` is the empty topology.
    ///
    /// Also reads what HiCR's OpenCL back-end writes: an empty `Type`, and the type under `Device Type`.
    pub fn read(text: &str) -> Result<Self, Error> {
        Self::from_json(serde_json::from_str(text)?)
    }

    /// Reads HiCR's JSON that is parsed already.
    pub fn from_json(value: Value) -> Result<Self, Error> {
        let mut more = object(value, "the topology")?;
        let metadata = more.remove("Metadata").unwrap_or_default();
        let devices = match more.remove("Devices") {
            // No requirement at all; anything else without devices is a mistake.
            None if more.is_empty() => Vec::new(),
            None => return Err(expected("Devices", "missing; it must be the list of the devices")),
            Some(devices) => list(devices, "Devices")?,
        };
        let devices = devices.into_iter().enumerate();
        let devices = devices.map(|(index, device)| Device::from_json(device, &format!("Devices[{index}]")));
        Ok(Self { devices: devices.collect::<Result<_, _>>()?, more, metadata })
    }

    /// HiCR's JSON.
    pub fn to_json(&self) -> Value {
        let mut object = self.more.clone();
        let devices = self.devices.iter().map(Device::to_json).collect();
        object.insert("Devices".to_owned(), Value::Array(devices));
        object.insert("Metadata".to_owned(), self.metadata.clone());
        Value::Object(object)
    }

    /// Whether this topology has all that `wanted` asks for.
    ///
    /// For each wanted device there must be a device of its own, of the same type, that has at least its compute
    /// resources by type, and for each of its memory spaces a space of its own of the same type and at least the
    /// size. Devices are assigned by a maximum matching: if there is a way at all, it is found. HiCR's own function
    /// takes the first device that fits, and can miss it.
    pub fn has(&self, wanted: &Self) -> bool {
        subset::is_subset(&self.devices, &wanted.devices)
    }
}

impl Device {
    fn from_json(value: Value, place: &str) -> Result<Self, Error> {
        let mut more = object(value, place)?;
        let mut type_ = text(&mut more, "Type", place)?;
        if type_.is_empty() {
            if let Some(Value::String(of_opencl)) = more.get("Device Type") {
                type_.clone_from(of_opencl);
                more.remove("Device Type");
            } else {
                return Err(expected(&format!("{place}.Type"), "empty; it must say what the device is"));
            }
        }
        let mut part = |key: &str| {
            let place = format!("{place}.{key}");
            let value = more.remove(key).ok_or_else(|| expected(&place, "missing; it must be a list"))?;
            let parts = list(value, &place)?.into_iter().enumerate();
            Ok::<_, Error>(parts.map(move |(index, part)| (format!("{place}[{index}]"), part)))
        };
        let (resources, spaces) = (part("Compute Resources")?, part("Memory Spaces")?);
        let compute_resources = resources.map(|(place, value)| ComputeResource::from_json(value, &place));
        let memory_spaces = spaces.map(|(place, value)| MemorySpace::from_json(value, &place));
        Ok(Self {
            type_,
            compute_resources: compute_resources.collect::<Result<_, _>>()?,
            memory_spaces: memory_spaces.collect::<Result<_, _>>()?,
            more,
        })
    }

    fn to_json(&self) -> Value {
        let mut object = self.more.clone();
        object.insert("Type".to_owned(), json!(self.type_));
        let resources = self.compute_resources.iter().map(ComputeResource::to_json).collect();
        object.insert("Compute Resources".to_owned(), Value::Array(resources));
        let spaces = self.memory_spaces.iter().map(MemorySpace::to_json).collect();
        object.insert("Memory Spaces".to_owned(), Value::Array(spaces));
        Value::Object(object)
    }
}

impl ComputeResource {
    fn from_json(value: Value, place: &str) -> Result<Self, Error> {
        let mut more = object(value, place)?;
        let type_ = text(&mut more, "Type", place)?;
        let count = match more.remove("Count") {
            None => 1,
            Some(count) => unsigned(&count, place, "Count")?,
        };
        Ok(Self { type_, count, more })
    }

    fn to_json(&self) -> Value {
        let mut object = self.more.clone();
        object.insert("Type".to_owned(), json!(self.type_));
        if self.count != 1 {
            object.insert("Count".to_owned(), json!(self.count));
        }
        Value::Object(object)
    }
}

impl MemorySpace {
    fn from_json(value: Value, place: &str) -> Result<Self, Error> {
        let mut more = object(value, place)?;
        let type_ = text(&mut more, "Type", place)?;
        let size = more.remove("Size").unwrap_or_default();
        Ok(Self { type_, size: unsigned(&size, place, "Size")?, more })
    }

    fn to_json(&self) -> Value {
        let mut object = self.more.clone();
        object.insert("Type".to_owned(), json!(self.type_));
        object.insert("Size".to_owned(), json!(self.size));
        Value::Object(object)
    }
}

fn expected(place: &str, expected: &'static str) -> Error {
    Error::Expected { place: place.to_owned(), expected }
}

fn object(value: Value, place: &str) -> Result<Map<String, Value>, Error> {
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(expected(place, "not a JSON object")),
    }
}

fn list(value: Value, place: &str) -> Result<Vec<Value>, Error> {
    match value {
        Value::Array(list) => Ok(list),
        _ => Err(expected(place, "not a list")),
    }
}

fn text(object: &mut Map<String, Value>, key: &str, place: &str) -> Result<String, Error> {
    match object.remove(key) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(expected(&format!("{place}.{key}"), "missing, or not a text")),
    }
}

fn unsigned(value: &Value, place: &str, key: &str) -> Result<u64, Error> {
    value.as_u64().ok_or_else(|| expected(&format!("{place}.{key}"), "missing, or not an unsigned number"))
}
