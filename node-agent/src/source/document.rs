//! Parses a file of NodeTopology manifests into topologies, or into a message about the first error.

use crds::{GROUP, NodeTopologySpec, VERSION};
use serde::{Deserialize, de::IgnoredAny};

use super::sort;

/// The used parts of a manifest. The additional fields of `kubectl get -o yaml` are ignored.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "a NodeTopology manifest")]
struct Document {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    metadata: Option<Metadata>,
    spec: Option<NodeTopologySpec>,
    #[serde(rename = "status")]
    _status: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Metadata {
    name: Option<String>,
}

/// The topologies of a text with YAML or JSON documents, each with the name of its node.
///
/// The error names the document, the field and the remedy.
pub fn parse(text: &str) -> Result<Vec<(String, NodeTopologySpec)>, String> {
    let mut found = Vec::<(String, NodeTopologySpec)>::new();
    for (index, yaml) in serde_yaml::Deserializer::from_str(text).enumerate() {
        let at = |message: String| format!("document {}: {message}", index + 1);
        let Some((name, mut spec)) = read(yaml).map_err(at)? else { continue };
        check(&spec).map_err(at)?;
        if found.iter().any(|(other, _)| *other == name) {
            return Err(at(format!(
                "the node `{name}` is described twice in this file; keep one of the two"
            )));
        }
        sort(&mut spec);
        found.push((name, spec));
    }
    Ok(found)
}

/// One document; `None` for comments or `---` alone.
fn read(yaml: serde_yaml::Deserializer<'_>) -> Result<Option<(String, NodeTopologySpec)>, String> {
    let mut unknown = Vec::new();
    let document: Option<Document> =
        serde_ignored::deserialize(yaml, |path| unknown.push(path.to_string())).map_err(|e| e.to_string())?;
    let Some(document) = document else { return Ok(None) };

    if document.kind != "NodeTopology" || document.api_version != format!("{GROUP}/{VERSION}") {
        return Err(format!(
            "it is `{}` of `{}`; expected kind `NodeTopology` of apiVersion `{GROUP}/{VERSION}`",
            document.kind, document.api_version
        ));
    }
    let name = document.metadata.and_then(|metadata| metadata.name).filter(|name| !name.is_empty());
    let name = name.ok_or("metadata.name is missing; it must be the name of the Node that is described")?;
    let unknown: Vec<_> = unknown
        .iter()
        .map(|path| readable(path))
        .filter(|path| !path.starts_with("metadata.") && !path.starts_with("status"))
        .collect();
    if !unknown.is_empty() {
        return Err(format!("unknown field {}; check its spelling", unknown.join(", ")));
    }
    let spec = document.spec.ok_or("spec is missing; write `spec: {}` for a node without devices")?;
    Ok(Some((name, spec)))
}

/// Converts a path such as `?.spec.?.devices.0.heath`, with `?` for each optional value, to `spec.devices[0].heath`.
fn readable(path: &str) -> String {
    let mut readable = String::new();
    for step in path.split('.').filter(|step| *step != "?") {
        if step.bytes().all(|byte| byte.is_ascii_digit()) {
            readable.push('[');
            readable.push_str(step);
            readable.push(']');
        } else {
            if !readable.is_empty() {
                readable.push('.');
            }
            readable.push_str(step);
        }
    }
    readable
}

/// Checks what the API server would reject with a message that does not name the file.
pub fn check(spec: &NodeTopologySpec) -> Result<(), String> {
    let is_device = |id: &str| spec.devices.iter().any(|device| device.id == id);
    for (index, device) in spec.devices.iter().enumerate() {
        let at = format!("spec.devices[{index}]");
        if device.id.is_empty() {
            return Err(format!("{at}.id is empty; each device needs a name such as `gpu-0`"));
        }
        if spec.devices[..index].iter().any(|other| other.id == device.id) {
            return Err(format!("{at}.id: `{}` is used twice; each device needs its own", device.id));
        }
        if let Some(parent) = &device.parent
            && (*parent == device.id || !is_device(parent))
        {
            return Err(format!("{at}.parent: `{parent}` is not the id of another device of spec.devices"));
        }
        for (nth, resource) in device.compute_resources.iter().enumerate() {
            if device.compute_resources[..nth].iter().any(|other| other.type_ == resource.type_) {
                let type_ = &resource.type_;
                return Err(format!(
                    "{at}.computeResources[{nth}].type: `{type_}` is listed twice; add the counts up"
                ));
            }
            if resource.count < 0 {
                return Err(format!("{at}.computeResources[{nth}].count: {} is below 0", resource.count));
            }
        }
        for (nth, space) in device.memory_spaces.iter().enumerate() {
            if space.size_bytes < 0 {
                return Err(format!("{at}.memorySpaces[{nth}].sizeBytes: {} is below 0", space.size_bytes));
            }
        }
    }
    for (index, link) in spec.links.iter().enumerate() {
        for (end, id) in [("source", &link.source), ("destination", &link.destination)] {
            if !is_device(id) {
                return Err(format!(
                    "spec.links[{index}].{end}: `{id}` is not the id of a device of spec.devices"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, spec: &str) -> String {
        format!(
            "apiVersion: cairn.dev/v1alpha1\nkind: NodeTopology\nmetadata: {{name: {name}}}\nspec: {spec}\n"
        )
    }

    fn refused(text: &str) -> String {
        parse(text).expect_err("this must be refused")
    }

    #[test]
    fn lists_are_sorted_and_defaults_filled() {
        let text = node(
            "a",
            "{devices: [{id: gpu-1, type: GPU}, {id: gpu-0, type: GPU, computeResources: [{type: b, count: 1}, {type: a, count: 2}]}],
                links: [{source: gpu-1, destination: gpu-0, kind: PCIe}, {source: gpu-0, destination: gpu-1, kind: PCIe}]}",
        );
        let found = parse(&text).unwrap();
        let (name, spec) = &found[0];
        assert_eq!(name, "a");
        assert_eq!(spec.devices.iter().map(|d| d.id.as_str()).collect::<Vec<_>>(), ["gpu-0", "gpu-1"]);
        assert_eq!(spec.devices[0].compute_resources[0].type_, "a");
        assert_eq!(spec.devices[0].health, crds::Health::Ok);
        assert_eq!(spec.links[0].source, "gpu-0");
    }

    #[test]
    fn several_documents_and_empty_ones_are_read() {
        let text = format!("# fleet\n---\n{}---\n---\n{}", node("a", "{}"), node("b", "{}"));
        let names: Vec<_> = parse(&text).unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn fields_that_kubectl_adds_are_ignored() {
        let text = "apiVersion: cairn.dev/v1alpha1\nkind: NodeTopology\nmetadata: {name: a, uid: x, labels: {b: c}, generation: 1}\nspec: {}\nstatus: {observedGeneration: 1}\n";
        assert_eq!(parse(text).unwrap().len(), 1);
    }

    #[test]
    fn json_is_read_too() {
        let text = r#"{"apiVersion":"cairn.dev/v1alpha1","kind":"NodeTopology","metadata":{"name":"a"},"spec":{"devices":[]}}"#;
        assert_eq!(parse(text).unwrap().len(), 1);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let two = format!("{}---\n{}", node("a", "{}"), node("a", "{}"));
        let gpu = |rest: &str| node("a", &format!("{{devices: [{{id: gpu-0, type: GPU, {rest}}}]}}"));
        let cases = [
            "kind: [".to_owned(),
            "just text".to_owned(),
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: []}\n".to_owned(),
            "apiVersion: cairn.dev/v1alpha1\nkind: NodeTopology\nspec: {}\n".to_owned(),
            "apiVersion: cairn.dev/v1alpha1\nkind: NodeTopology\nmetadata: {name: a}\n".to_owned(),
            two,
            gpu("health: bad"),
            gpu("heath: lost"),
            gpu("numaNode: zero"),
            gpu("parent: gpu-0"),
            gpu("computeResources: [{type: Core, count: -1}]"),
            gpu("computeResources: [{type: Core, count: 1}, {type: Core, count: 2}]"),
            gpu("memorySpaces: [{type: RAM, sizeBytes: 40Gi}]"),
            gpu("memorySpaces: [{type: RAM, sizeBytes: -1}]"),
            node("a", "{devices: [{id: gpu-0, type: GPU}, {id: gpu-0, type: GPU}]}"),
            node("a", "{devices: [{id: '', type: GPU}]}"),
            node("a", "{devices: [{id: gpu-0}]}"),
            node(
                "a",
                "{devices: [{id: gpu-0, type: GPU}], links: [{source: gpu-0, destination: gpu-9, kind: PCIe}]}",
            ),
        ];
        let messages: Vec<_> = cases.iter().map(|text| refused(text)).collect();
        insta::assert_snapshot!(messages.join("\n"));
    }
}
