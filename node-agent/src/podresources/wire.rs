//! The messages of PodResources v1 that are read, as in `node-agent/proto/podresources-v1.proto`.
//!
//! Written manually: five messages are less than a generator, and unknown fields are skipped. A test compares each
//! field with the proto.

use prost::Message;

/// A request for all pods of the node.
#[derive(Clone, PartialEq, Message)]
pub struct ListPodResourcesRequest {}

/// The pods of the node with allocations.
#[derive(Clone, PartialEq, Message)]
pub struct ListPodResourcesResponse {
    #[prost(message, repeated, tag = "1")]
    pub pod_resources: Vec<PodResources>,
}

/// The allocations of a pod.
#[derive(Clone, PartialEq, Message)]
pub struct PodResources {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub namespace: String,
    #[prost(message, repeated, tag = "3")]
    pub containers: Vec<ContainerResources>,
}

/// The allocations of a container.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerResources {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, repeated, tag = "2")]
    pub devices: Vec<ContainerDevices>,
    /// CPUs that are exclusive to the container; empty if it uses the shared pool.
    #[prost(int64, repeated, tag = "3")]
    pub cpu_ids: Vec<i64>,
    #[prost(message, repeated, tag = "4")]
    pub memory: Vec<ContainerMemory>,
    #[prost(message, repeated, tag = "5")]
    pub dynamic_resources: Vec<DynamicResource>,
}

/// Memory of one type that is pinned to NUMA domains.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerMemory {
    #[prost(string, tag = "1")]
    pub memory_type: String,
    #[prost(message, optional, tag = "3")]
    pub topology: Option<TopologyInfo>,
}

/// Devices of one resource; a resource may be listed more than once, by NUMA domain.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerDevices {
    #[prost(string, tag = "1")]
    pub resource_name: String,
    #[prost(string, repeated, tag = "2")]
    pub device_ids: Vec<String>,
}

/// The locality of a device.
#[derive(Clone, PartialEq, Message)]
pub struct TopologyInfo {
    #[prost(message, repeated, tag = "1")]
    pub nodes: Vec<NumaNode>,
}

/// A NUMA domain.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct NumaNode {
    #[prost(int64, tag = "1")]
    pub id: i64,
}

/// What was allocated for a claim.
#[expect(clippy::struct_field_names, reason = "the names of the proto")]
#[derive(Clone, PartialEq, Message)]
pub struct DynamicResource {
    #[prost(string, tag = "2")]
    pub claim_name: String,
    #[prost(string, tag = "3")]
    pub claim_namespace: String,
    #[prost(message, repeated, tag = "4")]
    pub claim_resources: Vec<ClaimResource>,
}

/// One device of a claim.
#[expect(clippy::struct_field_names, reason = "the names of the proto")]
#[derive(Clone, PartialEq, Message)]
pub struct ClaimResource {
    #[prost(string, tag = "2")]
    pub driver_name: String,
    #[prost(string, tag = "3")]
    pub pool_name: String,
    #[prost(string, tag = "4")]
    pub device_name: String,
}

#[cfg(test)]
mod tests {
    const PROTO: &str = include_str!("../../proto/podresources-v1.proto");

    /// `message.field` to type and tag, according to the proto.
    fn of_proto() -> Vec<(String, String)> {
        let mut fields = Vec::new();
        let mut message = "";
        for line in PROTO.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
            if let Some(name) = line.strip_prefix("message ") {
                message = name.split_whitespace().next().unwrap();
            } else if let Some((declared, tag)) = line.trim_end_matches(';').split_once(" = ") {
                let Some((type_, name)) = declared.rsplit_once(' ') else { continue };
                fields.push((format!("{message}.{name}").to_lowercase(), format!("{type_} {tag}")));
            }
        }
        fields
    }

    /// The same, according to the structures above.
    fn of_structs() -> Vec<(String, String)> {
        let mut fields = Vec::new();
        let (mut message, mut tag) = ("", String::new());
        for line in include_str!("wire.rs").lines().map(str::trim).take_while(|line| *line != "#[cfg(test)]")
        {
            if let Some(name) = line.strip_prefix("pub struct ") {
                message = name.split([' ', '{']).next().unwrap();
            } else if let Some(attribute) = line.strip_prefix("#[prost(") {
                tag = attribute.trim_end_matches(")]").to_owned();
            } else if let Some((name, type_)) =
                line.strip_prefix("pub ").and_then(|line| line.split_once(": "))
            {
                let words: Vec<_> = tag.split(", ").collect();
                let number = words.last().unwrap().trim_start_matches("tag = ").trim_matches('"');
                let inner = type_.trim_end_matches(',').trim_end_matches('>').rsplit('<').next().unwrap();
                let base = if words[0] == "message" {
                    inner.replace("NumaNode", "NUMANode")
                } else {
                    words[0].to_owned()
                };
                let repeated = if words.contains(&"repeated") { "repeated " } else { "" };
                fields
                    .push((format!("{message}.{name}").to_lowercase(), format!("{repeated}{base} {number}")));
            }
        }
        fields
    }

    #[test]
    fn each_field_is_as_the_proto_has_it() {
        let (proto, ours) = (of_proto(), of_structs());
        assert!(ours.len() > 15, "{ours:?}");
        let strange: Vec<_> = ours.iter().filter(|field| !proto.contains(field)).collect();
        assert!(strange.is_empty(), "{strange:?} are not in {proto:?}");
    }
}
