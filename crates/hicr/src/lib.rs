//! HiCR topologies: JSON format, and the test whether one topology satisfies another.
//!
//! A HiCR topology is a list of devices with compute resources and memory spaces. Additional properties are stored under
//! further keys, which HiCR ignores, so that the conversion is lossless. `Links` lists the links between devices.
//!
//! ```json
//! {"Devices": [{"Type": "NUMA Domain", "NUMA Domain Id": 0,
//!               "Compute Resources": [{"Type": "Processing Unit", "Logical Processor Id": 0}],
//!               "Memory Spaces": [{"Type": "RAM", "Size": 18348191744}]}],
//!  "Metadata": null}
//! ```

mod subset;

use serde_json::{Map, Value, json};

/// A HiCR topology.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    /// The devices, in document order.
    pub devices: Vec<Device>,
    /// All other keys, verbatim.
    pub more: Map<String, Value>,
    /// The metadata of an instance template; null if there is none.
    pub metadata: Value,
}

/// A device of a HiCR topology.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Device {
    /// The type of the device, such as `NUMA Domain`.
    pub type_: String,
    /// The compute resources.
    pub compute_resources: Vec<ComputeResource>,
    /// The memory spaces.
    pub memory_spaces: Vec<MemorySpace>,
    /// All other keys, verbatim.
    pub more: Map<String, Value>,
}

/// A compute resource of a device, such as one core.
#[derive(Clone, Debug, PartialEq)]
pub struct ComputeResource {
    /// The type of the compute resource.
    pub type_: String,
    /// The number of identical resources: the key `Count` (an extension of Cairn), or 1.
    pub count: u64,
    /// All other keys, verbatim, such as ids, affinity and caches.
    pub more: Map<String, Value>,
}

/// A memory space of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct MemorySpace {
    /// The type of the memory space.
    pub type_: String,
    /// The size in bytes.
    pub size: u64,
    /// All other keys, verbatim.
    pub more: Map<String, Value>,
}

/// Why a text is not a topology.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text is not JSON.
    #[error("invalid JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A value is missing or invalid.
    #[error("{path}: {expected}")]
    Expected {
        /// The path of the value, such as `Devices[0].Memory Spaces[1].Size`.
        path: String,
        /// What is expected of the value.
        expected: &'static str,
    },
}

impl Topology {
    /// Parses HiCR's JSON. `{}` is the empty topology.
    ///
    /// Accepts the output of HiCR's OpenCL backend, which has an empty `Type` and the type under `Device Type`.
    pub fn read(text: &str) -> Result<Self, Error> {
        Self::from_json(serde_json::from_str(text)?)
    }

    /// Reads a topology from parsed JSON.
    pub fn from_json(value: Value) -> Result<Self, Error> {
        let mut more = object(value, "the topology")?;
        let metadata = more.remove("Metadata").unwrap_or_default();
        let devices = match more.remove("Devices") {
            // `{}` requires nothing; any other object without devices is an error.
            None if more.is_empty() => Vec::new(),
            None => return Err(expected("Devices", "the list of devices is required")),
            Some(devices) => list(devices, "Devices")?,
        };
        let devices = devices.into_iter().enumerate();
        let devices = devices.map(|(index, device)| Device::from_json(device, &format!("Devices[{index}]")));
        Ok(Self { devices: devices.collect::<Result<_, _>>()?, more, metadata })
    }

    /// The topology as HiCR's JSON.
    pub fn to_json(&self) -> Value {
        let mut object = self.more.clone();
        let devices = self.devices.iter().map(Device::to_json).collect();
        object.insert("Devices".to_owned(), Value::Array(devices));
        object.insert("Metadata".to_owned(), self.metadata.clone());
        Value::Object(object)
    }

    /// Whether this topology satisfies `required`.
    ///
    /// Each required device is matched with a distinct device of the same type that has at least its compute resources
    /// by type, and a distinct memory space of the same type and at least the same size for each of its memory spaces.
    /// A maximum matching finds an assignment if one exists. HiCR's own greedy function can miss it.
    pub fn satisfies(&self, required: &Self) -> bool {
        subset::is_subset(&self.devices, &required.devices)
    }
}

impl Device {
    fn from_json(value: Value, path: &str) -> Result<Self, Error> {
        let mut more = object(value, path)?;
        let mut type_ = text(&mut more, "Type", path)?;
        if type_.is_empty() {
            if let Some(Value::String(opencl_type)) = more.get("Device Type") {
                type_.clone_from(opencl_type);
                more.remove("Device Type");
            } else {
                return Err(expected(&format!("{path}.Type"), "must not be empty"));
            }
        }
        let mut part = |key: &str| {
            let path = format!("{path}.{key}");
            let value = more.remove(key).ok_or_else(|| expected(&path, "a list is required"))?;
            let parts = list(value, &path)?.into_iter().enumerate();
            Ok::<_, Error>(parts.map(move |(index, part)| (format!("{path}[{index}]"), part)))
        };
        let (resources, spaces) = (part("Compute Resources")?, part("Memory Spaces")?);
        let compute_resources = resources.map(|(path, value)| ComputeResource::from_json(value, &path));
        let memory_spaces = spaces.map(|(path, value)| MemorySpace::from_json(value, &path));
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
    fn from_json(value: Value, path: &str) -> Result<Self, Error> {
        let mut more = object(value, path)?;
        let type_ = text(&mut more, "Type", path)?;
        let count = match more.remove("Count") {
            None => 1,
            Some(count) => unsigned(&count, path, "Count")?,
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
    fn from_json(value: Value, path: &str) -> Result<Self, Error> {
        let mut more = object(value, path)?;
        let type_ = text(&mut more, "Type", path)?;
        let size = more.remove("Size").unwrap_or_default();
        Ok(Self { type_, size: unsigned(&size, path, "Size")?, more })
    }

    fn to_json(&self) -> Value {
        let mut object = self.more.clone();
        object.insert("Type".to_owned(), json!(self.type_));
        object.insert("Size".to_owned(), json!(self.size));
        Value::Object(object)
    }
}

fn expected(path: &str, expected: &'static str) -> Error {
    Error::Expected { path: path.to_owned(), expected }
}

fn object(value: Value, path: &str) -> Result<Map<String, Value>, Error> {
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(expected(path, "must be a JSON object")),
    }
}

fn list(value: Value, path: &str) -> Result<Vec<Value>, Error> {
    match value {
        Value::Array(list) => Ok(list),
        _ => Err(expected(path, "must be a list")),
    }
}

fn text(object: &mut Map<String, Value>, key: &str, path: &str) -> Result<String, Error> {
    match object.remove(key) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(expected(&format!("{path}.{key}"), "must be a string")),
    }
}

fn unsigned(value: &Value, path: &str, key: &str) -> Result<u64, Error> {
    value.as_u64().ok_or_else(|| expected(&format!("{path}.{key}"), "must be an unsigned integer"))
}
